//! Request handling: response headers, time limit, body, and the verb that serves the request.

pub(crate) mod deadline;
#[cfg(test)]
mod future_sizes;
mod light;
pub(crate) mod long_running;
mod plan;
mod weight;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderValue, header};
use http_body::Body as _;

use orlop_store::ReservedMemory;
use tokio::time::Instant;

use crate::audit::body::{BodyType, RecordedBody};
use crate::audit::context::AuditContext;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::response_body::record_response;
use crate::dispatch::Resource;
use crate::encode::negotiate::{Media, error_media};
use crate::encode::{HeldMemory, answer};
use crate::exchange::{
    WRITE_TIME_MAX, close_where_body_is_left, header_text, hold, out_of_memory, read, user_of, wants_pretty,
};
use crate::kubelet_client::relay::ClientUpgrade;
use crate::limits::{Client, UNCOUNTED};
use crate::metrics::{self, Labels, Metrics};
use crate::proxy::request::ProxiedRequest;
use crate::registry::{KindRef, Scope};
use crate::services::pool::HeldAllocations;
use crate::state::Inner;
use crate::verbs::request::Request;
use crate::verbs::{
    binding, component_status, connect, create, delete, delete_collection, eviction, finalize, get, list,
    patch, review, scale, token, update, watch,
};
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use plan::{Verb, plan};

/// The policy of responses that are no pages.
const NO_CONTENT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Adds the headers that upstream sends to every response. A request that panics also gets a response, so that a
/// panic ends neither its connection nor a controller in this process.
pub(crate) async fn frame<F: Future<Output = Response>>(
    mut request: axum::extract::Request,
    next: impl FnOnce(axum::extract::Request) -> F,
) -> Response {
    let audit = id::of(request.headers());
    // For the audit log of this server, and for that of another server to which the request is forwarded.
    if let Some(id) = audit.clone() {
        request.headers_mut().insert(AUDIT_ID, id);
    }
    let path = request.uri().path().to_owned();
    let mut response = AssertUnwindSafe(next(request)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(path, "a request panicked; this is a fault of the server");
        answer::text(500, "This request caused apiserver to panic. Look in the logs for details.\n")
    });
    let headers = response.headers_mut();
    // Content of clients must not run as a page of this server.
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NO_CONTENT_POLICY));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if let Some(audit) = audit {
        headers.insert(AUDIT_ID, audit);
    }
    response
}

/// Responds to a method that a known path does not support.
pub(crate) async fn method_not_allowed(request: axum::extract::Request) -> Response {
    let accept = header_text(request.headers(), header::ACCEPT);
    answer::error(&ApiError::method_not_allowed(), error_media(accept.as_deref()), false)
}

/// Serves the paths below `/api` and `/apis`, and responds to all other paths.
pub(crate) async fn resource(State(server): State<Arc<Inner>>, request: axum::extract::Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let accept = header_text(&parts.headers, header::ACCEPT);
    let query = Query::parse(parts.uri.query());
    let pretty = wants_pretty(&parts.headers, &query);
    let started = Instant::now();
    let (verb, resource) = match plan(&server.kinds, &parts.method, parts.uri.path(), &query) {
        Ok(Some(plan)) => plan,
        Ok(None) => return answer::text(404, "404 page not found\n"),
        Err(error) => return answer::error(&error, error_media(accept.as_deref()), pretty),
    };
    let deprecated = resource.kind.deprecated().map(str::to_owned);
    let is_custom = resource.kind.is_custom();
    let labels = labels(&server.metrics, verb, &resource, &query);
    let open_watch = (verb == Verb::Watch).then(|| server.metrics.begin_watch(&labels));
    let content_type = header_text(&parts.headers, header::CONTENT_TYPE);
    let user = match user_of(&parts.extensions) {
        Ok(user) => user.clone(),
        Err(error) => return answer::error(&error, error_media(accept.as_deref()), pretty),
    };
    let limit = time_limit(verb, &query, server.config.request_timeout);
    let client = parts.extensions.remove::<Client>();
    let audited =
        parts.extensions.remove::<Arc<AuditContext>>().map(|audited| (audited, resource.kind.clone()));
    let is_proxied = verb == Verb::Connect && resource.subresource == "proxy";
    let proxied = is_proxied.then(|| Box::new(ProxiedRequest::of(&parts)));
    let upgrade = ClientUpgrade::of(&mut parts);
    let work = pin!(async {
        // Reads ignore the body.
        let (body, mut memory) = match verb.is_mutating() || is_proxied {
            true => read(body, &server.limits.memory).await?,
            false => (Bytes::new(), server.limits.memory.reserve(0).map_err(out_of_memory)?),
        };
        if let Some((audited, kind)) = audited.as_ref().filter(|_| verb.is_mutating()) {
            record_request(audited, kind, verb, content_type.as_deref(), &body);
        }
        let request = Request {
            server: server.clone(),
            resource,
            query,
            accept: accept.clone(),
            content_type,
            user,
            user_agent: header_text(&parts.headers, header::USER_AGENT).unwrap_or_default(),
            credential: parts.extensions.remove(),
            connection: parts.extensions.remove(),
            upgrade,
            proxied,
            pretty,
            body,
            held: HeldAllocations::default(),
            grown: Default::default(),
            audited: audited.as_ref().map(|(audited, _)| audited.clone()),
            admission: Default::default(),
        };
        if weight::is_light(verb, &request) {
            let response = serve(verb, &request).await?;
            return hold_memory(verb, response, memory);
        }
        let work = async move {
            // The estimate reads the body and the stored object, and is expensive itself.
            memory.resize(weight::memory(verb, &request)).map_err(out_of_memory)?;
            let response = serve(verb, &request).await?;
            hold_memory(verb, response, memory)
        };
        server.compute.run(client, work.boxed()).await
    });
    let result = match limit {
        // The limit includes the time to read the body; otherwise a client that never sends it would keep the
        // request open forever.
        Ok(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(ApiError::timeout("Timeout: request did not complete within the allotted timeout"))
        }),
        Err(error) => Err(error),
    };
    let mut response = match result {
        Ok(response) => response,
        Err(error) => {
            if error.code >= 500 {
                log_failure(parts.uri.path(), &error);
            }
            let media = match error_media(accept.as_deref()) {
                // As upstream, other errors of custom resources have no protobuf form either.
                Media::Protobuf if is_custom && error.code != 406 => Media::Json,
                media => media,
            };
            let mut response = answer::error(&error, media, pretty);
            if verb.is_mutating() || is_proxied {
                close_where_body_is_left(&error, parts.version, response.headers_mut());
            }
            response
        }
    };
    if let Some(text) = deprecated {
        answer::add_warnings(response.headers_mut(), &[text]);
    }
    let response = match &audited {
        Some((audited, kind)) if audited.records_response() && !audited.info().is_long_running() => {
            record_response(response, audited.clone(), kind.clone(), &server.limits.memory)
        }
        Some(_) | None => response,
    };
    server.metrics.end(&labels, response.status().as_u16(), started.elapsed().as_secs_f64());
    match open_watch {
        Some(open_watch) => hold(response, open_watch),
        None => response,
    }
}

