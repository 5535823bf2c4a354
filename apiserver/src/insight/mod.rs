//! Serves the API group `orlop.dev` (docs/insight.md): past states, changes and change streams from the log of
//! the store, explanations of an object's state, and safe verbs.
//!
//! | file | idea |
//! |---|---|
//! | `target` | the object that a path names |
//! | `key_resolver` | the kind of the object at a store key |
//! | `past` | revisions and times in requests; one object at a revision |
//! | `diff` | two states of an object, field by field |
//! | `history` | all writes of an object, with manager and changes |
//! | `revisions`, `timeline` | the revision at a time; one short line per write |
//! | `stream`, `lines`, `capture` | all objects and all changes in one connection, or in one file |
//! | `replay` | writes a capture into an empty store |
//! | `why` | requests explanations from the explainers |
//! | `plan` | safe verbs, and the effects of a deletion |
//! | `rights` | the rights to the objects in a response |
//! | `redact` | removes the values of secrets, keeps their keys |
//! | `document` | the group in discovery and OpenAPI |

mod capture;
pub(crate) mod changes;
mod diff;
pub(crate) mod document;
mod history;
mod key_resolver;
mod lines;
pub(crate) mod live;
pub(crate) mod past;
pub(crate) mod plan;
pub mod redact;
mod remains;
pub mod replay;
mod revisions;
mod rights;
mod stream;
mod target;
mod timeline;
pub mod why;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{Method, header};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::encode::answer;
use crate::encode::negotiate::{Endpoint, Media, RequestedEncoding, error_media, negotiate};
use crate::exchange::{
    WRITE_TIME_MAX, close_where_body_is_left, header_text, hold, read, user_of, wants_pretty,
};
use crate::handler::log_failure;
use crate::limits::connection::Connection;
use crate::metrics::Labels;
use crate::state::Inner;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

pub(crate) use live::ROOT;
use live::parts;
use plan::PlanUser;
use rights::Rights;
pub(crate) use target::ObjectTarget;

/// The name of the group.
pub(crate) const GROUP: &str = "orlop.dev";
/// The version of the group.
pub(crate) const VERSION: &str = "v1";
/// Group and version, as in responses.
pub(crate) const API_VERSION: &str = "orlop.dev/v1";

/// The router of the group.
pub(crate) fn router() -> Router<Arc<Inner>> {
    Router::new().route(&format!("{}{{*path}}", ROOT), any(serve))
}

/// The request type, as in metrics, and its object.
enum InsightRequest {
    Stream,
    Timeline,
    Revisions,
    Capture,
    History(ObjectTarget),
    Diff(ObjectTarget),
    Why(ObjectTarget),
    Impact(ObjectTarget),
    Verb(&'static str, ObjectTarget),
}

impl InsightRequest {
    fn of(server: &Inner, method: &Method, path: &str) -> Result<Self, ApiError> {
        let parts = parts(path);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let asked = match parts.as_slice() {
            ["stream"] => InsightRequest::Stream,
            ["timeline"] => InsightRequest::Timeline,
            ["revisions"] => InsightRequest::Revisions,
            ["capture"] => InsightRequest::Capture,
            [object @ .., "history"] => InsightRequest::History(ObjectTarget::parse(server, object)?),
            [object @ .., "diff"] => InsightRequest::Diff(ObjectTarget::parse(server, object)?),
            [object @ .., "why"] => InsightRequest::Why(ObjectTarget::parse(server, object)?),
            [object @ .., "impact"] => InsightRequest::Impact(ObjectTarget::parse(server, object)?),
            [object @ .., last] => match plan::VERBS.iter().find(|verb| *verb == last) {
                Some(verb) => InsightRequest::Verb(verb, ObjectTarget::parse(server, object)?),
                None => return Err(unknown(path)),
            },
            [] => return Err(unknown(path)),
        };
        let wanted = if matches!(asked, InsightRequest::Verb(..)) { Method::POST } else { Method::GET };
        if *method == wanted { Ok(asked) } else { Err(ApiError::method_not_allowed()) }
    }

    /// The object in the path.
    fn target(&self) -> Option<&ObjectTarget> {
        match self {
            InsightRequest::Stream
            | InsightRequest::Timeline
            | InsightRequest::Revisions
            | InsightRequest::Capture => None,
            InsightRequest::History(target)
            | InsightRequest::Diff(target)
            | InsightRequest::Why(target)
            | InsightRequest::Impact(target)
            | InsightRequest::Verb(_, target) => Some(target),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            InsightRequest::Stream => "stream",
            InsightRequest::Timeline => "timeline",
            InsightRequest::Revisions => "revisions",
            InsightRequest::Capture => "capture",
            InsightRequest::History(_) => "history",
            InsightRequest::Diff(_) => "diff",
            InsightRequest::Why(_) => "why",
            InsightRequest::Impact(_) => "impact",
            InsightRequest::Verb(verb, _) => verb,
        }
    }
}

fn unknown(path: &str) -> ApiError {
    no_such_path(format!(
        "there is no {path:?} in {API_VERSION}: there are stream, timeline, revisions and capture, and why, history, diff, \
         impact and the verbs {} behind [namespaces/NAMESPACE/]RESOURCE/NAME",
        plan::VERBS.join(", ")
    ))
}

/// 404 with a message specific to this group.
fn no_such_path(message: String) -> ApiError {
    let mut error = ApiError::no_such_resource();
    error.message = message;
    error
}

/// 400 for an invalid parameter.
fn bad_parameter(name: &str, given: &str, wanted: &str) -> ApiError {
    ApiError::bad_request(format!("{name}={given:?}: {wanted}"))
}

/// The number of items to return: `usual` if the client does not set a limit, at most `most`.
fn limit(query: &Query, usual: usize, most: usize) -> Result<usize, ApiError> {
    match query.int("limit")? {
        None | Some(0) => Ok(usual),
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) => Ok(limit.min(most)),
            Err(_) => Err(bad_parameter("limit", query.text("limit"), "must be at least 1")),
        },
    }
}

