//! Tests of the limits in front of a router.

#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::routing::any;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::authentication::in_process;
use orlop_auth::UserInfo;

fn request(method: &str, uri: &str) -> Request {
    Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
}

fn limits(requests: usize, mutating_requests: usize, watches: usize) -> Arc<Limits> {
    let config = LimitsConfig { requests, mutating_requests, watches, ..LimitsConfig::default() };
    Limits::new(&config, &Registry::new(), Default::default(), false).unwrap()
}

/// The memory that the path `/large-objects` reserves for its pieces, bytes.
const LARGE_PIECES: u64 = 2 << 20;

/// A router with a slow path. `entered` reports a request on it, `gate` releases the request.
struct Slow {
    limits: Arc<Limits>,
    router: Router,
    gate: Arc<Notify>,
    entered: Arc<Notify>,
}

impl Slow {
    fn new(limits: Arc<Limits>) -> Self {
        let gate = Arc::new(Notify::new());
        let entered = Arc::new(Notify::new());
        let (wait, tell) = (gate.clone(), entered.clone());
        let slow = any(move || async move {
            tell.notify_one();
            wait.notified().await;
        });
        let large = any(|| async { vec![0_u8; 1 << 20] });
        let piece = || async { Ok::<_, std::convert::Infallible>("piece") };
        let stream = any(move || async move {
            Body::from_stream(futures::stream::repeat_with(piece).then(|piece| piece))
        });
        let budget = limits.memory.clone();
        let large_objects = any(move || async move {
            let reserved = budget.reserve(LARGE_PIECES).unwrap();
            let pieces = futures::stream::repeat_with(piece).then(|piece| piece);
            let mut response = axum::response::Response::new(Body::from_stream(pieces));
            response.extensions_mut().insert(PieceMemory(Arc::new(reserved)));
            response
        });
        let router = Router::new()
            .route("/large-objects", large_objects)
            .route("/slow", slow)
            .route("/large", large)
            .route("/stream", stream.clone())
            .route("/apis/other.example/v1/things", stream)
            .fallback(any(|| async {}));
        let of_filter = limits.clone();
        let router = router.layer(from_fn(move |mut request: Request, next: Next| {
            let limits = of_filter.clone();
            async move {
                let is_forwarded = request.uri().path().starts_with("/apis/other.example/");
                match admit(&limits, &mut request, is_forwarded).await {
                    Ok(admission) => admission.finish(&limits, next.run(request).await),
                    Err(refusal) => *refusal,
                }
            }
        }));
        Slow { router, limits, gate, entered }
    }

    async fn code(&self, method: &str, uri: &str) -> u16 {
        self.router.clone().oneshot(request(method, uri)).await.unwrap().status().as_u16()
    }
}

#[tokio::test(start_paused = true)]
async fn reads_writes_and_watches_have_separate_permits() {
    let slow = Slow::new(limits(1, 1, 1));
    let busy = tokio::spawn(slow.router.clone().oneshot(request("GET", "/slow")));
    slow.entered.notified().await;
    let watching = slow.router.clone().oneshot(request("GET", "/api/v1/nodes?watch=1")).await.unwrap();
    assert_eq!(watching.status(), 200);
    for (method, uri, want) in [
        ("GET", "/api", 429),
        ("GET", "/api/v1/nodes?watch=0", 429),
        ("GET", "/api/v1/nodes/a?watch=1", 429),
        ("GET", "/readyz", 200),
        ("GET", "/metrics", 200),
        ("POST", "/api", 200),
        ("DELETE", "/api", 200),
    ] {
        assert_eq!(slow.code(method, uri).await, want, "{method} {uri}");
    }
    let own = in_process(slow.router.clone(), UserInfo::controller_manager());
    let response = own.oneshot(request("GET", "/api")).await.unwrap();
    assert_eq!(response.status(), 200, "the controllers are never refused");
    slow.gate.notify_one();
    assert_eq!(busy.await.unwrap().unwrap().status(), 200);
    assert_eq!(slow.code("GET", "/api").await, 200, "the permit is free again");
}

#[tokio::test(start_paused = true)]
async fn watches_of_another_server_have_the_permits_of_watches() {
    let slow = Slow::new(limits(1, 1, 3));
    let things = "/apis/other.example/v1/things";
    let watch = || slow.router.clone().oneshot(request("GET", &format!("{things}?watch=1")));
    let open = futures::future::try_join_all([watch(), watch(), watch()]).await.unwrap();
    assert!(open.iter().all(|response| response.status() == 200));
    assert_eq!(watch().await.unwrap().status(), 429);
    assert_eq!(slow.code("GET", things).await, 200, "reads have permits of their own");
    drop(open);
    assert_eq!(watch().await.unwrap().status(), 200, "the permits are free again");
}

