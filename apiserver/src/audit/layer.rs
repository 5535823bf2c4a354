//! The filter that records requests.
//!
//! It is outside of limits, impersonation and authorization, so that requests that these reject are recorded too.
//!
//! Upstream: apiserver `pkg/endpoints/filters/audit.go`, `pkg/endpoints/filters/authn_audit.go`.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt as _;
use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION};
use http_body::{Body as _, Frame, SizeHint};
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::audit::event::{request_uri, user_agent};
use orlop_auth::audit::source_ips::source_ips;
use orlop_auth::audit::{Level, RequestAudit, RequestRecord, ResponseStatus, Stage};
use orlop_auth::request_info::RequestInfo;

use super::Audit;
use super::context::AuditContext;
use super::id::AUDIT_ID;
use super::sink::Pending;
use crate::encode::answer::{self, AnsweredError};
use crate::encode::negotiate::error_media;
use crate::exchange::header_text;
use crate::limits::connection::Connection;
use crate::peer_certificates::PeerCertificates;

/// An annotation about the credentials of a request; authentication adds it to the request.
#[derive(Clone, Debug)]
pub(crate) struct AuthenticationAnnotation(pub(crate) &'static str, pub(crate) String);

/// Records a request according to the policy.
pub(crate) async fn record<F: Future<Output = Response>>(
    audit: &Arc<Audit>,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let user = request.extensions().get::<UserInfo>();
    let Some(context) = begin(audit, &request, user) else { return next(request).await };
    if let Some(AuthenticationAnnotation(key, text)) = request.extensions_mut().remove() {
        context.annotate(vec![(key.to_owned(), text)]);
    }
    if !context.reach(Stage::RequestReceived).accepted().await {
        audit.metrics.rejected.inc();
        let accept = header_text(request.headers(), ACCEPT);
        let error = ApiError::internal("failed to store audit event");
        return answer::error(&error, error_media(accept.as_deref()), false);
    }
    // Later steps need not compute the attributes again.
    request.extensions_mut().insert(context.info().clone());
    request.extensions_mut().insert(context.clone());
    let mut unanswered = Unanswered(Some(context.clone()));
    let answered = AssertUnwindSafe(next(request)).catch_unwind().await;
    unanswered.0 = None;
    match answered {
        Ok(response) => complete(context, response).await,
        Err(panic) => {
            context.answered(ResponseStatus {
                status: "Failure",
                message: "APIServer panic'd".to_owned(),
                reason: "InternalError",
                code: 500,
            });
            context.reach(Stage::Panic).accepted().await;
            resume_unwind(panic)
        }
    }
}

/// Queues the event of a request that failed authentication. As upstream, it has one event, at the start of the response.
pub(crate) fn authentication_failed(audit: &Arc<Audit>, request: &Request, error: &ApiError) -> Pending {
    let Some(context) = begin(audit, request, None) else { return Pending::default() };
    if let Some(AuthenticationAnnotation(key, text)) = request.extensions().get() {
        context.annotate(vec![((*key).to_owned(), text.clone())]);
    }
    let mut status = ResponseStatus::of_error(error);
    if error.code == 401 {
        let has_certificate = request.extensions().get::<PeerCertificates>().is_some();
        status.message = attempted(request.headers(), has_certificate);
    }
    context.answered(status);
    context.reach(Stage::ResponseStarted)
}

/// Queues the only event of a request that exchanges a code for a session. The code and the token are secrets, so the event contains no
/// body at any level. `exchanged` is the user of the code, or the error.
pub(crate) fn code_exchanged(
    audit: &Arc<Audit>,
    request: &Request,
    exchanged: Result<&UserInfo, &ApiError>,
) -> Pending {
    let Some(context) = begin_at_most(Level::Metadata, audit, request, exchanged.ok()) else {
        return Pending::default();
    };
    context.answered(exchanged.map_or_else(ResponseStatus::of_error, |_| ResponseStatus::of_code(200)));
    context.reach(Stage::ResponseComplete)
}

/// The means of authentication that a request tried.
fn attempted(headers: &HeaderMap, has_certificate: bool) -> String {
    let header = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    let starts = |scheme: &[u8]| header.as_ref().is_some_and(|header| header.starts_with(scheme));
    let all = [("basic", starts(b"basic ")), ("bearer", starts(b"bearer ")), ("x509", has_certificate)];
    let tried: Vec<&str> = all.into_iter().filter(|(_, is_tried)| *is_tried).map(|(name, _)| name).collect();
    if tried.is_empty() {
        return "Authentication failed, no credentials provided".to_owned();
    }
    format!("Authentication failed, attempted: {}", tried.join(", "))
}

/// The audit state of a request; `None` if the request is not recorded.
fn begin(audit: &Arc<Audit>, request: &Request, user: Option<&UserInfo>) -> Option<Arc<AuditContext>> {
    begin_at_most(Level::RequestResponse, audit, request, user)
}

/// The audit state of a request that is recorded at most at this level.
fn begin_at_most(
    most: Level,
    audit: &Arc<Audit>,
    request: &Request,
    user: Option<&UserInfo>,
) -> Option<Arc<AuditContext>> {
    let info = RequestInfo::of_request(request);
    let decided = audit.policy.decide(user, &info);
    let rule = RequestAudit { level: decided.level.min(most), ..decided };
    audit.metrics.level(rule.level);
    if rule.level == Level::None {
        return None;
    }
    let headers = request.headers();
    let peer = request.extensions().get::<Connection>().map(|connection| connection.peer().ip());
    let id = headers.get(&AUDIT_ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let record = RequestRecord {
        level: rule.level,
        audit_id: id.unwrap_or_default(),
        uri: request_uri(request.uri(), UserInfo::is_authenticated(user)),
        info: Arc::new(info),
        user: user.cloned(),
        source_ips: source_ips(headers, peer),
        user_agent: user_agent(headers),
        received: audit.now(),
    };
    Some(AuditContext::new(audit.clone(), record, rule))
}

/// Records the response.
async fn complete(context: Arc<AuditContext>, mut response: Response) -> Response {
    let code = response.status().as_u16();
    let error = response.extensions_mut().remove::<AnsweredError>();
    context.answered(error.map_or_else(|| ResponseStatus::of_code(code), |AnsweredError(status)| *status));
    if context.info().is_long_running() {
        context.reach(Stage::ResponseStarted).accepted().await;
    }
    let is_complete = response.body().size_hint().exact().is_some() && !context.records_response();
    if is_complete {
        context.reach(Stage::ResponseComplete).accepted().await;
        return response;
    }
    let end = ResponseEnd(Some(context));
    response.map(|inner| Body::new(AuditedBody { inner, end }))
}

/// Records a request whose client disconnects before the response.
struct Unanswered(Option<Arc<AuditContext>>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(context) = self.0.take() {
            let message = "Connection closed early".to_owned();
            context.answered(ResponseStatus { message, ..ResponseStatus::default() });
            // There is no response that could wait.
            drop(context.reach(Stage::ResponseComplete));
        }
    }
}

/// A response that is sent in pieces.
struct AuditedBody {
    inner: Body,
    end: ResponseEnd,
}

/// Records the end of a response, once.
struct ResponseEnd(Option<Arc<AuditContext>>);

impl ResponseEnd {
    fn reach(&mut self) {
        if let Some(context) = self.0.take() {
            // The response has been sent, so nothing can wait.
            drop(context.reach(Stage::ResponseComplete));
        }
    }
}

impl Drop for ResponseEnd {
    fn drop(&mut self) {
        self.reach();
    }
}

impl http_body::Body for AuditedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.end.reach();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use axum::Router;
    use axum::middleware::{Next, from_fn};
    use axum::routing::get;
    use orlop_auth::audit::Policy;
    use prometheus::Registry;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::audit::config::{
        AuditConfig, BatchConfig, Delivery, DeliveryMode, LogConfig, LogFormat, LogTarget, Rotation,
    };
    use crate::audit::metrics::AuditMetrics;

    fn request(path: &str) -> Request {
        let mut request = Request::get(path).header("audit-id", "id-1").body(Body::empty()).unwrap();
        request.extensions_mut().insert(UserInfo::new("ann", []));
        request
    }

    /// Runs requests behind the middleware. Returns the stages, codes and messages of the events.
    async fn events(run: impl AsyncFnOnce(Router)) -> Vec<(String, u64, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let batch = BatchConfig { buffer_size: 10, max_size: 10, max_wait: Duration::ZERO, throttle: None };
        let log = LogConfig {
            target: LogTarget::File(path.clone()),
            format: LogFormat::Json,
            rotation: Rotation { max_bytes: 0, max_backups: 0, max_age: Duration::ZERO, compress: false },
            delivery: Delivery { mode: DeliveryMode::Batch, batch },
        };
        let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
            {"level": "None", "nonResourceURLs": ["/ignored"]}, {"level": "Metadata"}]});
        let config = AuditConfig { policy: Policy::parse(rules).unwrap(), log: Some(log), webhook: None };
        let metrics = AuditMetrics::new(&Registry::new()).unwrap();
        let audit = Audit::start(config, metrics, Arc::new(jiff::Timestamp::now)).unwrap();
        let recorded = audit.clone();
        let panics = async || -> Response { panic!("a test") };
        let router = Router::new()
            .route("/ignored", get(async || "text"))
            .route("/text", get(async || "text"))
            .route("/panic", get(panics))
            .route("/never", get(std::future::pending::<Response>))
            .route(
                "/stream",
                get(async || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>())),
            )
            .layer(from_fn(move |request, next: Next| {
                let audit = recorded.clone();
                async move { record(&audit, request, |request| next.run(request)).await }
            }));
        run(router).await;
        audit.close().await;
        let text = std::fs::read_to_string(&path).unwrap();
        let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        text.lines()
            .map(event)
            .map(|event| {
                assert_eq!((&event["auditID"], &event["user"]["username"]), (&json!("id-1"), &json!("ann")));
                let status = &event["responseStatus"];
                let message = status["message"].as_str().unwrap_or_default().to_owned();
                (event["stage"].as_str().unwrap().to_owned(), status["code"].as_u64().unwrap_or(0), message)
            })
            .collect()
    }

    fn event(stage: &str, code: u64, message: &str) -> (String, u64, String) {
        (stage.to_owned(), code, message.to_owned())
    }

    #[tokio::test]
    async fn every_end_of_a_request_is_recorded_once() {
        let received = || event("RequestReceived", 0, "");
        let found = events(async |router| {
            let _ = router.clone().oneshot(request("/ignored")).await.unwrap();
            let _ = router.oneshot(request("/text")).await.unwrap();
        });
        assert_eq!(found.await, [received(), event("ResponseComplete", 200, "")], "complete");
        let found = events(async |router| {
            let panicked = AssertUnwindSafe(router.oneshot(request("/panic"))).catch_unwind().await;
            assert!(panicked.is_err());
        });
        assert_eq!(found.await, [received(), event("Panic", 500, "APIServer panic'd")], "panicked");
        let found = events(async |router| {
            assert!(router.oneshot(request("/never")).now_or_never().is_none());
        });
        let closed = event("ResponseComplete", 0, "Connection closed early");
        assert_eq!(found.await, [received(), closed], "disconnected");
        let found = events(async |router| {
            let response = router.oneshot(request("/stream")).await.unwrap();
            drop(response);
        });
        assert_eq!(found.await, [received(), event("ResponseComplete", 200, "")], "a stream");
    }

    #[test]
    fn attempted_means_are_listed() {
        for (header, has_certificate, want) in [
            ("", false, "Authentication failed, no credentials provided"),
            ("Bearer x", false, "Authentication failed, attempted: bearer"),
            (" basic x", true, "Authentication failed, attempted: basic, x509"),
            ("", true, "Authentication failed, attempted: x509"),
            ("Bearer", false, "Authentication failed, no credentials provided"),
        ] {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(AUTHORIZATION, header.parse().expect("a header"));
            }
            assert_eq!(attempted(&headers, has_certificate), want);
        }
    }
}
