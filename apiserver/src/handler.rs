//! The way of a request: what every answer carries, and from method and path to a verb.

use std::sync::Arc;

use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use tokio::time::Instant;

use crate::dispatch::{self, Resource, Target};
use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::metrics::{self, InFlight, Labels};
use crate::query::Query;
use crate::registry::{Scope, by_resource};
use crate::server::Inner;
use crate::status::ApiError;
use crate::verbs::request::Request;
use crate::verbs::write::Part;
use crate::verbs::{binding, create, delete, delete_collection, finalize, get, list, patch, update, watch};

/// The largest body that is read, bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const AUDIT_ID_MAX: usize = 64;

/// Gives every answer the headers that upstream's have.
pub(crate) async fn frame(
    State(_server): State<Arc<Inner>>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let audit = request
        .headers()
        .get(&AUDIT_ID)
        .filter(|id| id.len() <= AUDIT_ID_MAX)
        .cloned()
        .or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).ok());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if let Some(audit) = audit {
        headers.insert(AUDIT_ID, audit);
    }
    response
}

/// Answers a method that a known path does not have.
pub(crate) async fn method_not_allowed(request: axum::extract::Request) -> Response {
    let accept = header_text(request.headers(), header::ACCEPT);
    answer::error(&ApiError::method_not_allowed(), error_media(accept.as_deref()), false)
}

/// Serves what lies below `/api` and `/apis`, and answers for every other path.
pub(crate) async fn resource(State(server): State<Arc<Inner>>, request: axum::extract::Request) -> Response {
    let (parts, body) = request.into_parts();
    let accept = header_text(&parts.headers, header::ACCEPT);
    let pretty = wants_pretty(&parts);
    let started = Instant::now();
    let (verb, resource) = match plan(&parts) {
        Ok(Some(plan)) => plan,
        Ok(None) => return answer::text(404, "404 page not found\n"),
        Err(error) => return answer::error(&error, error_media(accept.as_deref()), pretty),
    };
    let query = Query::parse(parts.uri.query());
    let labels = labels(verb, &resource, &query);
    let in_flight = match verb {
        Verb::Watch => server.metrics.begin_watch(&labels),
        verb => server.metrics.begin(verb.is_mutating()),
    };
    let content_type = header_text(&parts.headers, header::CONTENT_TYPE);
    let result = async {
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}")));
            }
            Err(error) => return Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
        };
        let request = Request {
            server: server.clone(),
            resource,
            query,
            accept: accept.clone(),
            content_type,
            user_agent: header_text(&parts.headers, header::USER_AGENT).unwrap_or_default(),
            pretty,
            body,
        };
        within_time(verb, &request).await
    }
    .await;
    let response = match result {
        Ok(response) => response,
        Err(error) => {
            if error.code >= 500 {
                tracing::warn!(path = parts.uri.path(), code = error.code, error = %error, "request failed");
            }
            answer::error(&error, error_media(accept.as_deref()), pretty)
        }
    };
    server.metrics.end(&labels, response.status().as_u16(), started.elapsed().as_secs_f64());
    if verb == Verb::Watch { hold(response, in_flight) } else { response }
}

