//! GET on a collection.

use axum::response::Response;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, NO_PAD, URL_SAFE_NO_PAD};
use orlop_store::{Revision, Snapshot};
use serde_json::{Value, json};

use crate::encode::list::{self, Listed};
use crate::encode::negotiate::Endpoint;
use crate::encode::stored;
use crate::projection::Projection;
use crate::verbs::filter::Filter;
use crate::verbs::former::{FormerLimit, hides_state};
use crate::verbs::request::Request;
use crate::verbs::revision::{ExactError, exactly, parse_revision, wait_for};
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_codec::decode::syntax_fault;

const EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to \
    retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - \
    objects that were created, modified, or deleted between the time the first chunk was returned and now may \
    show up in the list.";

/// Lists a collection.
pub(crate) async fn list(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::List)?;
    let listed = select(request).await?;
    let memory = &request.server.limits.memory;
    list::answer(request.kind_ref(), listed, wanted, &request.query, request.now(), memory)
}

/// Selects the records of a list or deletecollection.
pub(crate) async fn select(request: &Request) -> Result<Listed, ApiError> {
    let query = &request.query;
    check_numbers(query)?;
    let filter = Filter::parse_syntax(request.kind_ref(), query)?;
    check_options(request)?;
    filter.check_fields(request.server.config.extra_field_selectors)?;
    let limit = usize::try_from(query.int("limit")?.unwrap_or(0)).unwrap_or(0);
    let prefix = request.resource.prefix();
    let page = page(request, &prefix, limit).await?;
    let mut listed = collect(&page, &prefix, &filter)?;
    if listed.is_sent_in_pieces() {
        let server = &request.server;
        listed.old_state = server.limits.old_states.hold(request.connection.as_ref(), server.store.data());
    }
    Ok(listed)
}

/// Numeric parameters must be valid even where a list or watch does not use them.
pub(crate) fn check_numbers(query: &Query) -> Result<(), ApiError> {
    query.int("timeoutSeconds").and(query.int("limit")).map(drop)
}

/// The snapshot to list, the start key and the limit.
struct Page {
    snapshot: Snapshot<Projection>,
    from: Option<String>,
    /// 0 means no limit.
    limit: usize,
}

