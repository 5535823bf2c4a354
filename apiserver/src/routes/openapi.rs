//! OpenAPI documents at `/openapi/v2` and `/openapi/v3`: assembled once from the registry, and again for custom
//! kinds whenever those change.

use std::sync::{Arc, LazyLock, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use orlop_openapi::document::{
    Document, Documents, OwnSchema, ResourceDoc, SubresourceDoc, index, v3_protobuf,
};

use crate::custom::Served;
use crate::custom::documents::CustomOpenApi;
use crate::encode::answer;
use crate::encode::negotiate::Media;
use crate::insight::document;
use crate::registry::{KINDS, Kind, Scope, StatusSubresource};
use crate::state::Inner;
use orlop_api::kind::DeleteAnswer;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const IMMUTABLE: &str = "public, immutable";

pub(super) fn router() -> Router<Arc<Inner>> {
    Router::new()
        .route("/openapi/v2", get(v2))
        .route("/openapi/v3", get(v3_index))
        .route("/openapi/v3/", get(v3_index))
        .route("/openapi/v3/{*path}", get(v3))
        .layer(axum::middleware::from_fn(super::tagged::entity_tag))
}

static GIVEN: LazyLock<Documents> = LazyLock::new(|| Documents::new(&given()));

/// The built-in kinds, as input for the documents.
fn given() -> Vec<ResourceDoc> {
    KINDS.iter().map(|kind| resource(*kind)).chain([bindings()]).collect()
}

/// The bindings of pods, which are not stored and therefore have no kind in the registry.
fn bindings() -> ResourceDoc {
    ResourceDoc {
        group: "",
        version: "v1",
        kind: "Binding",
        list_kind: "BindingList".to_owned(),
        plural: "bindings",
        namespaced: true,
        schema: "io.k8s.api.core.v1.Binding",
        own_schema: None,
        selectable: Vec::new(),
        verbs: &["create"],
        delete_returns_object: false,
        subresources: Vec::new(),
    }
}

impl CustomOpenApi {
    fn of(served: &Served) -> Self {
        let mut resources: Vec<ResourceDoc> = served
            .kinds()
            .map(|kind| {
                let own = kind.clone();
                let own_schema = Some(OwnSchema::new(move || own.openapi_schema()));
                ResourceDoc { own_schema, selectable: kind.selectable().to_vec(), ..resource(&**kind) }
            })
            .collect();
        resources.sort_by(|a, b| (a.group, a.version, a.plural).cmp(&(b.group, b.version, b.plural)));
        let own = Documents::new(&resources);
        CustomOpenApi {
            own,
            index: OnceLock::new(),
            lists_own: served.lists_own,
            all: OnceLock::new(),
            resources,
        }
    }

    fn index(&self) -> &Document {
        self.index.get_or_init(|| self.index_with(std::iter::empty()))
    }

    /// The index with the documents of other servers.
    fn index_with(&self, others: impl Iterator<Item = String>) -> Document {
        let own = self.own.v3_entries().filter(|(path, _)| GIVEN.v3(path).is_none());
        let ours = self.lists_own.then(|| (document::PATH, document::document().hash.as_str()));
        let ours = ours.filter(|(path, _)| self.own.v3(path).is_none());
        index(GIVEN.v3_entries().chain(own).chain(ours), others)
    }

    fn all(&self) -> &Documents {
        self.all.get_or_init(|| {
            let mut all = given();
            all.extend(self.resources.iter().cloned());
            Documents::new(&all)
        })
    }
}

fn resource(kind: &dyn Kind) -> ResourceDoc {
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
        list_kind: kind.list_kind(),
        plural: names.plural,
        namespaced: kind.scope() == Scope::Namespaced,
        schema: names.schema,
        own_schema: None,
        selectable: Vec::new(),
        verbs: kind.verbs(),
        // Upstream describes the response to the delete of a namespace as a Status, although it returns the namespace.
        delete_returns_object: kind.policy().delete_answer == DeleteAnswer::Object
            && names.kind != "Namespace",
        subresources,
    }
}