/// Keeps a watch counted until its body ends.
fn hold(response: Response, in_flight: InFlight) -> Response {
    response.map(|body| {
        axum::body::Body::new(body.map_frame(move |frame| {
            let _counted = &in_flight;
            frame
        }))
    })
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    // Several lines of one header count as one list.
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Whether a person reads the answer.
fn wants_pretty(parts: &Parts) -> bool {
    let query = Query::parse(parts.uri.query());
    if query.has("pretty") {
        return query.flag("pretty");
    }
    let agent = header_text(&parts.headers, header::USER_AGENT).unwrap_or_default();
    ["curl/", "Wget/", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    UpdateStatus,
    Patch,
    PatchStatus,
    Delete,
    DeleteCollection,
    Bind,
    Finalize,
}

impl Verb {
    fn is_mutating(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The verb as metrics name it.
    fn label(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create | Verb::Bind => "POST",
            Verb::Update | Verb::UpdateStatus | Verb::Finalize => "PUT",
            Verb::Patch | Verb::PatchStatus => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }
}

/// The verb and resource of a request; `None` for paths that are nothing here.
fn plan(parts: &Parts) -> Result<Option<(Verb, Resource)>, ApiError> {
    let path = parts.uri.path();
    if !path.starts_with("/api/") && !path.starts_with("/apis/") {
        return Ok(None);
    }
    match dispatch::target(path) {
        Target::UnknownGroup => Ok(None),
        Target::UnknownResource => Err(ApiError::no_such_resource()),
        Target::NoNamespace => Err(ApiError::bad_request("Namespace parameter required.")),
        Target::BadName(name) => {
            Err(ApiError::bad_request(format!("invalid name {name:?}: may not be '.' or '..'")))
        }
        Target::Bindings { namespace } => {
            if parts.method != Method::POST {
                return Err(ApiError::method_not_allowed());
            }
            let kind = by_resource("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
            let resource = Resource {
                kind,
                namespace,
                name: String::new(),
                subresource: "binding".to_owned(),
                watch_path: false,
            };
            Ok(Some((Verb::Bind, resource)))
        }
        Target::Resource(resource) => {
            let verb = verb(parts, &resource)?;
            Ok(Some((verb, resource)))
        }
    }
}

fn verb(parts: &Parts, resource: &Resource) -> Result<Verb, ApiError> {
    let refused = Err(ApiError::method_not_allowed());
    let has = |name: &str| resource.kind.verbs().contains(&name);
    if resource.watch_path {
        return if parts.method == Method::GET && has("watch") { Ok(Verb::Watch) } else { refused };
    }
    let item = !resource.name.is_empty();
    match (resource.subresource.as_str(), &parts.method) {
        ("", &Method::GET) if item => Ok(Verb::Get),
        ("", &Method::GET) => {
            Ok(if Query::parse(parts.uri.query()).flag("watch") { Verb::Watch } else { Verb::List })
        }
        ("", &Method::POST) if !item && !resource.is_all_namespaces() && has("create") => Ok(Verb::Create),
        ("", &Method::PUT) if item && has("update") => Ok(Verb::Update),
        ("", &Method::PATCH) if item && has("patch") => Ok(Verb::Patch),
        ("", &Method::DELETE) if item && has("delete") => Ok(Verb::Delete),
        ("", &Method::DELETE) if !item && !resource.is_all_namespaces() && has("deletecollection") => {
            Ok(Verb::DeleteCollection)
        }
        ("status", &Method::GET) => Ok(Verb::Get),
        ("status", &Method::PUT) => Ok(Verb::UpdateStatus),
        ("status", &Method::PATCH) => Ok(Verb::PatchStatus),
        ("binding", &Method::POST) => Ok(Verb::Bind),
        ("finalize", &Method::PUT) => Ok(Verb::Finalize),
        _ => refused,
    }
}

async fn within_time(verb: Verb, request: &Request) -> Result<Response, ApiError> {
    let limit = request.server.config.request_timeout;
    match tokio::time::timeout(limit, serve(verb, request)).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::timeout("Timeout: request did not complete within the allotted timeout")),
    }
}

async fn serve(verb: Verb, request: &Request) -> Result<Response, ApiError> {
    match verb {
        Verb::Get => get::get(request).await,
        Verb::List => list::list(request).await,
        Verb::Watch => watch::watch(request).await,
        Verb::Create => create::create(request).await,
        Verb::Update => update::update(request, Part::Main).await,
        Verb::UpdateStatus => update::update(request, Part::Status).await,
        Verb::Patch => patch::patch(request, Part::Main).await,
        Verb::PatchStatus => patch::patch(request, Part::Status).await,
        Verb::Delete => delete::delete(request).await,
        Verb::DeleteCollection => delete_collection::delete_collection(request).await,
        Verb::Bind => binding::bind(request).await,
        Verb::Finalize => finalize::finalize(request).await,
    }
}

fn labels(verb: Verb, resource: &Resource, query: &Query) -> Labels {
    let names = resource.kind.names();
    let namespace = match resource.kind.scope() {
        Scope::Cluster => "",
        Scope::Namespaced => resource.namespace.as_str(),
    };
    Labels {
        verb: verb.label(),
        dry_run: query.text("dryRun") == "All",
        group: names.group,
        version: names.version,
        resource: names.plural,
        subresource: resource.subresource.clone(),
        scope: metrics::scope(resource.kind.scope(), namespace, &resource.name),
    }
}