/// Records the body of a request in the audit log, according to the policy.
fn record_request(
    audited: &AuditContext,
    kind: &KindRef,
    verb: Verb,
    content_type: Option<&str>,
    body: &Bytes,
) {
    if !audited.records_request() {
        return;
    }
    let body_type = if matches!(verb, Verb::Delete | Verb::DeleteCollection) {
        BodyType::DeleteOptions
    } else {
        BodyType::Object(kind.clone())
    };
    audited.request_body(RecordedBody::new(content_type.unwrap_or_default(), body_type, body.clone()));
}

/// Holds the memory of a request for its response until the response has been sent.
///
/// # Errors
/// There is no memory for the response of a read.
fn hold_memory(verb: Verb, mut response: Response, mut memory: ReservedMemory) -> Result<Response, ApiError> {
    if response.extensions().get::<HeldMemory>().is_some() {
        return Ok(response);
    }
    let size = response.body().size_hint().exact().unwrap_or(0);
    match memory.resize(size) {
        Ok(()) => {}
        // A write or a call of a kubelet has happened: its response is sent nevertheless. So is an object that is larger than the limit.
        Err(error) if verb.is_mutating() || verb == Verb::Connect || error.is_permanent() => {}
        Err(error) => return Err(out_of_memory(error)),
    }
    if size > UNCOUNTED {
        response.extensions_mut().insert(HeldMemory(Arc::new(memory)));
    }
    Ok(response)
}

/// Logs a failed request. Only errors of the server itself have a text in the log: the messages of others are upstream's
/// and quote the body, which may be a Secret.
pub(crate) fn log_failure(path: &str, error: &ApiError) {
    // Quoted, so that a path cannot begin a new line.
    let path: String = path.chars().take(MAX_LOGGED_PATH).collect();
    if error.is_internal() {
        let error_text: String = error.to_string().chars().take(MAX_LOGGED_ERROR).collect();
        tracing::warn!(?path, code = error.code, error = ?error_text, "request failed");
    } else {
        tracing::warn!(?path, code = error.code, "request failed");
    }
}

/// Maximum length of a path in a log line, characters.
const MAX_LOGGED_PATH: usize = 256;
/// Maximum length of an error in a log line, characters.
const MAX_LOGGED_ERROR: usize = 1024;

/// Processes a request up to its verb, to test bad paths and parameters.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn probe(method: &http::Method, path: &str, query: &Query) -> Result<(), ApiError> {
    let Some((verb, _)) = plan(&crate::custom::Kinds::default(), method, path, query)? else {
        return Ok(());
    };
    time_limit(verb, query, WRITE_TIME_MAX).map(|_| ())
}

/// The time limit of a request: the server's limit, or less if the client asks for it. Long-running requests have
/// their own limits and, as upstream, ignore `timeout`.
fn time_limit(verb: Verb, query: &Query, granted: Duration) -> Result<Duration, ApiError> {
    let granted = if verb.is_mutating() { granted.min(WRITE_TIME_MAX) } else { granted };
    if matches!(verb, Verb::Watch | Verb::Connect) {
        return Ok(granted);
    }
    Ok(deadline::requested(query)?.map_or(granted, |asked| asked.min(granted)))
}

