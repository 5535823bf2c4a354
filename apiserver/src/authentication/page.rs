//! Sign-in of the web page on a server that requires credentials on loopback.
//!
//! The files of the page are the same on every server and contain no data, so they need no credentials. The page exchanges a one-time
//! code for the token of a session, and sends this token with its requests. A user with the right to `post` to [`CODES`] gets a code for
//! itself. The session ends with the credentials that requested the code ([`super::session_origin`]).

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use jiff::Timestamp;
use orlop_api::status::ApiError;
use orlop_apimachinery::warning_pace::WarningPace;
use orlop_auth::UserInfo;
use orlop_auth::impersonation::USER as IMPERSONATE_USER;
use orlop_auth::page_session::{ExchangeError, PageSessions, TOKEN_PREFIX};
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

use super::session_origin::{OpenSession, SessionOrigin, SignedIn};
use crate::audit::Audit;
use crate::clock::Clock;
use crate::encode::answer;
use crate::encode::negotiate::RequestedEncoding;

/// The path where the page exchanges a code.
pub(super) const EXCHANGE: &str = "/orlop/sign-in";
/// The path where a user gets a code.
pub(crate) const CODES: &str = "/orlop/sign-in/codes";
/// Random bytes of a code and of a token.
const SECRET_BYTES: usize = 32;
/// The minimum time between two log lines about wrong codes.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The one-time codes and the sessions of the web page.
pub struct PageSignIn {
    sessions: PageSessions<Arc<SignedIn>>,
    /// The URL of the server.
    url: OnceLock<String>,
    pub(super) audit: OnceLock<Arc<Audit>>,
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

    /// Issues a code of the server itself for a user. The session depends on no credentials.
    ///
    /// # Errors
    /// 500 if the system has no random numbers.
    pub fn issue(&self, user: UserInfo) -> Result<PageCode, ApiError> {
        self.issue_for(user, SessionOrigin::Server)
    }

    /// Issues a code for the user of these credentials.
    fn issue_for(&self, user: UserInfo, origin: SessionOrigin) -> Result<PageCode, ApiError> {
        let code = secret()?;
        let end = origin.expires();
        let until = self.sessions.add_code(&code, Arc::new(SignedIn { user, origin }), end, (self.clock)());
        let link = format!("{}/#code={code}", self.url.get().map_or("", String::as_str));
        Ok(PageCode { code, link, until })
    }

    /// The session of a token, `Some(None)` if it has expired. `None` if this is not the token of a page.
    pub(super) fn session_of(&self, token: &str) -> Option<Option<OpenSession>> {
        let is_page = token.starts_with(TOKEN_PREFIX);
        is_page.then(|| {
            let found = self.sessions.user_of(token, (self.clock)());
            found.map(|(signed_in, until)| OpenSession { signed_in, until })
        })
    }

    /// The clock of the sessions.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Exchanges a code for a new session. The caller checks the credentials of the session once more: the code may be five minutes old.
    ///
    /// # Errors
    /// 401 if the code is not valid, 429 after too many wrong ones, 500 if the system has no random numbers.
    pub(super) fn exchange(&self, code: &str) -> Result<NewSession, ApiError> {
        let token = format!("{TOKEN_PREFIX}{}", secret()?);
        match self.sessions.exchange(code, &token, (self.clock)()) {
            Ok((signed_in, until)) => Ok(NewSession { token, user: signed_in.user.clone(), until }),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Ends a new session whose credentials are not valid any more, and returns the response to its code.
    pub(super) fn reject(&self, session: &NewSession) -> ApiError {
        self.sessions.end(&session.token, (self.clock)());
        self.refuse(ExchangeError::Unknown)
    }

    /// The response to a code that begins no session.
    fn refuse(&self, error: ExchangeError) -> ApiError {
        if self.wrong_codes.lock().fails(Instant::now()) {
            tracing::warn!(
                "a client sent an unknown, used or expired code to {EXCHANGE}: run `orlop page` for a new link or, if you did not sign in, look for the client in the audit log (this line appears at most once per minute)"
            );
        }
        match error {
            ExchangeError::Unknown => ApiError {
                message:
                    "Unauthorized: the code is unknown, used or expired; run `orlop page` to print a new link"
                        .to_owned(),
                ..ApiError::unauthorized()
            },
            ExchangeError::TooManyAttempts => {
                ApiError::too_many_requests("too many wrong codes, please try again later", 60)
            }
        }
    }
}

/// A session that has just begun.
pub(super) struct NewSession {
    pub(super) token: String,
    pub(super) user: UserInfo,
    /// When it expires.
    pub(super) until: Timestamp,
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
/// 403 for the token of a session, which would otherwise renew itself without end; for an impersonated user, whose session would no
/// longer show who impersonates; and for a request without credentials, with which the session could end. 404 if the page has no sign-in.
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
    let Some(origin) = request.extensions().get::<SessionOrigin>() else {
        return Err(ApiError::forbidden_path("forbidden: a request for a code needs credentials"));
    };
    let PageCode { code, link, until } = sign_in.issue_for(user.clone(), origin.clone())?;
    Ok(private(201, &json!({"code": code, "link": link, "expires": until.to_string()})))
}

/// A response that no cache stores.
pub(super) fn private(code: u16, value: &Value) -> Response {
    let mut response = answer::json_bytes(code, RequestedEncoding::JSON, value.to_string().into_bytes());
    let put = response.headers_mut();
    put.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    put.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_impersonated_users_request_no_code() {
        let user = UserInfo::new("ann", []);
        let sign_in = PageSignIn::new(std::sync::Arc::new(Timestamp::now));
        for (case, origin, is_session, impersonates, want) in [
            ("1 own credentials", Some(SessionOrigin::Server), false, false, Ok(201)),
            ("2 a session", None, true, false, Err(403)),
            ("3 impersonated", Some(SessionOrigin::Server), false, true, Err(403)),
            ("4 no credentials", None, false, false, Err(403)),
        ] {
            let mut request = Request::new(axum::body::Body::empty());
            if let Some(origin) = origin {
                request.extensions_mut().insert(origin);
            }
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
}
