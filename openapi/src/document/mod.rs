//! The OpenAPI documents, assembled from the registry of kinds.
//!
//! [`Documents`] builds and caches them; `v3` and `v2` define their contents, `gnostic` encodes
//! version 2 in protobuf; `schemas` is shared by both versions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256, Sha512};

use crate::resource::groups;
pub use crate::resource::{OwnSchema, ResourceDoc, SubresourceDoc};
use crate::{endpoints, gnostic, own, v2, v3};

/// A document and its hash.
#[derive(Debug)]
pub struct Document {
    /// The document as JSON.
    pub body: Bytes,
    /// SHA-512 of the body in upper-case hexadecimal: the `hash` parameter and the `ETag`.
    pub hash: String,
    /// SHA-256 of the body in upper-case hexadecimal, in quotes: the entity tag.
    pub tag: String,
}

impl Document {
    /// Creates a document and computes its hash.
    pub fn new(body: Vec<u8>) -> Self {
        let hash = hex(&Sha512::digest(&body));
        let tag = format!("\"{}\"", hex(&Sha256::digest(&body)));
        Document { body: body.into(), hash, tag }
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Encodes an OpenAPI v3 document in protobuf, as gnostic's `openapi.v3.Document`.
///
/// # Errors
/// The body of the document is not JSON.
pub fn v3_protobuf(document: &Document) -> serde_json::Result<Vec<u8>> {
    Ok(gnostic::v3::encode(&serde_json::from_slice(&document.body)?))
}

/// All documents of a server. Each is built and cached on its first request.
#[derive(Debug)]
pub struct Documents {
    resources: Vec<ResourceDoc>,
    v3: OnceLock<BTreeMap<String, Document>>,
    v2_json: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

impl Documents {
    /// The documents of a server with these resources.
    pub fn new(resources: &[ResourceDoc]) -> Self {
        Documents {
            resources: resources.to_vec(),
            v3: OnceLock::new(),
            v2_json: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
        }
    }

    /// The document of a group and version, by its path: `api/v1`, `apis/storage.k8s.io/v1`.
    pub fn v3(&self, path: &str) -> Option<&Document> {
        self.v3_all().get(path)
    }

    /// `/openapi/v2` as JSON.
    pub fn v2_json(&self) -> &Document {
        self.v2_json.get_or_init(|| Document::new(v2::json(&self.resources).unwrap_or_default()))
    }

    /// `/openapi/v2` as gnostic's `openapi.v2.Document` in protobuf.
    pub fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf.get_or_init(|| Document::new(v2::protobuf(&self.resources)))
    }

    /// The paths of the documents with their hashes, for an index that covers several sets.
    pub fn v3_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.v3_all().iter().map(|(path, document)| (path.as_str(), document.hash.as_str()))
    }

    fn v3_all(&self) -> &BTreeMap<String, Document> {
        self.v3.get_or_init(|| {
            let mut by_path: BTreeMap<String, Vec<&ResourceDoc>> = BTreeMap::new();
            for resource in &self.resources {
                by_path.entry(resource.document_path()).or_default().push(resource);
            }
            let document = |(path, resources): (String, Vec<&ResourceDoc>)| {
                (path, Document::new(v3::document(&resources)))
            };
            let mut others = endpoints::documents(&groups(&self.resources));
            others.push((own::PATH.to_owned(), own::document()));
            let others = others
                .into_iter()
                .map(|(path, document)| (path, Document::new(document.to_string().into_bytes())));
            by_path.into_iter().map(document).chain(others).collect()
        })
    }
}

/// The index at `/openapi/v3`: the paths of the documents and their hashes. Those of other servers (`without_hash`) have none, because
/// they change at any time.
pub fn index<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    without_hash: impl Iterator<Item = String>,
) -> Document {
    let shown = |path: String, url: String| (path, json!({ "serverRelativeURL": url }));
    let entries = entries.map(|(path, hash)| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        shown(path.to_owned(), url)
    });
    let others = without_hash.map(|path| {
        let url = format!("/openapi/v3/{path}");
        shown(path, url)
    });
    let paths: Map<String, Value> = entries.chain(others).collect();
    Document::new(json!({ "paths": paths }).to_string().into_bytes())
}

#[cfg(test)]
mod tests;
