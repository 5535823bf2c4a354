//! The requests of the web page that need no credentials: its files, and the exchange of a code.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use futures::FutureExt as _;
use http::Method;
use http::header::ACCEPT;
use orlop_api::status::ApiError;
use orlop_auth::{UserInfo, guard};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::chain::Authenticators;
use super::page::{EXCHANGE, NewSession, PageSignIn, private};
use super::refusal::refusal;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::layer::code_exchanged;

/// Maximum size of the body with a code.
const MAX_BODY: usize = 4096;
/// Time limit for this body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The files of the page and the exchange of codes.
pub(crate) struct OpenPage {
    sign_in: Arc<PageSignIn>,
    authenticators: Arc<Authenticators>,
    files: Router,
}

impl OpenPage {
    /// With the codes and sessions of this sign-in, whose credentials this authentication verifies.
    pub(crate) fn new(authenticators: Arc<Authenticators>, sign_in: Arc<PageSignIn>) -> Self {
        OpenPage { sign_in, authenticators, files: orlop_web::router() }
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

/// The response to a request that needs no credentials, which it takes; `None` for all other requests.
pub(crate) async fn respond(open: &OpenPage, request: &mut Request) -> Option<Response> {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wanted = OpenRequest::of(request.method(), request.uri().path(), accept)?;
    let refused = guard::check_host(request).and_then(|()| guard::check_origin(request)).err();
    match (wanted, refused) {
        // With credentials, the page is served under any name.
        (OpenRequest::Index | OpenRequest::File, Some(_)) => None,
        (OpenRequest::Index, None) => orlop_web::index(accept),
        (OpenRequest::File, None) => match open.files.clone().oneshot(std::mem::take(request)).await {
            Ok(response) => Some(response),
            Err(never) => match never {},
        },
        (OpenRequest::Exchange, Some(error)) => {
            let request = std::mem::take(request);
            Some(exchanged(&open.sign_in, request, Err(error)).boxed().await)
        }
        (OpenRequest::Exchange, None) => Some(exchange(open, std::mem::take(request)).boxed().await),
    }
}

/// Exchanges the code in the body of a request for a session.
async fn exchange(open: &OpenPage, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIME, to_bytes(body, MAX_BODY)).await;
    let document = read.ok().and_then(Result::ok);
    let document = document.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let found = match document.as_ref().and_then(|document| document["code"].as_str()) {
        Some(code) => begin_session(open, code).await,
        None => Err(ApiError::bad_request("the body must be JSON such as {\"code\": \"CODE\"}")),
    };
    exchanged(&open.sign_in, Request::from_parts(parts, Body::empty()), found).await
}

/// The user of a code, and the response with the token of its session.
async fn begin_session(open: &OpenPage, code: &str) -> Result<(UserInfo, Value), ApiError> {
    let session = open.sign_in.exchange(code)?;
    if !open.authenticators.accepts_session(&session.token).await {
        return Err(open.sign_in.reject(&session));
    }
    let NewSession { token, user, until } = session;
    tracing::info!(user = user.username, "the web page has started a session");
    let answer = json!({"token": token, "user": user.username, "expires": until.to_string()});
    Ok((user, answer))
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

#[cfg(test)]
mod tests {
    use super::super::page::CODES;
    use super::*;

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
