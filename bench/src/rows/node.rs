//! A node agent: pods of this node with one volume each, from their creation until all run; the cost of the idle
//! agent; and the deletion of the pods until all are removed. Each kind of volume uses a new server and agent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::NodeAgent;
use crate::attached::{ATTACHMENTS, Attached};
use crate::child::Role;
use crate::client::Draft;
use crate::driver::Driver;
use crate::environment::{Environment, IN_FLIGHT, Server};
use crate::error::BenchError;
use crate::follow::Follower;
use crate::load::Work;
use crate::objects::{self, NAMESPACES, VOLUMES};
use crate::process::{self, Cpu, ProcessMemory, Wakeups};
use crate::progress::progress;
use crate::report::{Case, Figure};

use super::Done;

/// Timeout for each step.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kind of volume of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumeKind {
    /// A directory of the machine, through a claim: a bind mount.
    Local,
    /// A volume of the `csi-hostpath` driver, through a claim: attached, staged, and a bind mount.
    Csi,
    /// An `emptyDir` of the pod.
    EmptyDir,
    /// A Secret of each pod: a file system in memory, and an object that the agent watches.
    Secret,
}

impl VolumeKind {
    const ALL: [VolumeKind; 4] =
        [VolumeKind::Local, VolumeKind::Csi, VolumeKind::EmptyDir, VolumeKind::Secret];

    fn name(self) -> &'static str {
        match self {
            VolumeKind::Local => "local",
            VolumeKind::Csi => "csi",
            VolumeKind::EmptyDir => "emptyDir",
            VolumeKind::Secret => "secret",
        }
    }

    /// Whether the kernel's mount table lists these volumes.
    fn is_mounted(self) -> bool {
        match self {
            VolumeKind::Local | VolumeKind::Csi | VolumeKind::Secret => true,
            VolumeKind::EmptyDir => false,
        }
    }

    /// The volume of a pod.
    fn volume(self, name: &str) -> Value {
        match self {
            VolumeKind::Local | VolumeKind::Csi => {
                json!({"name": "v", "persistentVolumeClaim": {"claimName": name}})
            }
            VolumeKind::EmptyDir => json!({"name": "v", "emptyDir": {}}),
            VolumeKind::Secret => json!({"name": "v", "secret": {"secretName": name}}),
        }
    }
}

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let mut done = Done::default();
    if !rustix::process::geteuid().is_root() {
        done.problems.push("node: only root may mount".to_owned());
        return Ok(done);
    }
    for kind in VolumeKind::ALL {
        progress(&format!("node: {} {} ...", environment.plan.mounted, kind.name()));
        let bed = Bed::prepare(environment, kind).await?;
        done.cases.push(bed.measure(&mut done.problems).await?);
        let Bed { server, agent, .. } = bed;
        drop(agent);
        server.done();
    }
    Ok(done)
}

struct Bed<'g> {
    environment: &'g Environment,
    kind: VolumeKind,
    // Fields drop in order: the agent unmounts before the driver and the server stop.
    agent: NodeAgent,
    server: Server,
    _driver: Option<Driver>,
    node: String,
    namespace: String,
    prefix: String,
}

/// Counters of an agent at one point in time.
struct AgentCounters {
    at: Instant,
    cpu: Cpu,
    whole: Duration,
    wakeups: Wakeups,
    requests: f64,
}

impl<'g> Bed<'g> {
    /// Starts a server and an agent, and creates the volumes of the pods.
    async fn prepare(environment: &'g Environment, kind: VolumeKind) -> Result<Self, BenchError> {
        let node = format!("{}n", environment.prefix("node"));
        let driver = match kind {
            VolumeKind::Csi => {
                let nodes = std::slice::from_ref(&node);
                Some(Driver::start(environment.program(), &environment.fresh_data(), nodes).await?)
            }
            VolumeKind::Local | VolumeKind::EmptyDir | VolumeKind::Secret => None,
        };
        let endpoint = driver.as_ref().map(Driver::endpoint);
        let flags: Vec<&str> = endpoint.iter().flat_map(|endpoint| ["--csi-endpoint", endpoint]).collect();
        let server = environment.own(Role::Serve, &flags).await?;
        let agent =
            NodeAgent::start(environment.program(), &environment.fresh_data(), &node, &server, &flags)
                .await?;
        let namespace = format!("orlop-bench-{}-node", environment.run);
        let prefix = environment.prefix("node");
        let bed = Bed { environment, kind, agent, server, _driver: driver, node, namespace, prefix };
        bed.make(NAMESPACES, &json!({"metadata": {"name": bed.namespace}})).await?;
        match kind {
            VolumeKind::Local => bed.local_volumes().await?,
            VolumeKind::Csi => bed.csi_volumes().await?,
            VolumeKind::EmptyDir => {}
            VolumeKind::Secret => {
                for name in bed.names() {
                    let secret = json!({"metadata": {"name": name}, "stringData": {"key": "value"}});
                    bed.make(&format!("{NAMESPACES}/{}/secrets", bed.namespace), &secret).await?;
                }
            }
        }
        Ok(bed)
    }