/// The documents of the kinds that are currently served. They are built on first use, which takes seconds for many large
/// schemas: [`Served::building`] lets other requests wait for that without blocking a thread each.
fn openapi(served: &Served) -> &CustomOpenApi {
    served.openapi.get_or_init(|| CustomOpenApi::of(served))
}

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The format that a client prefers; `None` if the server offers none of the accepted ones. `version` is that of
/// OpenAPI: `v2` or `v3`.
fn requested_form(accept: &str, version: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Json);
    }
    let quality = |clause: &str| {
        let given = clause.split(';').skip(1).find_map(|part| part.trim().strip_prefix("q="));
        given.and_then(|text| text.parse::<f32>().ok()).unwrap_or(1.0)
    };
    let mut clauses: Vec<&str> = accept.split(',').map(str::trim).collect();
    // The sort is stable: clauses of equal quality stay in the client's order.
    clauses.sort_by(|a, b| quality(b).total_cmp(&quality(a)));
    clauses.into_iter().find_map(|clause| match clause.split(';').next().unwrap_or_default().trim() {
        "*/*" | "application/*" | "application/json" => Some(Form::Json),
        other => {
            let spec = other.strip_prefix("application/com.github.proto-openapi.spec.")?;
            // Older clients separate the version with `@`.
            matches!(spec.strip_prefix(version)?, ".v1.0+protobuf" | "@v1.0+protobuf")
                .then_some(Form::Protobuf)
        }
    })
}

/// A document with its entity tag.
fn document_answer(content_type: &'static str, document: &Document) -> Response {
    let mut response = answer::body(200, content_type, document.body.clone());
    if let Ok(tag) = HeaderValue::from_str(&document.tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

async fn v2(State(server): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    let Some(form) = requested_form(accept(&headers), "v2") else {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    };
    let served = server.kinds.now();
    let _one = served.building.lock().await;
    let documents = openapi(&served).all();
    let mut response = match form {
        Form::Protobuf => document_answer(V2_PROTOBUF, documents.v2_protobuf()),
        Form::Json => document_answer("application/json", documents.v2_json()),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    response
}

async fn v3_index(State(server): State<Arc<Inner>>) -> Response {
    let served = server.kinds.now();
    // Upstream labels this document as text.
    let _one = served.building.lock().await;
    let form = "text/plain; charset=utf-8";
    let remotes = server.aggregation.now();
    if remotes.with_openapi().next().is_none() {
        return document_answer(form, openapi(&served).index());
    }
    let cache = &server.aggregation.openapi_index;
    let index = cache.get(&served, &remotes).unwrap_or_else(|| {
        let others = remotes.with_openapi().map(|remote| remote.openapi_name());
        let index = Arc::new(openapi(&served).index_with(others));
        cache.set(served.clone(), remotes, index.clone());
        index
    });
    document_answer(form, &index)
}

async fn v3(
    State(server): State<Arc<Inner>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(form) = requested_form(accept(&headers), "v3") else {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    };
    let served = server.kinds.now();
    let name = path.trim_end_matches('/');
    let own = (served.lists_own && name == document::PATH).then(document::document);
    let _one;
    let found = match GIVEN.v3(name) {
        Some(given) => Some(given),
        None => {
            _one = served.building.lock().await;
            openapi(&served).own.v3(name).or(own)
        }
    };
    let Some(document) = found else {
        // Upstream sends only the status code here.
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
            let mut response = match v3_answer(form, document) {
                Ok(response) => response,
                Err(error) => return answer::error(&ApiError::internal(error), Media::Json, false),
            };
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
            if given.is_some() {
                response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
            }
            response
        }
    }
}

/// A v3 document in a format. It is stored as JSON, which most clients request.
fn v3_answer(form: Form, document: &Document) -> serde_json::Result<Response> {
    let mut response = document_answer("application/json", document);
    if form == Form::Protobuf {
        *response.body_mut() = Body::from(v3_protobuf(document)?);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(V3_PROTOBUF));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_selects_the_format() {
        for (accept, want) in [
            ("", Some(Form::Json)),
            ("*/*", Some(Form::Json)),
            ("application/json", Some(Form::Json)),
            (V3_PROTOBUF, Some(Form::Protobuf)),
            ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf", Some(Form::Protobuf)),
            (
                "application/com.github.proto-openapi.spec.v3@v1.0+protobuf,application/json",
                Some(Form::Protobuf),
            ),
            (
                "application/json;q=0.5, application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
                Some(Form::Protobuf),
            ),
            (V2_PROTOBUF, None),
            ("text/html, */*;q=0.1", Some(Form::Json)),
            ("application/yaml", None),
            ("text/html", None),
        ] {
            assert_eq!(requested_form(accept, "v3"), want, "{accept}");
        }
    }

    #[test]
    fn every_document_has_a_protobuf_form() {
        for (path, _) in GIVEN.v3_entries() {
            let document = GIVEN.v3(path).expect("the index lists it");
            let encoded = v3_protobuf(document).expect("documents are JSON");
            assert!(encoded.starts_with(b"\x0a\x053.0.0"), "{path}");
        }
    }
}
