//! The revisions of workloads: `rollout status`, `rollout history` and `rollout undo`, with all controllers.

use serde_json::json;

use super::NODE;
use crate::harness::http::Http;
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::Plane;
use crate::harness::wait;
use crate::workload::Agent;

/// A workload with the image `main:1`. No agent runs on the node: its pods tolerate that it is not ready, and have no
/// grace period, because no agent confirms their end.
fn workload(kind: &str, name: &str) -> String {
    let kind_fields = match kind {
        "StatefulSet" => "serviceName: workload\n  replicas: 1",
        "Deployment" => "replicas: 1",
        _ => "updateStrategy: {type: RollingUpdate}",
    };
    format!(
        "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {kind_fields}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{{operator: Exists}}]
      containers: [{{name: main, image: 'main:1'}}]
"
    )
}

/// One workload, and the texts of kubectl about it.
struct Rollout<'a> {
    kubectl: &'a Kubectl,
    http: &'a Http,
    /// `deployment.apps/NAME` or similar, as kubectl prints it.
    target: &'a str,
    name: &'a str,
    /// The end of the output of `rollout status`.
    finished: &'a str,
}

impl Rollout<'_> {
    async fn run(&self, args: &[&str]) -> String {
        self.kubectl.run(&[args, &[self.target]].concat()).await.ok()
    }

    /// Waits until every pod runs this image; `rollout status` then reports success.
    async fn finishes(&self, image: &str) {
        let said = self.run(&["rollout", "status", "--timeout=60s"]).await;
        assert!(said.contains(self.finished), "{said}");
        let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{}", self.name);
        self.http
            .until(&pods, &format!("{} runs {image}", self.target), |pods| {
                let pods = pods["items"].as_array().unwrap();
                !pods.is_empty() && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image)
            })
            .await;
    }

    /// The history contains exactly these revisions.
    async fn has_revisions(&self, revisions: [u32; 2]) {
        let history = self.run(&["rollout", "history"]).await;
        let [first, second] = revisions.map(|revision| format!("{revision}         <none>"));
        let wanted = format!("{} \nREVISION  CHANGE-CAUSE\n{first}\n{second}\n\n", self.target);
        assert_eq!(history, wanted);
    }

    async fn updates_and_goes_back(&self) {
        self.finishes("main:1").await;
        let said = self.kubectl.run(&["set", "image", self.target, "main=main:2"]).await.ok();
        assert_eq!(said, format!("{} image updated\n", self.target));
        self.finishes("main:2").await;
        self.has_revisions([1, 2]).await;
        for (revision, image) in [("1", "main:1"), ("2", "main:2")] {
            let said = self.run(&["rollout", "history", "--revision", revision]).await;
            assert!(said.starts_with(&format!("{} with revision #{revision}\n", self.target)), "{said}");
            assert!(said.contains(&format!("    Image:\t{image}\n")), "{said}");
        }
        // A dry run changes nothing: the real one is still possible.
        let said = self.run(&["rollout", "undo", "--dry-run=server"]).await;
        assert_eq!(said, format!("{} rolled back (server dry run)\n", self.target));
        let said = self.run(&["rollout", "undo"]).await;
        assert_eq!(said, format!("{} rolled back\n", self.target));
        self.finishes("main:1").await;
        self.has_revisions([2, 3]).await;
        let said = self.run(&["rollout", "undo", "--to-revision=2"]).await;
        assert_eq!(said, format!("{} rolled back\n", self.target));
        self.finishes("main:2").await;
        self.has_revisions([3, 4]).await;
        let said = self.kubectl.run(&["rollout", "undo", self.target, "--to-revision=9"]).await.refused();
        assert!(said.contains("unable to find specified revision 9 in history"), "{said}");
    }
}

#[tokio::test]
async fn workloads_roll_back_to_their_revisions() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.apply(NODE).await;
    let agent = Agent::start(http.clone());
    for (kind, target, finished) in [
        ("Deployment", "deployment.apps/web", "deployment \"web\" successfully rolled out\n"),
        ("DaemonSet", "daemonset.apps/agent", "daemon set \"agent\" successfully rolled out\n"),
        (
            "StatefulSet",
            "statefulset.apps/db",
            "partitioned roll out complete: 1 new pods have been updated...",
        ),
    ] {
        let name = target.split('/').next_back().unwrap();
        kubectl.apply(&workload(kind, name)).await;
        let rollout = Rollout { kubectl: &kubectl, http: &http, target, name, finished };
        rollout.updates_and_goes_back().await;
    }
    let columns = ["agent", "1", "1", "1", "1", "1", "<none>"];
    wait::until("all numbers of the DaemonSet are 1", async || {
        let row = kubectl.run(&["get", "ds", "agent", "--no-headers"]).await.ok();
        if row.split_whitespace().take(7).eq(columns) { Ok(()) } else { Err(row) }
    })
    .await;
    drop(agent);
}

/// `rollout status` reports the progress of an update while no pod of it is ready.
#[tokio::test]
async fn rollout_status_waits_for_pods() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.apply(NODE).await;
    for (kind, target, waits, finished) in [
        (
            "DaemonSet",
            "daemonset.apps/agent",
            "Waiting for daemon set \"agent\" rollout to finish: 0 of 1 updated pods are available...\n",
            "daemon set \"agent\" successfully rolled out\n",
        ),
        (
            "StatefulSet",
            "statefulset.apps/db",
            "Waiting for 1 pods to be ready...\n",
            "partitioned roll out complete: 1 new pods have been updated...",
        ),
    ] {
        let name = target.split('/').next_back().unwrap();
        kubectl.apply(&workload(kind, name)).await;
        let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}");
        let list =
            http.until(&pods, "one pod", |pods| pods["items"][0]["metadata"]["name"].is_string()).await;
        let follow = kubectl.start(name, &["rollout", "status", target, "--timeout=60s"]);
        follow.says(|said| said.contains(waits)).await;
        let pod = list["items"][0]["metadata"]["name"].as_str().unwrap();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        http.patch(&format!("/api/v1/namespaces/default/pods/{pod}/status"), &status).await.expect(200);
        let said = follow.ok().await;
        assert!(said.contains(finished), "{said}");
    }
}