    fn n(&self) -> usize {
        self.environment.plan.mounted
    }

    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.n()).map(|number| objects::name(&self.prefix, number))
    }

    fn pods(&self) -> String {
        format!("{NAMESPACES}/{}/pods", self.namespace)
    }

    async fn make(&self, path: &str, body: &Value) -> Result<(), BenchError> {
        let mut draft = Draft::of("POST", path);
        draft.content_type = "application/json";
        draft.body = body.to_string().into_bytes();
        self.server.once(&draft, &[201]).await.map(drop)
    }

    /// Creates directories below that of the run, as local volumes with a claim each.
    async fn local_volumes(&self) -> Result<(), BenchError> {
        let dir = self.environment.fresh_data();
        for name in self.names() {
            let path = dir.join(&name);
            let failed = |error| BenchError::File { what: "cannot make", path: path.clone(), error };
            std::fs::create_dir_all(&path).map_err(failed)?;
            let term = json!({"matchExpressions":
                [{"key": "kubernetes.io/hostname", "operator": "In", "values": [self.node]}]});
            let volume = json!({"metadata": {"name": name}, "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": objects::CLASS,
                "local": {"path": path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            }});
            self.make(VOLUMES, &volume).await?;
        }
        self.claims().await
    }

    async fn csi_volumes(&self) -> Result<(), BenchError> {
        let class = json!({"metadata": {"name": objects::CLASS}, "provisioner": Driver::NAME});
        self.make("/apis/storage.k8s.io/v1/storageclasses", &class).await?;
        let driver = json!({"metadata": {"name": Driver::NAME}, "spec": {"attachRequired": true}});
        self.make("/apis/storage.k8s.io/v1/csidrivers", &driver).await?;
        self.claims().await
    }

    /// Creates a claim for each pod and waits until all are Bound.
    async fn claims(&self) -> Result<(), BenchError> {
        let path = objects::claims(&self.namespace);
        let revision = self.server.revision(&path).await?;
        let bound = Follower::start(&self.server.endpoint, &path, revision, &self.prefix, "Bound", self.n());
        self.server.fill(&path, &objects::claim(&self.environment.run), &self.prefix, 0, self.n()).await?;
        bound.all(PATIENCE).await.map(drop)
    }

    async fn measure(&self, problems: &mut Vec<String>) -> Result<Case, BenchError> {
        let n = self.n();
        let mut case = Case { name: format!("{n} {}", self.kind.name()), ..Case::default() };
        case.server.push(Figure::new("pods", "pods, one volume each", "", n as f64));
        case.server.extend(self.on().await?);
        let mounts = self.agent.mounts();
        if self.kind.is_mounted() && mounts < n {
            problems.push(format!("node: {n} pods run, and {mounts} volumes are mounted"));
        }
        tokio::time::sleep(self.environment.plan.quiet).await;
        match self.idle().await? {
            Some(figures) => case.server.extend(figures),
            None => problems.push(
                "node: the kernel does not report the memory and processor time of the agent".to_owned(),
            ),
        }
        case.server.push(self.off().await?);
        let mounts = self.agent.mounts();
        // The device of a CSI volume may be unmounted shortly after the last pod is deleted.
        if self.kind != VolumeKind::Csi && mounts > 0 {
            problems.push(format!("node: all pods are deleted, but {mounts} volumes are still mounted"));
        }
        Ok(case)
    }

    /// Creates the pods and waits until all run.
    async fn on(&self) -> Result<Vec<Figure>, BenchError> {
        let (n, pods) = (self.n(), self.pods());
        let attachments = self.server.revision(ATTACHMENTS).await?;
        let mut attached = Attached::start(&self.server.endpoint, attachments);
        let revision = self.server.revision(&pods).await?;
        let running = Follower::start(&self.server.endpoint, &pods, revision, &self.prefix, "Running", n);
        let before = Cpu::of(self.agent.pid());
        let start = Instant::now();
        self.each_pod("POST").await?;
        let last = running.all(PATIENCE).await?;
        let millis = |from: Instant| last.saturating_duration_since(from).as_secs_f64() * 1e3;
        let mut figures = vec![Figure::new(
            "mounted_ms",
            "from the assignment of the pods until all run",
            "ms",
            millis(start),
        )];
        if self.kind == VolumeKind::Csi {
            let seen = attached.until("every volume attached", PATIENCE, |seen| seen.attached == n).await?;
            let at = seen.last.map_or(f64::NAN, millis);
            figures.push(Figure::new("after_attached_ms", "from the last attach until all run", "ms", at));
        }
        if let Some(spent) = before.and_then(|before| Some(Cpu::of(self.agent.pid())?.since(&before))) {
            let spent = spent.as_secs_f64() * 1e3;
            figures.push(Figure::new("mounting_cpu_ms", "processor time of the agent", "ms", spent));
        }
        Ok(figures)
    }

    /// Deletes all pods and waits until the last is removed from the API, which happens after its unmount.
    async fn off(&self) -> Result<Figure, BenchError> {
        let pods = self.pods();
        let revision = self.server.revision(&pods).await?;
        let gone = Follower::of_ends(&self.server.endpoint, &pods, revision, &self.prefix, self.n());
        let start = Instant::now();
        self.each_pod("DELETE").await?;
        let took = gone.all(PATIENCE).await?.saturating_duration_since(start);
        Ok(Figure::new("unmounted_ms", "deletion of all pods", "ms", took.as_secs_f64() * 1e3))
    }

    async fn each_pod(&self, method: &'static str) -> Result<(), BenchError> {
        let (pods, prefix, node, kind) = (self.pods(), self.prefix.clone(), self.node.clone(), self.kind);
        let fill: crate::load::Fill = std::sync::Arc::new(move |number, draft| {
            let name = objects::name(&prefix, number);
            if method == "DELETE" {
                *draft = Draft::of(method, format!("{pods}/{name}"));
                return;
            }
            draft.method = method;
            draft.path.clone_from(&pods);
            draft.content_type = "application/json";
            draft.body = pod(&name, &node, &kind.volume(&name)).to_string().into_bytes();
        });
        let work = Work { in_flight: IN_FLIGHT, wanted: &[200, 201, 202], fill };
        let load = self.server.load(&work, 0, self.n()).await;
        match load.first_failure {
            None => Ok(()),
            Some(problem) => Err(BenchError::Request {
                url: self.server.endpoint.url.clone(),
                what: format!("{method} of a pod"),
                problem,
            }),
        }
    }

    async fn look(&self) -> Result<Option<AgentCounters>, BenchError> {
        let text = self.server.once(&Draft::of("GET", "/metrics"), &[200]).await?;
        let requests = requests(&String::from_utf8_lossy(&text));
        let pid = self.agent.pid();
        let whole = process::whole_cpu(pid);
        Ok((Cpu::of(pid).zip(whole).zip(Wakeups::of(pid))).map(|((cpu, whole), wakeups)| AgentCounters {
            at: Instant::now(),
            cpu,
            whole,
            wakeups,
            requests,
        }))
    }

    /// Measures the cost of the idle agent.
    async fn idle(&self) -> Result<Option<Vec<Figure>>, BenchError> {
        let before = self.look().await?;
        tokio::time::sleep(Duration::from_secs(self.environment.plan.agent_idle_seconds)).await;
        let memory = ProcessMemory::of(self.agent.pid());
        let after = self.look().await?;
        let (Some(before), Some(after), Some(memory)) = (before, after, memory) else { return Ok(None) };
        let seconds = (after.at - before.at).as_secs_f64();
        // The first excludes threads that have exited, the second has a resolution of 10 ms.
        let spent = after.cpu.since(&before.cpu).max(after.whole.saturating_sub(before.whole)).as_secs_f64();
        let wakeups = after.wakeups.since(&before.wakeups) as f64;
        let connections = process::sockets(self.agent.pid()) as f64;
        let per_minute = (after.requests - before.requests) / seconds * 60.0;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        Ok(Some(vec![
            Figure::new("seconds", "idle time", "s", seconds),
            Figure::new("rss_mb", "resident memory", "MB", mb(memory.resident)),
            Figure::new("pss_mb", "proportional memory", "MB", mb(memory.proportional)),
            Figure::new("own_mb", "heap and stacks", "MB", mb(memory.anonymous)),
            Figure::new("files_mb", "pages of the program", "MB", mb(memory.of_files())),
            Figure::new("cpu_percent", "processor time of one core", "%", spent / seconds * 100.0),
            Figure::new("wakeups_per_s", "wakeups", "/s", wakeups / seconds),
            Figure::new("threads", "threads", "", after.wakeups.threads() as f64),
            Figure::new("sockets", "sockets", "", connections),
            Figure::new("requests_per_minute", "requests to the server", "/min", per_minute),
        ]))
    }
}

/// The total of a server's request counter.
fn requests(metrics: &str) -> f64 {
    let counted = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    counted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// A pod on a node, with one volume.
fn pod(name: &str, node: &str, volume: &Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [volume],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_all_verbs_are_summed() {
        let text = "# HELP apiserver_request_total x\napiserver_request_total{code=\"200\",verb=\"GET\"} 3\n\
                    apiserver_request_total{code=\"201\",verb=\"POST\"} 4\napiserver_request_totally 9\n";
        assert!((requests(text) - 7.0).abs() < f64::EPSILON);
    }
}