#[tokio::test(start_paused = true)]
async fn rejection_is_upstreams_429() {
    let slow = Slow::new(limits(1, 1, 1));
    let busy = tokio::spawn(slow.router.clone().oneshot(request("GET", "/slow")));
    slow.entered.notified().await;
    let response = slow.router.clone().oneshot(request("GET", "/")).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    let rejected = &slow.limits.flow_control.metrics.rejected;
    assert_eq!(rejected.with_label_values(&["global-default", "global-default", "time-out"]).get(), 1);
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn waiting_request_is_served() {
    let slow = Slow::new(limits(1, 1, 1));
    let busy = tokio::spawn(slow.router.clone().oneshot(request("POST", "/slow")));
    slow.entered.notified().await;
    let waits = tokio::spawn(slow.router.clone().oneshot(request("POST", "/")));
    while slow.limits.writes.count() != (1, 1) {
        tokio::task::yield_now().await;
    }
    slow.gate.notify_one();
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    busy.await.unwrap().unwrap();
    assert_eq!(slow.limits.writes.count(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn debug_pages_list_waiting_requests() {
    let slow = Slow::new(limits(1, 1, 1));
    let of = |user: &str, uri: &str| {
        let mut request = request("POST", uri);
        request.extensions_mut().insert(UserInfo::new(user, []));
        request
    };
    let busy = tokio::spawn(slow.router.clone().oneshot(of("ann", "/slow")));
    slow.entered.notified().await;
    let waits = tokio::spawn(slow.router.clone().oneshot(of("ann", "/api/v1/namespaces/n/pods/p/eviction")));
    while slow.limits.writes.count() != (1, 1) {
        tokio::task::yield_now().await;
    }
    let row = |text: String, level: &str| -> Vec<String> {
        let row = text.lines().find(|line| line.starts_with(level)).unwrap();
        row.split(',').map(|cell| cell.trim().to_owned()).collect()
    };
    let level = row(slow.limits.dump_priority_levels(), "global-default");
    assert_eq!(level, ["global-default", "1", "false", "false", "1", "1", "1", "0", "0", "0"]);
    let queue = row(slow.limits.dump_queues(), "global-default");
    assert_eq!(queue[..5], ["global-default", "0", "1", "1", "1"]);
    let mut waiting = row(slow.limits.dump_requests(true), "global-default");
    waiting.remove(5);
    let want = [
        "global-default",
        "global-default",
        "0",
        "0",
        "ann",
        "1",
        "0",
        "0s",
        "0001-01-01T00:00:00Z",
        "ann",
        "create",
        "/api/v1/namespaces/n/pods/p/eviction",
        "n",
        "p",
        "v1",
        "pods",
        "eviction",
    ];
    assert_eq!(waiting, want);
    slow.gate.notify_one();
    waits.await.unwrap().unwrap();
    busy.await.unwrap().unwrap();
    let level = row(slow.limits.dump_priority_levels(), "global-default");
    assert_eq!(level[1..7], ["0", "true", "false", "0", "0", "2"]);
}

#[tokio::test(start_paused = true)]
async fn computed_response_needs_memory_and_no_permit() {
    let memory = MemoryBudget::new(3 << 19);
    let config = LimitsConfig { requests: 1, memory: memory.clone(), ..LimitsConfig::default() };
    let slow = Slow::new(Limits::new(&config, &Registry::new(), Default::default(), false).unwrap());
    let first = slow.router.clone().oneshot(request("GET", "/large")).await.unwrap();
    assert_eq!((slow.limits.reads.count(), memory.used()), ((0, 0), 1 << 20));
    // There is no memory for another: it keeps the permit.
    let second = slow.router.clone().oneshot(request("GET", "/large")).await.unwrap();
    assert_eq!((slow.limits.reads.count(), memory.used()), ((1, 0), 1 << 20));
    assert_eq!(slow.code("GET", "/").await, 429);
    first.into_body().collect().await.unwrap();
    drop(second);
    assert_eq!((slow.limits.reads.count(), memory.used()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn stream_holds_its_permit_unless_the_client_does_not_read() {
    let memory = MemoryBudget::new(1 << 20);
    let config = LimitsConfig { requests: 1, memory: memory.clone(), ..LimitsConfig::default() };
    let slow = Slow::new(Limits::new(&config, &Registry::new(), Default::default(), false).unwrap());
    let mut body = slow.router.clone().oneshot(request("GET", "/stream")).await.unwrap().into_body();
    for _ in 0..10 {
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((slow.limits.reads.count(), memory.used()), ((1, 0), 0), "it reads");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(slow.limits.reads.count(), (0, 0));
    assert!(memory.used() > 0);
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(memory.used(), 0);
}

/// The large objects of a list may follow after the pieces that its client has read.
#[tokio::test(start_paused = true)]
async fn list_has_memory_for_its_large_objects_while_its_client_does_not_read() {
    let memory = MemoryBudget::new(2 * LARGE_PIECES);
    let config = LimitsConfig { requests: 1, memory: memory.clone(), ..LimitsConfig::default() };
    let slow = Slow::new(Limits::new(&config, &Registry::new(), Default::default(), false).unwrap());
    let response = slow.router.clone().oneshot(request("GET", "/large-objects")).await.unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!((slow.limits.reads.count(), memory.used()), ((1, 0), LARGE_PIECES));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        (slow.limits.reads.count(), memory.used()),
        ((0, 0), LARGE_PIECES),
        "it has no permit any more"
    );
    drop(body);
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn zero_means_no_limit() {
    let slow = Slow::new(limits(0, 0, 0));
    let busy = tokio::spawn(slow.router.clone().oneshot(request("GET", "/slow")));
    slow.entered.notified().await;
    for (method, uri) in [("GET", "/"), ("POST", "/"), ("GET", "/api/v1/nodes?watch=1")] {
        assert_eq!(slow.code(method, uri).await, 200, "{method} {uri}");
    }
    busy.abort();
}
