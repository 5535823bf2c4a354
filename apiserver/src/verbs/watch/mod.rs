//! Watches: parameters and event stream.

pub(crate) mod account;
mod event;
mod stream;

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use orlop_store::Revision;

use crate::encode::ComputedBody;
use crate::encode::negotiate::{Endpoint, Transform};
use crate::encode::shape;
use crate::encode::table::{IncludeObject, Table};
use crate::exchange::out_of_memory;
use crate::verbs::filter::{self, Filter};
use crate::verbs::former::FormerLimit;
use crate::verbs::list::{self, check_numbers};
use crate::verbs::request::Request;
use crate::verbs::revision::{parse_revision, wait_for};
use event::{Framing, Writer};
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use stream::{Live, Start};

/// Maximum duration of a watch; longer durations could overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Opens a watch on a collection, or on one object with the legacy path.
pub(crate) async fn watch(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Watch)?;
    check_numbers(&request.query)?;
    let selectors = request.server.limits.selectors.reserve(texts_memory(request)).map_err(out_of_memory)?;
    let mut filter = Filter::parse_syntax(request.kind_ref(), &request.query)?;
    if request.query.flag("watch") {
        check_options(request)?;
    } else {
        // Upstream takes the options of the old watch paths for those of a list.
        list::check_options(request)?;
    }
    filter.check_fields(request.server.config.extra_field_selectors)?;
    let name = &request.resource.name;
    if !name.is_empty() {
        if !filter.permits_name(name) {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        filter = filter.by_name(name);
    }
    let framing = match wanted.transform {
        Transform::Object => Framing::Object,
        Transform::Metadata(version) => Framing::Metadata(version),
        Transform::MetadataList(_) => return Err(shape::not_a_list(request.kind())),
        Transform::Table(version) => {
            let include = IncludeObject::parse(&request.query)?;
            Framing::Table(Table::new(request.kind_ref().clone(), version, include, request.now()))
        }
    };
    let timeout = match request.query.int("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()).min(LONGEST),
        Some(_) | None => account::usual_timeout(&request.server),
    };
    let writer = Writer::new(request.kind_ref().clone(), wanted.media, framing);
    let start = start(request).await?;
    let former = FormerLimit::of(request).await;
    let live = Live {
        former,
        store: request.server.store.clone(),
        prefix: request.resource.prefix(),
        filter,
        _selectors: selectors,
        bookmarks: request.query.flag("allowWatchBookmarks"),
        timeout,
        closing: match request.kind().definition() {
            Some(definition) => request.server.kinds.ended(definition),
            None => request.server.closing.clone(),
        },
        counter: request.server.metrics.watch_counter(request.names(), request.kind().is_custom()),
        initial_steps: request.server.limits.initial_steps.clone(),
        account: account::is_alive(&request.server, &request.user, request.credential.clone()),
        unread: request.server.limits.unread.of(request.connection.clone()),
    };
    let server = request.server.clone();
    let writer = writer.timed(move || server.now());
    let decodes = writer.decodes();
    let mut response = Response::new(Body::from_stream(stream::stream(start, live, writer)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(wanted.content_type()));
    if decodes {
        response.extensions_mut().insert(ComputedBody);
    }
    Ok(response)
}

/// The memory of the texts that a watch keeps as long as it is open, bytes: its selectors, and the parameters and the client's name in
/// the request, its attributes and the audit event.
fn texts_memory(request: &Request) -> u64 {
    const COPIES: u64 = 3;
    /// Texts up to this size are part of the memory of a watch, bytes.
    const UNCOUNTED: usize = 1024;
    let texts = request.query.len() + request.user_agent.len();
    filter::memory(&request.query) + texts.saturating_sub(UNCOUNTED) as u64 * COPIES
}

/// 422 if the options contradict each other (upstream: apimachinery `apis/meta/internalversion`, defaults and validation).
fn check_options(request: &Request) -> Result<(), ApiError> {
    let query = &request.query;
    let mut errors = FieldErrors::new();
    let path = Path::new("resourceVersionMatch");
    let given = query.text("resourceVersionMatch");
    let initial = query.has("sendInitialEvents");
    // A watch without a revision is turned into one with initial events, which has a match.
    let is_legacy = !initial && given.is_empty() && matches!(query.text("resourceVersion"), "" | "0");
    if initial && given != "NotOlderThan" {
        errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !given.is_empty() {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.forbidden(&path, why);
        }
        if given != "NotOlderThan" {
            errors.not_supported(&path, given, &["NotOlderThan"]);
        }
    }
    if (is_legacy || !given.is_empty()) && !query.text("continue").is_empty() {
        errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", &errors)) }
}

/// Determines where the stream starts.
async fn start(request: &Request) -> Result<Start, ApiError> {
    let query = &request.query;
    let given = query.text("resourceVersion");
    let revision = parse_revision(given).map_err(ApiError::plain_internal)?;
    let asked = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
    let initial = match (asked, revision) {
        (Some(asked), _) => asked,
        // Legacy semantics: without a revision, the watch sends the current state first.
        (None, None) => true,
        (None, Some(_)) => false,
    };
    if !initial {
        let after = revision.unwrap_or_else(|| request.head().revision());
        return Ok(Start::After(after));
    }
    if let Some(revision) = revision
        && let Err(error) = wait_for(&*request.server.store, revision).await
    {
        return Ok(Start::Failed(error));
    }
    let snapshot = request.head();
    let old_state =
        request.server.limits.old_states.hold(request.connection.as_ref(), request.server.store.data());
    Ok(Start::Initial { snapshot, old_state })
}

/// The error of a stream whose revision is no longer available.
fn too_old(after: Revision, oldest: Revision) -> ApiError {
    ApiError::expired(format!("too old resource version: {after} ({oldest})"))
}