/// 404 for an object that did not exist.
fn was_not_there(target: &ObjectTarget, when: &str) -> ApiError {
    let names = target.kind.names();
    let mut error = ApiError::not_found(names, &target.name);
    error.message.push_str(when);
    error
}

async fn serve(State(server): State<Arc<Inner>>, request: axum::extract::Request) -> Response {
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    let accept = header_text(&parts.headers, header::ACCEPT);
    let query = Query::parse(parts.uri.query());
    let pretty = wants_pretty(&parts.headers, &query);
    let path = parts.uri.path().strip_prefix(ROOT).unwrap_or_default();
    let asked = InsightRequest::of(&server, &parts.method, path);
    let name = asked.as_ref().map_or("", InsightRequest::name);
    let writes = matches!(asked, Ok(InsightRequest::Verb(..)));
    let is_live = live::is_live(&parts.method, parts.uri.path(), &query);
    let labels = Labels {
        verb: match (writes, is_live) {
            (true, _) => "POST",
            (false, true) => "WATCH",
            (false, false) => "GET",
        },
        dry_run: query.text("dryRun") == "All",
        group: GROUP,
        version: VERSION,
        resource: name,
        subresource: String::new(),
        scope: "cluster",
    };
    let open = is_live.then(|| server.metrics.begin_watch(&labels));
    let user = user_of(&parts.extensions).cloned();
    let connection = parts.extensions.remove::<Connection>();
    let credential = parts.extensions.remove();
    let limit = server.config.request_timeout;
    let limit = if writes { limit.min(WRITE_TIME_MAX) } else { limit };
    let work = async {
        let (asked, user) = (asked?, user?);
        let rights = Rights { server: &server, user: &user, credential };
        if let Some(target) = asked.target() {
            rights.may_get(target).await?;
        }
        match asked {
            InsightRequest::Stream => stream::stream(&rights, connection, &query).await,
            InsightRequest::Timeline => timeline::timeline(&rights, &query).await,
            InsightRequest::Capture => capture::capture(&rights, connection, &query).await,
            InsightRequest::Revisions => {
                shown(&accept, pretty, &revisions::revisions(&server, &query).await?)
            }
            InsightRequest::History(target) => {
                shown(&accept, pretty, &history::history(&server, &target, &query).await?)
            }
            InsightRequest::Diff(target) => {
                shown(&accept, pretty, &diff::diff(&server, &target, &query).await?)
            }
            InsightRequest::Why(target) => {
                let with_related = rights.sees_related(&target).await;
                shown(&accept, pretty, &why::why(&server, &target, with_related).await?)
            }
            InsightRequest::Impact(target) => {
                let with_related = rights.sees_related(&target).await;
                shown(&accept, pretty, &plan::impact(&server, &user, &target, with_related).await?)
            }
            InsightRequest::Verb(verb, target) => {
                let is_dry = dry_run(&query)?;
                let options = options(&read(body, &server.limits.memory).await?.0)?;
                let with_related = rights.sees_related(&target).await;
                let user = PlanUser { user: &user, with_related };
                let plan = plan::perform(&server, user, &target, verb, options, is_dry).await?;
                shown(&accept, pretty, &plan)
            }
        }
    };
    let result = tokio::time::timeout(limit, work).await;
    let result = result.unwrap_or_else(|_| {
        Err(ApiError::timeout("Timeout: request did not complete within the allotted timeout"))
    });
    let response = result.unwrap_or_else(|error| {
        if error.code >= 500 {
            log_failure(parts.uri.path(), &error);
        }
        let mut response = answer::error(&error, error_media(accept.as_deref()), pretty);
        if writes {
            close_where_body_is_left(&error, parts.version, response.headers_mut());
        }
        response
    });
    server.metrics.end(&labels, response.status().as_u16(), started.elapsed().as_secs_f64());
    match open {
        Some(open) => hold(response, open),
        None => response,
    }
}

/// Whether `dryRun=All` is set.
fn dry_run(query: &Query) -> Result<bool, ApiError> {
    match query.get("dryRun") {
        None | Some("") => Ok(false),
        Some("All") => Ok(true),
        Some(other) => Err(bad_parameter("dryRun", other, "must be All or absent")),
    }
}

/// The options of a verb; an empty body means no options.
fn options(body: &Bytes) -> Result<Value, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("the body is no JSON object with the options of the verb: {error}"))
    })
}

/// Encodes a value in the format that the client accepts; there is no protobuf form.
fn shown(accept: &Option<String>, pretty: bool, value: &Value) -> Result<Response, ApiError> {
    let wanted = negotiate(accept.as_deref(), Endpoint::Single, false)?;
    let media = match wanted.media {
        Media::Protobuf => Media::Json,
        media => media,
    };
    let wanted = RequestedEncoding { media, pretty: wanted.pretty || pretty, ..RequestedEncoding::JSON };
    answer::value_answer(200, wanted, value)
}