/// Runs a verb. All futures but that of the most frequent verb are boxed: a request copies the future of its handler, of whatever verb.
async fn serve(verb: Verb, request: &Request) -> Result<Response, ApiError> {
    match verb {
        // The only kind that is read and not stored.
        Verb::Get if !request.kind().is_stored() => component_status::get(request),
        Verb::List if !request.kind().is_stored() => component_status::list(request),
        Verb::Get => get::get(request).await,
        Verb::List => list::list(request).boxed().await,
        Verb::Watch => watch::watch(request).boxed().await,
        Verb::Create => match request.kind().review() {
            Some(question) => review::review(request, question).boxed().await,
            None => create::create(request).boxed().await,
        },
        Verb::Update(part) => update::update(request, part).boxed().await,
        Verb::Patch(part) => patch::patch(request, part).boxed().await,
        Verb::Delete => delete::delete(request).boxed().await,
        Verb::DeleteCollection => delete_collection::delete_collection(request).boxed().await,
        Verb::Bind => binding::bind(request).boxed().await,
        Verb::Finalize => finalize::finalize(request).boxed().await,
        Verb::Evict => eviction::evict(request).boxed().await,
        Verb::Connect => connect::connect(request).boxed().await,
        Verb::GetScale => scale::get(request).boxed().await,
        Verb::UpdateScale => scale::update(request).boxed().await,
        Verb::PatchScale => scale::patch(request).boxed().await,
        Verb::RequestToken => token::request_token(request).boxed().await,
    }
}

fn labels(metrics: &Metrics, verb: Verb, resource: &Resource, query: &Query) -> Labels {
    let names = resource.kind.names();
    let namespace = match resource.kind.scope() {
        Scope::Cluster => "",
        Scope::Namespaced => resource.namespace.as_str(),
    };
    let [group, version, resource_label] = metrics.kind_labels(names, resource.kind.is_custom());
    Labels {
        verb: verb.label(),
        dry_run: query.text("dryRun") == "All",
        group,
        version,
        resource: resource_label,
        subresource: resource.subresource.clone(),
        scope: metrics::scope(resource.kind.scope(), namespace, &resource.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::write::Part;

    #[test]
    fn timeout_parameter_lowers_the_limit() {
        let minute = Duration::from_secs(60);
        for (case, verb, query, want) in [
            ("1 no timeout", Verb::List, "", Ok(60_000)),
            ("2 less", Verb::List, "timeout=5s", Ok(5_000)),
            ("3 more than there is", Verb::List, "timeout=1h", Ok(60_000)),
            ("4 zero is no timeout", Verb::Get, "timeout=0", Ok(60_000)),
            ("5 writes have less", Verb::Create, "timeout=50s", Ok(34_000)),
            ("6 and may have still less", Verb::Patch(Part::Main), "timeout=1500ms", Ok(1_500)),
            ("7 not for watches", Verb::Watch, "timeout=nonsense", Ok(60_000)),
            ("8 below zero", Verb::Get, "timeout=-5s", Ok(60_000)),
            ("9 a number alone", Verb::Get, "timeout=5", Err("time: missing unit in duration \"5\"")),
            (
                "10 a negative number alone",
                Verb::Get,
                "timeout=-5",
                Err("time: missing unit in duration \"-5\""),
            ),
            ("11 empty", Verb::Delete, "timeout=", Ok(34_000)),
            ("12 not for connections", Verb::Connect, "timeout=nonsense", Ok(60_000)),
            ("13 the first of two", Verb::Get, "timeout=2s&timeout=x", Ok(2_000)),
        ] {
            let got = time_limit(verb, &Query::parse(Some(query)), minute);
            let got = got.map(|limit| limit.as_millis()).map_err(|error| (error.code, error.message));
            let want =
                want.map_err(|why| (400, format!("invalid timeout specified in the request URL - {why}")));
            assert_eq!(got, want, "{case}");
        }
    }

    #[test]
    fn pretty_output_depends_on_client_and_parameter() {
        for (case, agent, query, want) in [
            ("1 a program", "kubectl/v1.36.0", "", false),
            ("2 curl", "curl/8.5.0", "", true),
            ("3 a browser", "Mozilla/5.0 (X11)", "", true),
            ("4 curl with pretty=false", "curl/8.5.0", "pretty=false", false),
            ("5 a program with pretty=1", "kubectl/v1.36.0", "pretty=1", true),
            ("6 empty is absent", "", "pretty", false),
            ("7 empty is absent for curl", "curl/8.5.0", "pretty=", true),
            ("8 no boolean is no", "curl/8.5.0", "pretty=yes", false),
            ("9 an upper case letter", "", "pretty=T", true),
            ("10 not at the beginning", "my curl/8", "", false),
        ] {
            let mut headers = http::HeaderMap::new();
            headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
            assert_eq!(wants_pretty(&headers, &Query::parse(Some(query))), want, "{case}");
        }
    }
}
