//! Volumes of a CSI driver: provisioning claims, attaching and detaching the volumes of pods, and moving a pod.
//! The driver responds immediately, so the measured time is orlop's.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::attached::{ATTACHMENTS, Attached};
use crate::child::Role;
use crate::client::Draft;
use crate::driver::Driver;
use crate::environment::{Environment, Server};
use crate::error::BenchError;
use crate::follow::Follower;
use crate::objects::{self, NAMESPACES};
use crate::progress::progress;
use crate::report::{Case, Figure};
use crate::samples::Samples;

use super::Done;

const NODES: usize = 10;
/// The row is aborted below this rate.
const LEAST_PER_SECOND: u64 = 10;

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let nodes: Vec<String> = (0..NODES).map(|n| format!("{}n{n}", environment.prefix("csi"))).collect();
    let driver = Driver::start(environment.program(), &environment.fresh_data(), &nodes).await?;
    let server = environment.own(Role::Serve, &["--csi-endpoint", &driver.endpoint()]).await?;
    let bed = Bed { environment, server, nodes, namespace: format!("orlop-bench-{}-csi", environment.run) };
    bed.prepare().await?;
    let cases = vec![bed.provision().await?, bed.attach().await?, bed.moves().await?];
    bed.server.done();
    Ok(Done { cases, problems: Vec::new() })
}

struct Bed<'g> {
    environment: &'g Environment,
    server: Server,
    nodes: Vec<String>,
    namespace: String,
}

fn patience(n: usize) -> Duration {
    Duration::from_secs(60 + n as u64 / LEAST_PER_SECOND)
}