/// 422 if the options of a list contradict each other (upstream: apimachinery
/// `apis/meta/internalversion/validation`).
pub(crate) fn check_options(request: &Request) -> Result<(), ApiError> {
    let query = &request.query;
    let mut errors = FieldErrors::new();
    let path = Path::new("resourceVersionMatch");
    let given = query.text("resourceVersionMatch");
    if !given.is_empty() {
        if query.text("resourceVersion").is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.text("continue").is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if given != "Exact" && given != "NotOlderThan" {
            errors.not_supported(&path, given, &["Exact", "NotOlderThan", ""]);
        }
        if given == "Exact" && query.text("resourceVersion") == "0" {
            errors.forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if query.has("sendInitialEvents") {
        errors.forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", &errors)) }
}

async fn page(request: &Request, prefix: &str, limit: usize) -> Result<Page, ApiError> {
    let query = &request.query;
    let store = &*request.server.store;
    let given = query.text("resourceVersion");
    let token = query.text("continue");
    // 0 allows any state; upstream then ignores the limit, even with a continue token.
    let limit = if given == "0" { 0 } else { limit };
    if !token.is_empty() {
        let token = ContinueToken::decode(token)?;
        if !given.is_empty() && given != "0" {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let from = Some(format!("{prefix}{}", token.start));
        let Some(revision) = token.revision else {
            return Ok(Page { snapshot: store.head(), from, limit });
        };
        let snapshot = state_at(request, revision, prefix).await.map_err(|error| match error {
            ExactError::Expired => {
                let mut error = ApiError::expired(EXPIRED_CONTINUE);
                error.continue_token =
                    Some(ContinueToken { revision: None, start: token.start.clone() }.encode());
                error
            }
            ExactError::Api(error) => error,
        })?;
        return Ok(Page { snapshot, from, limit });
    }
    let revision = parse_revision(given)
        .map_err(|error| ApiError::bad_request(format!("invalid resource version: {error}")))?;
    let Some(revision) = revision else {
        return Ok(Page { snapshot: store.head(), from: None, limit });
    };
    let exact = match query.text("resourceVersionMatch") {
        "Exact" => true,
        "NotOlderThan" => false,
        // The rule from before resourceVersionMatch: a limited list is served at exactly this revision.
        _ => limit > 0,
    };
    if !exact {
        wait_for(store, revision).await?;
        return Ok(Page { snapshot: store.head(), from: None, limit });
    }
    let snapshot = state_at(request, revision, prefix).await.map_err(|error| match error {
        ExactError::Expired => ApiError::expired(EXPIRED),
        ExactError::Api(error) => error,
    })?;
    Ok(Page { snapshot, from: None, limit })
}

/// The state at exactly this revision, if the user may read it.
async fn state_at(
    request: &Request,
    revision: Revision,
    prefix: &str,
) -> Result<Snapshot<Projection>, ExactError> {
    if let Some(limit) = FormerLimit::of(request).await
        && hides_state(limit.floor(), revision)
    {
        return Err(ExactError::Expired);
    }
    exactly(&*request.server.store, revision, prefix).await
}

/// A page ends after this many bytes, whatever its limit: clients hold pages as a whole.
const PAGE_BYTES: usize = 16 << 20;

fn collect(page: &Page, prefix: &str, filter: &Filter) -> Result<Listed, ApiError> {
    let mut listed = Listed::new(page.snapshot.clone());
    let mut selected = filter.select(&page.snapshot, prefix, page.from.as_deref());
    while let Some(record) = selected.next() {
        stored::readable(record)?;
        listed.push(record);
        if page.limit == 0 || listed.records().len() < page.limit && listed.bytes() < PAGE_BYTES {
            continue;
        }
        // Like upstream, report the number of remaining items only if the filter matches everything.
        let all = filter.is_everything();
        let remaining = if all { selected.count() } else { usize::from(selected.next().is_some()) };
        if remaining > 0 {
            let last = &record.key.as_str()[prefix.len()..];
            let token =
                ContinueToken { revision: Some(page.snapshot.revision()), start: format!("{last}\0") };
            listed.continue_token = Some(token.encode());
            listed.remaining = all.then_some(remaining as u64);
        }
        break;
    }
    Ok(listed)
}

/// The start of the next page of a list: opaque to clients, in upstream's format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the first page; `None` for the newest.
    revision: Option<Revision>,
    /// The first key of the page, relative to the listed prefix.
    pub(crate) start: String,
}

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX));
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": format!("/{}", self.start)});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        let bad = |why: String| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = LENIENT.decode(text).map_err(|error| bad(illegal_base64(text, &error)))?;
        if let Some(fault) = syntax_fault(&bytes) {
            return Err(bad(fault));
        }
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        if let Some(misfit) = misfit(&token) {
            return Err(bad(misfit));
        }
        let version = token.get("v").and_then(Value::as_str).unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(bad(format!("server does not recognize this encoded version {version}")));
        }
        let revision = token.get("rv").and_then(Value::as_i64).unwrap_or(0);
        if revision == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()));
        }
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        // The key is appended to the prefix and must not lead out of the collection.
        let key = start.strip_prefix('/').unwrap_or(start);
        if key.split('/').any(|part| part == "..") {
            return Err(bad(start.to_owned()));
        }
        Ok(ContinueToken { revision: u64::try_from(revision).ok().map(Revision), start: key.to_owned() })
    }
}

/// Like Go, ignore trailing bits.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, GeneralPurposeConfig::with_decode_allow_trailing_bits(NO_PAD, true));

/// A type error in a token, in the words of Go's `encoding/json`.
fn misfit(token: &Value) -> Option<String> {
    let found = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(_) => Some("bool".to_owned()),
        Value::Number(number) => Some(format!("number {number}")),
        Value::String(_) => Some("string".to_owned()),
        Value::Array(_) => Some("array".to_owned()),
        Value::Object(_) => Some("object".to_owned()),
    };
    let Value::Object(members) = token else {
        let found = found(token)?;
        let found = found.split(' ').next().unwrap_or_default();
        return Some(format!("json: cannot unmarshal {found} into Go value of type storage.continueToken"));
    };
    for (name, wanted) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
        let Some(value) = members.get(name) else { continue };
        let fits = if wanted == "string" { value.is_string() } else { value.is_i64() };
        if let Some(found) = found(value).filter(|_| !fits) {
            let found = if wanted == "string" { found.split(' ').next().unwrap_or_default() } else { &found };
            return Some(format!(
                "json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {wanted}"
            ));
        }
    }
    None
}

fn illegal_base64(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        // A group of four that has one digit only: the error is at its beginning.
        base64::DecodeError::InvalidLength(length) => length.saturating_sub(1),
        base64::DecodeError::InvalidPadding => text.find('=').unwrap_or(0),
    };
    format!("illegal base64 data at input byte {at}")
}
