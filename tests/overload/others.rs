//! Other clients and other objects beside the worst ones.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::http::Http;
use crate::harness::wait;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// How long the requests of other clients took.
pub(super) struct Latencies(Vec<Duration>);

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let at = |part: usize| sorted.get(last * part / 100).copied().unwrap_or_default();
        write!(f, "{} requests, p50 {:?}, p99 {:?}, maximum {:?}", sorted.len(), at(50), at(99), at(100))
    }
}

/// Asks for the server's health and renews a Lease until the token is cancelled. Every request must succeed.
pub(super) async fn other_clients(http: Http, ended: CancellationToken) -> Latencies {
    let (mut latencies, mut count) = (Vec::new(), 0);
    while !ended.is_cancelled() {
        let started = Instant::now();
        assert_eq!(http.get("/livez").await.code, 200);
        latencies.push(started.elapsed());
        let renewal = json!({"metadata": {"name": "l"}, "spec": {"leaseTransitions": count}});
        let started = Instant::now();
        let mut answer = http.patch(&format!("{LEASES}/l"), &renewal).await;
        if answer.code == 404 {
            answer = http.post(LEASES, &renewal).await;
        }
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
        latencies.push(started.elapsed());
        count += 1;
    }
    Latencies(latencies)
}

/// A claim binds, a deployment gets its pod, and a service and a disruption budget are observed: the controllers serve other objects.
pub(super) async fn others_are_served(http: &Http, nth: usize) {
    let namespace = format!("well-{nth}");
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    let volume = json!({"metadata": {"name": namespace}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "hostPath": {"path": format!("/tmp/{namespace}")},
        "claimRef": {"namespace": namespace, "name": "c"}}});
    http.create("/api/v1/persistentvolumes", &volume).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "", "volumeName": namespace,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    http.create(&claims, &claim).await;
    http.until(&format!("{claims}/c"), "bound", |claim| claim["status"]["phase"] == "Bound").await;
    let labels = json!({"app": "well"});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    http.create(&deployments, &deployment).await;
    // The pods of hostile owners are created in turn with this one, which takes a minute in a development build.
    let path = format!("{deployments}/d");
    wait::until_long(&format!("{path}: has its pod"), async || {
        let deployment: Value = http.try_get(&path).await?.json();
        match deployment["status"]["replicas"] == 1 {
            true => Ok(()),
            false => Err(format!("{deployment:#}")),
        }
    })
    .await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": labels, "ports": [{"port": 80}]}});
    http.create(&format!("/api/v1/namespaces/{namespace}/services"), &service).await;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    http.until(&slices, "sliced", |list| list["items"].as_array().is_some_and(|items| !items.is_empty()))
        .await;
    let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    http.create(&budgets, &budget).await;
    http.until(&format!("{budgets}/b"), "observed", |budget| budget["status"]["observedGeneration"] == 1)
        .await;
}
