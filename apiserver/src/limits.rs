//! How many requests are served at the same time.
//!
//! Reads and writes have limits of their own, so that a flood of lists does not keep a controller
//! from writing. Long requests (watches) are not counted: they cost nothing while nothing happens.
//! Who comes when all places are taken is told to come again, at once and not from a queue.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Semaphore;

use crate::query::Query;

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    reads: Option<Arc<Semaphore>>,
    writes: Option<Arc<Semaphore>>,
}

impl Limits {
    /// So many reading and so many writing requests; 0 is no limit.
    pub fn new(reads: usize, writes: usize) -> Self {
        let places =
            |limit: usize| (limit > 0).then(|| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))));
        Limits { reads: places(reads), writes: places(writes) }
    }

    /// The router behind these limits.
    pub fn protect(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, admit))
    }

    /// Which places a request counts for.
    fn places_for(&self, request: &Request) -> Option<&Arc<Semaphore>> {
        match *request.method() {
            Method::GET | Method::HEAD | Method::OPTIONS if is_long(request) => None,
            Method::GET | Method::HEAD | Method::OPTIONS => self.reads.as_ref(),
            _ => self.writes.as_ref(),
        }
    }
}

/// Watches, and the probes that must be answered just when the server is busy.
fn is_long(request: &Request) -> bool {
    let path = request.uri().path();
    if ["/livez", "/readyz", "/healthz"].iter().any(|probe| path.starts_with(probe)) {
        return true;
    }
    Query::parse(request.uri().query()).flag("watch") || path.split('/').any(|part| part == "watch")
}

async fn admit(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let Some(places) = limits.places_for(&request) else { return next.run(request).await };
    let Ok(_place) = places.try_acquire() else {
        let headers = [
            (CONTENT_TYPE, "text/plain; charset=utf-8"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (RETRY_AFTER, "1"),
        ];
        let text = "Too many requests, please try again later.\n";
        return (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response();
    };
    next.run(request).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::Body;
    use axum::routing::any;
    use tokio::sync::Notify;
    use tower::ServiceExt as _;

    use super::*;

    fn request(method: &str, uri: &str) -> Request {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn each_has_its_own_places() {
        let gate = Arc::new(Notify::new());
        let entered = Arc::new(Notify::new());
        let (wait, tell) = (gate.clone(), entered.clone());
        let slow = any(move || async move {
            tell.notify_one();
            wait.notified().await;
        });
        let quick = any(|| async {});
        let router = Router::new().route("/slow", slow).fallback(quick);
        let router = Limits::new(1, 1).protect(router);

        let busy = tokio::spawn(router.clone().oneshot(request("GET", "/slow")));
        entered.notified().await;
        let cases = [
            ("GET", "/api", 429),
            ("GET", "/api?watch=false", 429),
            ("GET", "/api?watch=1", 200),
            ("GET", "/api?watch=yes", 200),
            ("GET", "/api?watch=0", 429),
            ("GET", "/api?a=b&watch=true", 200),
            ("GET", "/api/v1/watch/pods", 200),
            ("GET", "/readyz", 200),
            ("POST", "/api", 200),
            ("DELETE", "/api", 200),
        ];
        for (method, uri, want) in cases {
            let response = router.clone().oneshot(request(method, uri)).await.unwrap();
            assert_eq!(response.status().as_u16(), want, "{method} {uri}");
            if want == 429 {
                assert_eq!(response.headers()[RETRY_AFTER], "1");
            }
        }
        gate.notify_one();
        assert_eq!(busy.await.unwrap().unwrap().status(), 200);
        let response = router.oneshot(request("GET", "/api")).await.unwrap();
        assert_eq!(response.status(), 200, "the place is free again");
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let router = Limits::new(0, 0).protect(Router::new().fallback(any(|| async {})));
        for method in ["GET", "POST"] {
            let response = router.clone().oneshot(request(method, "/")).await.unwrap();
            assert_eq!(response.status(), 200, "{method}");
        }
    }
}
