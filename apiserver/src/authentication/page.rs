//! Sign-in of the web page on a server that requires credentials on loopback.
//!
//! The files of the page are the same on every server and contain no data, so they need no credentials. The page exchanges a one-time
//! code for the token of a session, and sends this token with its requests. A user with the right to `post` to [`CODES`] gets a code for
//! itself.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method};
use jiff::Timestamp;
use orlop_api::status::ApiError;
use orlop_apimachinery::warning_pace::WarningPace;
use orlop_auth::impersonation::USER as IMPERSONATE_USER;
use orlop_auth::page_session::{ExchangeError, PageSessions, TOKEN_PREFIX};
use orlop_auth::{UserInfo, guard};
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::refusal::refusal;
use crate::audit::Audit;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::layer::code_exchanged;
use crate::clock::Clock;
use crate::encode::answer;
use crate::encode::negotiate::RequestedEncoding;

/// The path where the page exchanges a code.
const EXCHANGE: &str = "/orlop/sign-in";
/// The path where a user gets a code.
pub(crate) const CODES: &str = "/orlop/sign-in/codes";
/// Random bytes of a code and of a token.
const SECRET_BYTES: usize = 32;
/// Maximum size of the body with a code.
const MAX_BODY: usize = 4096;
/// Time limit for this body.
const BODY_TIME: Duration = Duration::from_secs(10);
/// The minimum time between two log lines about wrong codes.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The one-time codes and the sessions of the web page.
pub struct PageSignIn {
    sessions: PageSessions,
    /// The URL of the server.
    url: OnceLock<String>,
    audit: OnceLock<Arc<Audit>>,
    wrong_codes: Mutex<WarningPace>,
    clock: Clock,
}

impl std::fmt::Debug for PageSignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageSignIn")
    }
}

/// A new code.
#[derive(Debug)]
pub struct PageCode {
    /// The code.
    pub code: String,
    /// The link that contains it.
    pub link: String,
    /// When it expires.
    pub until: Timestamp,
}

impl PageSignIn {
    /// Without codes and sessions.
    pub fn new(clock: Clock) -> Self {
        PageSignIn {
            sessions: PageSessions::default(),
            url: OnceLock::new(),
            audit: OnceLock::new(),
            wrong_codes: Mutex::new(WarningPace::new(WARN_EVERY)),
            clock,
        }
    }

    /// Sets the audit log that records the exchanges of codes.
    pub(super) fn set_audit(&self, audit: Arc<Audit>) {
        // The audit log of a server does not change.
        let _ = self.audit.set(audit);
    }

    /// Sets the URL of the server, for links.
    pub fn set_url(&self, url: &str) {
        // The URL of a server does not change.
        let _ = self.url.set(url.to_owned());
    }

    /// Issues a code for a user.
    ///
    /// # Errors
    /// 500 if the system has no random numbers.
    pub fn issue(&self, user: UserInfo) -> Result<PageCode, ApiError> {
        let code = secret()?;
        let until = self.sessions.add_code(&code, user, (self.clock)());
        let link = format!("{}/#code={code}", self.url.get().map_or("", String::as_str));
        Ok(PageCode { code, link, until })
    }

    /// The user of a token, `Some(None)` if its session has ended. `None` if it is not the token of a page.
    pub(super) fn user_of(&self, token: &str) -> Option<Option<UserInfo>> {
        token.starts_with(TOKEN_PREFIX).then(|| self.sessions.user_of(token, (self.clock)()))
    }

    /// The user of a code, and the response with the token of its session.
    fn exchange(&self, code: &str) -> Result<(UserInfo, Value), ApiError> {
        let token = format!("{TOKEN_PREFIX}{}", secret()?);
        let exchanged = self.sessions.exchange(code, &token, (self.clock)());
        if exchanged.is_err() && self.wrong_codes.lock().fails(Instant::now()) {
            tracing::warn!(
                "a client sent an unknown, used or expired code to {EXCHANGE}: run `orlop page` for a new link or, if you did not sign in, look for the client in the audit log (this line appears at most once per minute)"
            );
        }
        match exchanged {
            Ok((user, until)) => {
                tracing::info!(user = user.username, "the web page has started a session");
                let answer = json!({"token": token, "user": user.username, "expires": until.to_string()});
                Ok((user, answer))
            }
            Err(ExchangeError::Unknown) => Err(ApiError {
                message:
                    "Unauthorized: the code is unknown, used or expired; run `orlop page` to print a new link"
                        .to_owned(),
                ..ApiError::unauthorized()
            }),
            Err(ExchangeError::TooManyAttempts) => {
                Err(ApiError::too_many_requests("too many wrong codes, please try again later", 60))
            }
        }
    }
}

