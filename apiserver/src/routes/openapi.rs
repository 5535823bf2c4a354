//! `/openapi/v2`, `/openapi/v3`: documents assembled once from the registry.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use orlop_openapi::document::{Documents, ResourceDoc, SubresourceDoc};

use crate::encode::answer;
use crate::query::Query;
use crate::registry::{KINDS, Scope, StatusSubresource};
use crate::server::Inner;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const IMMUTABLE: &str = "public, immutable";

pub(super) fn router() -> Router<Arc<Inner>> {
    Router::new()
        .route("/openapi/v2", get(v2))
        .route("/openapi/v3", get(v3_index))
        .route("/openapi/v3/", get(v3_index))
        .route("/openapi/v3/{*path}", get(v3))
        .layer(axum::middleware::from_fn(super::tagged::entity_tag))
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let resources: Vec<ResourceDoc> = KINDS
        .iter()
        .map(|kind| {
            let names = kind.names();
            let mut subresources: Vec<SubresourceDoc> = kind
                .subresources()
                .iter()
                .map(|sub| SubresourceDoc {
                    name: sub.name,
                    group: sub.group,
                    version: sub.version,
                    kind: sub.kind,
                    schema: sub.schema,
                    verbs: sub.verbs,
                })
                .collect();
            if kind.policy().status != StatusSubresource::None {
                subresources.push(SubresourceDoc {
                    name: "status",
                    group: names.group,
                    version: names.version,
                    kind: names.kind,
                    schema: names.schema,
                    verbs: &["get", "patch", "update"],
                });
            }
            ResourceDoc {
                group: names.group,
                version: names.version,
                kind: names.kind,
                plural: names.plural,
                namespaced: kind.scope() == Scope::Namespaced,
                schema: names.schema,
                verbs: kind.verbs(),
                subresources,
            }
        })
        .collect();
    Documents::new(&resources)
});

async fn v2(headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = if accept.contains("proto-openapi.spec.v2") {
        answer::body(200, V2_PROTOBUF, DOCUMENTS.v2_protobuf().body.to_vec())
    } else {
        answer::body(200, "application/json", DOCUMENTS.v2_json().body.to_vec())
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    response
}

async fn v3_index() -> Response {
    // Upstream labels this document as text.
    answer::body(200, "text/plain; charset=utf-8", DOCUMENTS.v3_index().body.to_vec())
}

async fn v3(Path(path): Path<String>, RawQuery(query): RawQuery) -> Response {
    let Some(document) = DOCUMENTS.v3(path.trim_end_matches('/')) else {
        // Upstream answers this one with nothing but the code.
        return StatusCode::NOT_FOUND.into_response();
    };
    let query = Query::parse(query.as_deref());
    match query.get("hash") {
        Some(given) if given != document.hash => {
            let mut response = answer::body(301, "text/plain; charset=utf-8", Vec::new());
            if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={}", document.hash))
            {
                response.headers_mut().insert(header::LOCATION, location);
            }
            response
        }
        given => {
            let mut response = answer::body(200, "application/json", document.body.to_vec());
            if given.is_some() {
                response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
            }
            response
        }
    }
}
