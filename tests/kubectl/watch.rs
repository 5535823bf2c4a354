//! Commands that follow changes: `get -w` and `wait`.

use super::{CLAIM, NODE, POD, VOLUME};
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn get_watch_prints_every_change() {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(CLAIM).await;
    let watch = kubectl.start("watch", &["get", "pvc", "-n", "test", "-w"]);
    let one = kubectl.start("one", &["get", "pvc", "myclaim", "-n", "test", "-w", "-o", "name"]);
    let new =
        kubectl.start("new", &["get", "pvc", "-A", "--watch-only", "--output-watch-events", "--no-headers"]);
    watch.says(|said| said.contains("Pending")).await;
    one.says(|said| said == "persistentvolumeclaim/myclaim\n").await;
    kubectl.apply(VOLUME).await;
    let said = watch.says(|said| said.lines().any(|line| line.starts_with("myclaim   Bound"))).await;
    assert_eq!(said.matches("NAME").count(), 1, "one heading:\n{said}");
    let columns = watch.said().lines().next().unwrap().split_whitespace().count();
    assert!(columns > 6, "{said}");
    one.says(|said| said.lines().count() > 1).await;
    // The start time of the watch is unknown, so change the claim until a change arrives.
    let mut patches = 0;
    crate::harness::wait::until("--watch-only tells changes", async || {
        patches += 1;
        let note = format!("n={patches}");
        kubectl.run(&["annotate", "pvc", "-n", "test", "myclaim", "--overwrite", &note]).await.ok();
        let said = new.said();
        let tells = |line: &str| line.starts_with("MODIFIED") && line.contains("myclaim");
        if said.lines().any(tells) { Ok(()) } else { Err(said) }
    })
    .await;
    assert!(!new.said().contains("ADDED"), "{}", new.said());
    kubectl.run(&["delete", "pvc", "-n", "test", "myclaim"]).await.ok();
    new.says(|said| said.lines().any(|line| line.starts_with("DELETED"))).await;
}

#[tokio::test]
async fn get_in_chunks_returns_one_list() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    for number in 0..25 {
        let name = format!("c{number:02}");
        http.create(
            "/api/v1/namespaces/default/configmaps",
            &serde_json::json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let out = kubectl.run(&["get", "cm", "--chunk-size=10", "-o", "name"]).await.ok();
    let names: Vec<String> = (0..25).map(|number| format!("configmap/c{number:02}")).collect();
    let found: Vec<&str> = out.lines().collect();
    assert_eq!(found, names);
}

#[tokio::test]
async fn wait_returns_on_state_and_deletion() {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(CLAIM).await;
    let claim = "pvc/myclaim";
    if kubectl.can("kubectl wait --for=jsonpath", 23).await {
        let state = "--for=jsonpath={.status.phase}=Bound";
        let mut waits = kubectl.start("wait", &["wait", "-n", "test", state, claim, "--timeout=60s"]);
        assert!(waits.runs(), "{}", waits.said());
        kubectl.apply(VOLUME).await;
        assert_eq!(waits.ok().await, "persistentvolumeclaim/myclaim condition met\n");
        let said = kubectl.run(&["wait", "-n", "test", state, claim, "--timeout=60s"]).await.ok();
        assert_eq!(said, "persistentvolumeclaim/myclaim condition met\n", "met before");
        let never = "--for=jsonpath={.status.phase}=Lost";
        let said = kubectl.run(&["wait", "-n", "test", never, claim, "--timeout=1s"]).await.refused();
        assert!(said.contains("timed out waiting for the condition"), "{said}");
    }
    let gone = kubectl.start("gone", &["wait", "-n", "test", "--for=delete", claim, "--timeout=60s"]);
    kubectl.run(&["delete", "pvc", "-n", "test", "myclaim"]).await.ok();
    gone.ok().await;
}

/// No node runs pods here; the test acts as their node.
#[tokio::test]
async fn wait_returns_on_condition() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(NODE).await;
    kubectl.apply(POD).await;
    let ready = ["wait", "-n", "test", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=60s"];
    let waits = kubectl.start("ready", &ready);
    let not = kubectl.start("not", &["wait", "--for=condition=Ready=false", "node/n1", "--timeout=60s"]);
    for (path, status) in [("namespaces/test/pods/web", "True"), ("nodes/n1", "False")] {
        let condition = serde_json::json!({"type": "Ready", "status": status});
        let patch = serde_json::json!({"status": {"conditions": [condition]}});
        assert_eq!(http.patch(&format!("/api/v1/{path}/status"), &patch).await.code, 200, "{path}");
    }
    assert_eq!(waits.ok().await, "pod/web condition met\n");
    assert_eq!(not.ok().await, "node/n1 condition met\n");
    let said =
        kubectl.run(&["wait", "-n", "test", "--for=delete", "pod/web", "--timeout=1s"]).await.refused();
    assert!(said.contains("timed out waiting for the condition on pods/web"), "{said}");
}
