//! Aggregated discovery: one document for all groups.

use std::sync::LazyLock;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::form::refuse;
use super::groups::{VERSION, groups};
use super::resources::{kinds_of, subresources, verbs};
use crate::aggregation::Remotes;
use crate::custom::Served;
use crate::custom::documents::Discovery;
use crate::encode::negotiate::Media;
use crate::encode::{answer, protobuf};
use crate::insight;
use crate::registry::Scope;
use orlop_api::status::ApiError;

/// The aggregated document of the core group.
pub(super) static CORE: LazyLock<Discovery> =
    LazyLock::new(|| document(&Served::default(), &Remotes::default(), vec![("", vec![VERSION])]));

/// The aggregated document of the named groups.
pub(crate) fn named(served: &Served, remotes: &Remotes) -> Discovery {
    document(served, remotes, groups(served, remotes))
}

fn document(served: &Served, remotes: &Remotes, groups: Vec<(&str, Vec<&str>)>) -> Discovery {
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|version| match remotes.get(group, version) {
                    None => json!({
                        "version": version, "resources": discovered(served, group, version),
                        "freshness": "Current",
                    }),
                    Some(remote) => json!({
                        "version": version, "resources": &*remote.resources,
                        "freshness": if remote.is_current { "Current" } else { "Stale" },
                    }),
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
            json!({
                "metadata": metadata,
                "versions": versions,
            })
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let bytes = list.to_string().into_bytes();
    let tag = Sha512::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
    Discovery { bytes: bytes.into(), tag }
}

fn discovered(served: &Served, group: &str, version: &str) -> Vec<Value> {
    let mut list: Vec<Value> = kinds_of(served, group, version)
        .into_iter()
        .map(|kind| {
            let names = kind.names();
            let scope = match kind.scope() {
                Scope::Cluster => "Cluster",
                Scope::Namespaced => "Namespaced",
            };
            // The version contains the group and the version of a built-in kind.
            let kind_version =
                if kind.definition().is_some() { (names.group, names.version) } else { ("", "") };
            let mut entry = json!({
                "resource": names.plural,
                "responseKind": {"group": kind_version.0, "version": kind_version.1, "kind": names.kind},
                "scope": scope, "singularResource": names.singular, "verbs": verbs(&*kind),
            });
            if !names.short.is_empty() {
                entry["shortNames"] = json!(names.short);
            }
            if !names.categories.is_empty() {
                entry["categories"] = json!(names.categories);
            }
            let subs: Vec<Value> = subresources(&*kind)
                .into_iter()
                .map(|sub| {
                    let own = (sub.group, sub.version) == (names.group, names.version);
                    let (group, version) = if own { kind_version } else { (sub.group, sub.version) };
                    json!({
                        "subresource": sub.name,
                        "responseKind": {"group": group, "version": version, "kind": sub.kind},
                        "verbs": sub.verbs,
                    })
                })
                .collect();
            if !subs.is_empty() {
                entry["subresources"] = subs.into();
            }
            entry
        })
        .collect();
    if group.is_empty() {
        list.push(json!({
            "resource": "bindings", "responseKind": {"group": "", "version": "", "kind": "Binding"},
            "scope": "Namespaced", "singularResource": "binding", "verbs": ["create"],
        }));
    }
    if served.lists_own && (group, version) == (insight::GROUP, insight::VERSION) {
        list.extend(insight::document::discovered());
    }
    list.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    list
}

pub(super) fn aggregated(headers: &HeaderMap, media: Media, document: &Discovery) -> Response {
    let tag = format!("\"{}\"", document.tag);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = if known {
        answer::body(304, content_type(media), Vec::new())
    } else {
        match encoded(media, document) {
            Ok(bytes) => answer::body(200, content_type(media), bytes),
            Err(error) => return refuse(headers, &error),
        }
    };
    let own = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        own.insert(header::ETAG, tag);
    }
    own.insert(header::VARY, HeaderValue::from_static("Accept"));
    own.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn content_type(media: Media) -> &'static str {
    match media {
        Media::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    }
}

/// The document in a format. It is stored as JSON, which most clients request.
fn encoded(media: Media, document: &Discovery) -> Result<Bytes, ApiError> {
    let value = || serde_json::from_slice::<Value>(&document.bytes).map_err(ApiError::internal);
    Ok(match media {
        Media::Json => document.bytes.clone(),
        Media::Yaml => serde_saphyr::to_string(&value()?).map_err(ApiError::internal)?.into(),
        Media::Protobuf => protobuf::encode(&value()?).map_err(ApiError::not_acceptable)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_document_has_a_form_in_every_format() {
        for media in [Media::Json, Media::Yaml, Media::Protobuf] {
            let bytes = encoded(media, &CORE).unwrap_or_default();
            assert!(bytes.windows(4).any(|part| part == b"pods"), "{media:?}");
        }
    }
}