/// Records the exchange of a code, and responds.
async fn exchanged(
    sign_in: &PageSignIn,
    mut request: Request,
    exchanged: Result<(UserInfo, Value), ApiError>,
) -> Response {
    if let Some(id) = id::of(request.headers()) {
        request.headers_mut().insert(AUDIT_ID, id);
    }
    if let Some(audit) = sign_in.audit.get() {
        let user = exchanged.as_ref().map(|(user, _)| user);
        code_exchanged(audit, &request, user).accepted().await;
    }
    match exchanged {
        Ok((_, value)) => {
            let mut response = private(200, &value);
            if let Some(id) = request.headers_mut().remove(&AUDIT_ID) {
                response.headers_mut().insert(AUDIT_ID, id);
            }
            response
        }
        Err(error) => refusal(&error, request.headers()),
    }
}

/// A random text that fits in a URL.
fn secret() -> Result<String, ApiError> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| ApiError::internal("the system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Marks a request with the token of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageToken;

/// The response with a new code for the user of a request.
///
/// # Errors
/// 403 for the token of a session, which would otherwise renew itself without end, and for an impersonated user, whose session would no
/// longer show who impersonates. 404 if the page has no sign-in.
pub(crate) fn code_answer(
    sign_in: Option<&PageSignIn>,
    user: &UserInfo,
    request: &Request,
) -> Result<Response, ApiError> {
    if request.extensions().get::<PageToken>().is_some() || request.headers().contains_key(IMPERSONATE_USER) {
        return Err(ApiError::forbidden_path(
            "forbidden: a session of the web page and an impersonated user cannot request a code; use the credentials of the user",
        ));
    }
    let Some(sign_in) = sign_in else {
        let message = "the web page of this server has no sign-in: it exists only on loopback, if the server creates its own certificates";
        return Err(ApiError { message: message.to_owned(), ..ApiError::no_such_resource() });
    };
    let PageCode { code, link, until } = sign_in.issue(user.clone())?;
    Ok(private(201, &json!({"code": code, "link": link, "expires": until.to_string()})))
}

/// A response that no cache stores.
fn private(code: u16, value: &Value) -> Response {
    let mut response = answer::json_bytes(code, RequestedEncoding::JSON, value.to_string().into_bytes());
    let put = response.headers_mut();
    put.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    put.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The files of the page and the exchange of codes, which need no credentials.
pub(crate) struct OpenPage {
    sign_in: Arc<PageSignIn>,
    files: Router,
}

impl OpenPage {
    /// With the codes and sessions of this sign-in.
    pub(crate) fn new(sign_in: Arc<PageSignIn>) -> Self {
        OpenPage { sign_in, files: orlop_web::router() }
    }
}

/// A request that needs no credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenRequest {
    /// The page for a browser that requests `/`.
    Index,
    /// A file of the page.
    File,
    /// The exchange of a code.
    Exchange,
}

impl OpenRequest {
    /// `None` for a request that needs credentials. Pure.
    fn of(method: &Method, path: &str, accept: &str) -> Option<Self> {
        match (method, path) {
            (&Method::POST, EXCHANGE) => Some(OpenRequest::Exchange),
            (&Method::GET, "/") => orlop_web::index(accept).map(|_| OpenRequest::Index),
            (&Method::GET | &Method::HEAD, "/ui" | "/docs" | "/docs/") => Some(OpenRequest::File),
            (&Method::GET | &Method::HEAD, path) if path.starts_with("/ui/") => Some(OpenRequest::File),
            _ => None,
        }
    }
}

/// Responds to a request that needs no credentials; any other request continues. Without `open`, all requests continue.
pub(crate) async fn serve<F: Future<Output = Response>>(
    open: Option<&OpenPage>,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let Some(open) = open else { return next(request).await };
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(wanted) = OpenRequest::of(request.method(), request.uri().path(), accept) else {
        return next(request).await;
    };
    if let Err(error) = guard::check_host(&request).and_then(|()| guard::check_origin(&request)) {
        return match wanted {
            // With credentials, the page is served under any name.
            OpenRequest::Index | OpenRequest::File => next(request).await,
            OpenRequest::Exchange => exchanged(&open.sign_in, request, Err(error)).await,
        };
    }
    match wanted {
        OpenRequest::Index => match orlop_web::index(accept) {
            Some(page) => page,
            None => next(request).await,
        },
        OpenRequest::File => match open.files.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        OpenRequest::Exchange => {
            let (parts, body) = request.into_parts();
            let read = tokio::time::timeout(BODY_TIME, to_bytes(body, MAX_BODY)).await;
            let document = read.ok().and_then(Result::ok);
            let document = document.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
            let found = match document.as_ref().and_then(|document| document["code"].as_str()) {
                Some(code) => open.sign_in.exchange(code),
                None => Err(ApiError::bad_request("the body must be JSON such as {\"code\": \"CODE\"}")),
            };
            exchanged(&open.sign_in, Request::from_parts(parts, axum::body::Body::empty()), found).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_impersonated_users_request_no_code() {
        let user = UserInfo::new("ann", []);
        let sign_in = PageSignIn::new(std::sync::Arc::new(Timestamp::now));
        for (case, is_session, impersonates, want) in [
            ("1 own credentials", false, false, Ok(201)),
            ("2 a session", true, false, Err(403)),
            ("3 impersonated", false, true, Err(403)),
        ] {
            let mut request = Request::new(axum::body::Body::empty());
            if is_session {
                request.extensions_mut().insert(PageToken);
            }
            if impersonates {
                request.headers_mut().insert(IMPERSONATE_USER, HeaderValue::from_static("bob"));
            }
            let answer = code_answer(Some(&sign_in), &user, &request);
            let code = answer.map(|response| response.status().as_u16()).map_err(|error| error.code);
            assert_eq!(code, want, "{case}");
        }
    }

    #[test]
    fn wrong_codes_are_logged_at_most_once_per_interval() {
        let sign_in = PageSignIn::new(std::sync::Arc::new(Timestamp::now));
        let code = sign_in.issue(UserInfo::new("ann", [])).map(|issued| issued.code).unwrap_or_default();
        let (now, pace) = (Instant::now(), || *sign_in.wrong_codes.lock());
        assert!(sign_in.exchange(&code).is_ok());
        assert!(pace().fails(now), "a valid code is not logged");
        let codes = [code.as_str(), "", "x", "y"];
        assert!(codes.into_iter().all(|wrong| sign_in.exchange(wrong).is_err()));
        assert!(!pace().fails(now), "a wrong code was logged less than {WARN_EVERY:?} ago");
        assert!(pace().fails(now + 2 * WARN_EVERY), "the next one is due");
    }

    #[test]
    fn only_the_page_and_the_exchange_are_open() {
        const HTML: &str = "text/html,*/*;q=0.8";
        for (method, path, accept, want) in [
            (Method::GET, "/", HTML, Some(OpenRequest::Index)),
            (Method::GET, "/", "*/*", None),
            (Method::GET, "/ui/", HTML, Some(OpenRequest::File)),
            (Method::GET, "/ui/app.js", "*/*", Some(OpenRequest::File)),
            (Method::HEAD, "/docs", "", Some(OpenRequest::File)),
            (Method::POST, "/ui/app.js", "", None),
            (Method::GET, "/uix", "", None),
            (Method::GET, "/docs/x", "", None),
            (Method::POST, EXCHANGE, "", Some(OpenRequest::Exchange)),
            (Method::GET, EXCHANGE, "", None),
            (Method::POST, CODES, "", None),
            (Method::GET, "/api", HTML, None),
            (Method::GET, "//ui/", HTML, None),
        ] {
            assert_eq!(OpenRequest::of(&method, path, accept), want, "{method} {path} {accept}");
        }
    }
}