impl Bed<'_> {
    async fn make(&self, path: &str, body: &Value) -> Result<(), BenchError> {
        let mut draft = Draft::of("POST", path);
        draft.content_type = "application/json";
        draft.body = body.to_string().into_bytes();
        self.server.once(&draft, &[201]).await.map(drop)
    }

    async fn prepare(&self) -> Result<(), BenchError> {
        let class = json!({"metadata": {"name": objects::CLASS}, "provisioner": Driver::NAME});
        self.make("/apis/storage.k8s.io/v1/storageclasses", &class).await?;
        let driver = json!({"metadata": {"name": Driver::NAME}, "spec": {"attachRequired": true}});
        self.make("/apis/storage.k8s.io/v1/csidrivers", &driver).await?;
        self.make(NAMESPACES, &json!({"metadata": {"name": self.namespace}})).await?;
        for node in &self.nodes {
            // The annotation that a node agent would write.
            let managed = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
            let meta = json!({"name": node, "annotations": managed});
            self.make("/api/v1/nodes", &json!({"metadata": meta})).await?;
            let drivers = json!([{"name": Driver::NAME, "nodeID": node, "topologyKeys": null}]);
            let entry = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
            self.make("/apis/storage.k8s.io/v1/csinodes", &entry).await?;
        }
        Ok(())
    }

    fn claims(&self) -> String {
        self.environment.prefix("cc")
    }

    /// Creates claims of the class, 64 in flight, until the last is Bound.
    async fn provision(&self) -> Result<Case, BenchError> {
        let n = self.environment.plan.driven;
        let path = objects::claims(&self.namespace);
        let case = Case { name: format!("{n} claims"), ..Case::default() };
        progress(&format!("csi: {} ...", case.name));
        let revision = self.server.revision(&path).await?;
        let follower = Follower::start(&self.server.endpoint, &path, revision, &self.claims(), "Bound", n);
        let start = Instant::now();
        self.server.fill(&path, &objects::claim(&self.environment.run), &self.claims(), 0, n).await?;
        let last = follower.all(patience(n)).await?;
        let seconds = last.saturating_duration_since(start).as_secs_f64().max(1e-9);
        let server = vec![
            Figure::new("claims", "claims", "", n as f64),
            Figure::new("provisioned_per_s", "created, provisioned and bound", "/s", n as f64 / seconds),
        ];
        Ok(Case { server, ..case })
    }

    /// Creates a pod for each claim, spread over the nodes, until every volume is attached; then deletes the pods until
    /// every volume is detached.
    async fn attach(&self) -> Result<Case, BenchError> {
        let n = self.environment.plan.driven;
        let case = Case { name: format!("{n} attachments"), ..Case::default() };
        progress(&format!("csi: {} ...", case.name));
        let revision = self.server.revision(ATTACHMENTS).await?;
        let mut attached = Attached::start(&self.server.endpoint, revision);
        let start = Instant::now();
        self.each_pod("POST", n).await?;
        let seen = attached.until("every pod's volume attached", patience(n), |s| s.attached == n).await?;
        let on = seen.last.map_or(f64::NAN, |last| (last - start).as_secs_f64());
        let back = Instant::now();
        self.each_pod("DELETE", n).await?;
        let seen = attached.until("every volume detached", patience(n), |s| s.now.is_empty()).await?;
        let off = seen.last.map_or(f64::NAN, |last| last.saturating_duration_since(back).as_secs_f64());
        let server = vec![
            Figure::new("attachments", "pods, one volume each", "", n as f64),
            Figure::new("attached_per_s", "attached", "/s", n as f64 / on),
            Figure::new("detached_per_s", "detached", "/s", n as f64 / off),
            Figure::new("round_trips_per_s", "attached and detached again", "/s", n as f64 / (on + off)),
        ];
        Ok(Case { server, ..case })
    }

    async fn each_pod(&self, method: &'static str, n: usize) -> Result<(), BenchError> {
        let pods = format!("{NAMESPACES}/{}/pods", self.namespace);
        let (claims, nodes) = (self.claims(), self.nodes.clone());
        let work = crate::load::Work {
            in_flight: crate::environment::IN_FLIGHT,
            wanted: &[200, 201],
            fill: std::sync::Arc::new(move |number, draft| {
                let name = objects::name("p", number);
                if method == "DELETE" {
                    *draft = Draft::of(method, format!("{pods}/{name}?gracePeriodSeconds=0"));
                    return;
                }
                draft.method = method;
                draft.path.clone_from(&pods);
                draft.content_type = "application/json";
                let pod = pod(&name, &nodes[number % nodes.len()], &objects::name(&claims, number));
                draft.body = pod.to_string().into_bytes();
            }),
        };
        let load = self.server.load(&work, 0, n).await;
        match load.first_failure {
            None => Ok(()),
            Some(problem) => Err(BenchError::Request {
                url: self.server.endpoint.url.clone(),
                what: format!("{method} of a pod"),
                problem,
            }),
        }
    }

    /// A volume is attached for a pod while a pod on another node waits for it. Measures the time from the deletion
    /// of the first pod until the volume is attached to the second pod's node.
    async fn moves(&self) -> Result<Case, BenchError> {
        let n = self.environment.plan.moves;
        let case = Case { name: format!("{n} moves"), ..Case::default() };
        progress(&format!("csi: {} ...", case.name));
        let revision = self.server.revision(ATTACHMENTS).await?;
        let mut attached = Attached::start(&self.server.endpoint, revision);
        let pods = format!("{NAMESPACES}/{}/pods", self.namespace);
        let claim = objects::name(&self.claims(), 0);
        let mut samples = Samples::with_capacity(n);
        let mut left = None::<Instant>;
        for turn in 0..=n {
            let node = &self.nodes[turn % self.nodes.len()];
            self.make(&pods, &pod(&format!("m{turn}"), node, &claim)).await?;
            if turn > 0 {
                let before = Draft::of("DELETE", format!("{pods}/m{}?gracePeriodSeconds=0", turn - 1));
                left = Some(Instant::now());
                self.server.once(&before, &[200]).await?;
            }
            let on = |at: &(&(String, String), &Option<Instant>)| at.0.1 == *node && at.1.is_some();
            let seen = attached
                .until("the volume on its new node", patience(1), |s| {
                    s.attached == 1 && s.now.iter().any(|at| on(&at))
                })
                .await?;
            let at = seen.now.iter().find(on).and_then(|(_, at)| *at);
            if let (Some(left), Some(at)) = (left, at) {
                samples.record(at.saturating_duration_since(left));
            }
        }
        let [p50, p99] = samples.percentiles([0.5, 0.99]);
        let server = vec![
            Figure::new("moves", "moves", "", n as f64),
            Figure::new("move_p50_ms", "from pod deletion to new attachment, p50", "ms", p50 / 1e3),
            Figure::new("move_p99_ms", "p99", "ms", p99 / 1e3),
        ];
        Ok(Case { server, ..case })
    }
}

/// A pod on a node, with one claim.
fn pod(name: &str, node: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}
