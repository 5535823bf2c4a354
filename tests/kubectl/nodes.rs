//! Commands for nodes: `cordon`, `uncordon`, `taint`, `drain`.

use super::{NODE, POD, Row, row, run};
use crate::harness::plane::{Layout, Plane};

/// On a control plane with the node `n1` and a pod on it.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("cordon", &["cordon", "n1"]).says("node/n1 cordoned"),
        row("cordon", &["cordon", "n1"]).says("node/n1 already cordoned"),
        row("cordon", &["get", "node", "n1", "--no-headers"]).tells(&["SchedulingDisabled"]),
        row("uncordon", &["uncordon", "n1"]).says("node/n1 uncordoned"),
        row("uncordon", &["get", "node", "n1", "-o", "jsonpath={.spec.unschedulable}"]).says(""),
        row("taint", &["taint", "node", "n1", "disk=slow:NoSchedule"]).says("node/n1 tainted"),
        row("taint", &["taint", "node", "n1", "disk=slow:NoSchedule"])
            .refuses(&["node n1 already has disk taint(s) with same effect(s) and --overwrite is false"]),
        row("taint", &["taint", "node", "n1", "disk-"]).says("node/n1 untainted"),
        row("drain", &["drain", "n1"]).refuses(&["(use --force to override): test/web"]),
        row("drain", &["drain", "n1", "--dry-run=client", "--force"])
            .tells(&["evicting pod test/web (dry run)"]),
        row("drain", &["drain", "n1", "--force", "--disable-eviction", "--timeout=60s"])
            .tells(&["pod/web deleted"]),
        row("drain", &["get", "pods", "-A", "-o", "name"]).says(""),
    ]
}

#[tokio::test]
async fn cordon_taint_and_drain_work() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(NODE).await;
    kubectl.apply(POD).await;
    run(&kubectl, &rows()).await;
}
