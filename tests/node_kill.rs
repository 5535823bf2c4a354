//! `kill -9` of the agent at every step of a pod's life. The agent has crash points before and after every change
//! that it makes (`node/src/crash_points.rs`); the test restarts it until it has died once at each of them,
//! during the setup and the teardown of a pod. Calls to a driver are also interrupted in the middle. At the end
//! the state is the same as without kills: the pod ran, its data is present, nothing is mounted or attached, and
//! the volume can be deleted.
//!
//! ORLOP_NODE_KILLS sets the number of kills at random times (8 when unset), ORLOP_NODE_KILL_SEED repeats them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::wait::{self, PATIENCE};
use crate::node::{ATTACHMENTS, CLAIMS, NODES, NodeSetup, PODS, VOLUMES, condition, loop_devices, mounted};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// Exit code of a killed process.
const KILLED: i32 = 137;
const WRITTEN: &[u8] = b"written by the pod";

/// A volume of the pod.
struct VolumeCase {
    name: &'static str,
    source: Value,
    use_: Use,
}

/// How the pod uses it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The pod writes a file, which the next pod finds.
    Files,
    /// The same, and the file is deleted with the pod.
    Scratch,
    /// The pod writes to a device, and the next pod finds the data there.
    Device,
    /// The pod finds this file.
    Reads(&'static str),
}

fn claimed(name: &'static str, use_: Use) -> VolumeCase {
    VolumeCase { name, source: json!({"persistentVolumeClaim": {"claimName": name}}), use_ }
}

fn pod(name: &str, volumes: &[VolumeCase]) -> Value {
    let (mut mounts, mut devices, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    for volume in volumes {
        match volume.use_ {
            Use::Device => {
                devices.push(json!({"name": volume.name, "devicePath": format!("/dev/{}", volume.name)}))
            }
            Use::Files | Use::Scratch | Use::Reads(_) => {
                mounts.push(json!({"name": volume.name, "mountPath": format!("/{}", volume.name)}));
            }
        }
        let mut source = volume.source.clone();
        source["name"] = volume.name.into();
        listed.push(source);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "n1",
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1, "volumes": listed,
        "containers": [{"name": "c", "image": "i", "volumeMounts": mounts, "volumeDevices": devices}]}})
}

/// The path at which a pod finds a volume.
fn seen(root: &Path, pod: &str, volume: &VolumeCase) -> PathBuf {
    let path = root.join("by-name/default").join(pod).join(volume.name);
    match volume.use_ {
        Use::Files | Use::Scratch => path.join("written"),
        Use::Reads(file) => path.join(file),
        Use::Device => path,
    }
}

fn write(root: &Path, pod: &str, volumes: &[VolumeCase]) {
    for volume in volumes {
        let path = seen(root, pod, volume);
        match volume.use_ {
            Use::Files | Use::Scratch => fs::write(&path, WRITTEN).unwrap(),
            Use::Device => {
                let mut device = fs::File::options().write(true).open(&path).unwrap();
                device.write_all(WRITTEN).unwrap();
                device.sync_all().unwrap();
            }
            Use::Reads(_) => {}
        }
    }
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; WRITTEN.len()];
    let file = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    file.map(|()| bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks that the pod finds the data that it, or the previous pod, has written.
fn finds(root: &Path, pod: &str, volumes: &[VolumeCase], is_next: bool) -> Result<(), String> {
    for volume in volumes.iter().filter(|volume| !(is_next && volume.use_ == Use::Scratch)) {
        let path = seen(root, pod, volume);
        let found = content(&path)?;
        if found != WRITTEN {
            return Err(format!("{} has {:?}", path.display(), String::from_utf8_lossy(&found)));
        }
    }
    Ok(())
}

async fn runs(http: &Http, pod: &str) -> Result<(), String> {
    let found = http.get(&format!("{PODS}/{pod}")).await.json();
    match found["status"]["phase"] == "Running" && condition(&found, "Ready") == "True" {
        true => Ok(()),
        false => Err(format!("{:#}", found["status"])),
    }
}

/// All paths below a directory.
fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let inner = entries.flat_map(|entry| {
        let path = entry.path();
        let inner = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { below(&path) } else { Vec::new() };
        inner.into_iter().chain([path])
    });
    inner.collect()
}

/// Checks that nothing is left of a deleted pod.
async fn nothing_is_left(http: &Http, root: &Path, pod: &str) -> Result<(), String> {
    if http.get(&format!("{PODS}/{pod}")).await.code != 404 {
        return Err(format!("the pod {pod} is there"));
    }
    let mut left: Vec<String> =
        mounted(root).iter().map(|path| format!("mount {}", path.display())).collect();
    let files = ["pods", "mounting", "quarantine", "by-name/default"].into_iter();
    left.extend(files.flat_map(|dir| below(&root.join(dir))).map(|path| path.display().to_string()));
    // Directories that all volumes of a plugin share remain.
    let shared = [
        "kubernetes.io",
        "csi",
        "hostpath.csi.orlop.dev",
        "volumeDevices",
        "staging",
        "publish",
        "local-volume",
        "mounts",
        "images",
    ];
    let is_shared = |path: &PathBuf| path.is_dir() && shared.iter().any(|name| path.ends_with(name));
    let plugins = below(&root.join("plugins")).into_iter().filter(|path| !is_shared(path));
    left.extend(plugins.map(|path| path.display().to_string()));
    // The driver's own images are below the same directory.
    left.extend(loop_devices(root.parent().unwrap()).iter().map(|path| path.display().to_string()));
    let attachments = http.get(ATTACHMENTS).await.expect(200);
    left.extend(attachments["items"].as_array().unwrap().iter().map(|one| format!("{one:#}")));
    let node = http.get(&format!("{NODES}/n1")).await.expect(200);
    for list in ["volumesInUse", "volumesAttached"] {
        let list = node["status"][list].as_array().cloned().unwrap_or_default();
        left.extend(list.iter().map(|one| format!("in the status of the node: {one}")));
    }
    if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
}

/// A test environment whose agent dies.
struct Deadly {
    ground: NodeSetup,
    http: Http,
    kills: usize,
}

impl Deadly {
    async fn start() -> Option<Self> {
        let ground = NodeSetup::start().await?;
        let http = ground.plane.http();
        Some(Deadly { ground, http, kills: 0 })
    }

    fn base(&self) -> &Path {
        self.ground.root.parent().unwrap()
    }

    fn steps(&self) -> PathBuf {
        self.base().join("steps")
    }

    /// From now on the agent dies once at each step.
    async fn dies_at_every_step(&mut self) {
        self.ground.variables = vec![("ORLOP_NODE_CRASH_POINTS", self.steps().display().to_string())];
        self.ground.kill_agent().await;
    }

    /// Restarts the agent after each death, until it lives and the condition is met.
    async fn through(&mut self, what: &str, ask: impl AsyncFn(&Http, &Path) -> Result<(), String>) {
        while self.dies_before(what, &ask).await {
            self.ground.start_agent();
        }
    }

    /// Waits until the agent dies or the condition is met; returns whether it died.
    async fn dies_before(
        &mut self,
        what: &str,
        ask: &impl AsyncFn(&Http, &Path) -> Result<(), String>,
    ) -> bool {
        let begin = Instant::now();
        loop {
            let agent = self.ground.agent.as_mut().unwrap();
            if agent.ended().is_some() {
                assert_eq!(agent.exit_code().await, KILLED, "{}", agent.log());
                self.kills += 1;
                return true;
            }
            let Err(last) = ask(&self.http, &self.ground.root).await else { return false };
            let steps = fs::read_to_string(self.steps()).unwrap_or_default();
            let step = steps.lines().last().unwrap_or_default();
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}, after the kill at {step:?}, never was; last:\n{last}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn class(&self) {
        self.http
            .create(CLASSES, &json!({"metadata": {"name": "lab"}, "provisioner": "hostpath.csi.orlop.dev"}))
            .await;
    }

    async fn claim(&self, name: &str, mode: &str) {
        let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": "lab", "volumeMode": mode,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
        self.http.create(CLAIMS, &claim).await;
    }

    /// A claim bound to a local volume of this machine.
    async fn local(&self, name: &str, path: &Path) {
        let node = self.http.get(&format!("{NODES}/n1")).await.json();
        let host = &node["metadata"]["labels"]["kubernetes.io/hostname"];
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]}});
        let volume = json!({"metadata": {"name": name, "annotations": {"orlop.dev/image-file": "true"}}, "spec": {
            "capacity": {"storage": "16Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": path}, "nodeAffinity": affinity}});
        self.http.create(VOLUMES, &volume).await;
        let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": "by-hand", "volumeName": name,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
        self.http.create(CLAIMS, &claim).await;
    }

    /// The whole life of a pod with deaths, and then of one without.
    async fn lives(&mut self, volumes: &[VolumeCase]) {
        self.dies_at_every_step().await;
        self.http.create(PODS, &pod("web", volumes)).await;
        self.through("the pod runs", async |http, _| runs(http, "web").await).await;
        let coming = self.kills;
        write(&self.ground.root, "web", volumes);
        self.through("it has its files", async |http, root| {
            runs(http, "web").await?;
            finds(root, "web", volumes, false)
        })
        .await;
        self.http.delete(&format!("{PODS}/web")).await.expect(200);
        self.through("nothing is left", async |http, root| nothing_is_left(http, root, "web").await).await;
        eprintln!("killed {coming} times while the pod came, {} times while it went", self.kills - coming);
        self.next_one(volumes).await;
    }

    /// Another pod finds the data, and then everything can be deleted.
    async fn next_one(&mut self, volumes: &[VolumeCase]) {
        self.ground.variables.clear();
        self.ground.kill_agent().await;
        self.http.create(PODS, &pod("next", volumes)).await;
        self.through("the next pod has what was written", async |http, root| {
            runs(http, "next").await?;
            finds(root, "next", volumes, true)
        })
        .await;
        self.http.delete(&format!("{PODS}/next")).await.expect(200);
        self.through("nothing is left", async |http, root| nothing_is_left(http, root, "next").await).await;
        for volume in volumes {
            if let Some(claim) = volume.source["persistentVolumeClaim"]["claimName"].as_str() {
                self.http.delete(&format!("{CLAIMS}/{claim}")).await.expect(200);
            }
        }
        let driver = self.ground.driver.driver().await;
        wait::until("the driver has no volume", async || {
            let left = driver.all_volumes().await.map_err(|error| error.to_string())?;
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    }

    /// Asserts that the agent has died at all of these steps, given as parts of their lines. An operation that the
    /// next agent finds done has no certain step after it: another step may take its place.
    fn has_died_at(&self, expected: &[&str]) {
        let steps = fs::read_to_string(self.steps()).unwrap();
        let missing: Vec<&&str> = expected
            .iter()
            .filter(|step| !steps.lines().any(|line| step.split(' ').all(|part| line.contains(part))))
            .collect();
        assert!(missing.is_empty(), "never at {missing:?}; at:\n{steps}");
        let all: BTreeSet<&str> = steps.lines().collect();
        assert_eq!(all.len(), steps.lines().count(), "once at each:\n{steps}");
    }
}

#[tokio::test]
async fn agent_is_killed_at_every_step_of_csi_volumes() {
    let Some(mut deadly) = Deadly::start().await else { return };
    deadly.class().await;
    deadly.claim("files", "Filesystem").await;
    deadly.claim("device", "Block").await;
    deadly.lives(&[claimed("files", Use::Files), claimed("device", Use::Device)]).await;
    deadly.has_died_at(&[
        "before status of node volumes in use",
        "after status of node volumes in use",
        "write file vol_data",
        "put written file vol_data",
        "before NodeStageVolume globalmount",
        "after NodeStageVolume globalmount",
        "before NodeStageVolume volumeDevices staging",
        "after NodeStageVolume volumeDevices staging",
        "before NodePublishVolume /mount",
        "after NodePublishVolume /mount",
        "before NodePublishVolume volumeDevices publish",
        "after NodePublishVolume volumeDevices publish",
        "before mount volumeDevices",
        "make link pods volumeDevices",
        "put link by name",
        "put record of runtime",
        "before status of pod Running",
        "after status of pod",
        "remove record of runtime",
        "before unmount volumeDevices",
        "before NodeUnpublishVolume /mount",
        "after NodeUnpublishVolume /mount",
        "before NodeUnpublishVolume volumeDevices publish",
        "after NodeUnpublishVolume volumeDevices publish",
        "before NodeUnstageVolume globalmount",
        "after NodeUnstageVolume globalmount",
        "before NodeUnstageVolume volumeDevices staging",
        "after NodeUnstageVolume volumeDevices staging",
        "remove file vol_data",
        "remove directory globalmount",
        "before deletion of pod",
        "after deletion of pod",
    ]);
}

#[tokio::test]
async fn agent_is_killed_at_every_step_of_local_volumes() {
    let Some(mut deadly) = Deadly::start().await else { return };
    let (host, dir, image) =
        (deadly.base().join("host"), deadly.base().join("dir"), deadly.base().join("image"));
    for dir in [&host, &dir] {
        fs::create_dir(dir).unwrap();
    }
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    deadly.local("dir", &dir).await;
    deadly.local("image", &image).await;
    let text = std::str::from_utf8(WRITTEN).unwrap();
    let path = "/api/v1/namespaces/default";
    deadly
        .http
        .create(&format!("{path}/configmaps"), &json!({"metadata": {"name": "c"}, "data": {"k": text}}))
        .await;
    deadly
        .http
        .create(&format!("{path}/secrets"), &json!({"metadata": {"name": "s"}, "stringData": {"k": text}}))
        .await;
    let volume = |name, source, use_| VolumeCase { name, source, use_ };
    let parts = json!([{"configMap": {"name": "c", "items": [{"key": "k", "path": "a/k"}]}}, {"secret": {"name": "s"}}]);
    deadly
        .lives(&[
            volume("room", json!({"emptyDir": {}}), Use::Scratch),
            volume("memory", json!({"emptyDir": {"medium": "Memory"}}), Use::Scratch),
            volume("settings", json!({"configMap": {"name": "c"}}), Use::Reads("k")),
            volume("secret", json!({"secret": {"secretName": "s"}}), Use::Reads("k")),
            volume("parts", json!({"projected": {"sources": parts}}), Use::Reads("a/k")),
            volume("host", json!({"hostPath": {"path": host, "type": "Directory"}}), Use::Files),
            claimed("dir", Use::Files),
            claimed("image", Use::Files),
        ])
        .await;
    let mut expected: Vec<String> = Vec::new();
    for place in [
        "empty-dir/memory",
        "secret/secret",
        "projected/parts",
        "local-volume/dir",
        "local-volume/image",
        "mounts/image",
    ] {
        for step in ["before mount", "before unmount"] {
            expected.push(format!("{step} {place}"));
        }
    }
    for place in ["configmap/settings", "secret/secret", "projected/parts"] {
        for step in ["MakeDir", "WriteFile", "OpenDir", "Link", "LinkData", "Swap"] {
            expected.push(format!("content {step} {place}"));
        }
        expected.push(format!("delete content {place}"));
    }
    expected.extend(
        [
            "put mount",
            "after unmount",
            "put written file empty-dir/room/ready",
            "remove file empty-dir/room/ready",
            "delete content empty-dir/room",
            "delete in directory empty-dir/room",
            "make link images/image",
            "before loop device image",
            "after loop device image",
            "before file system loop",
            "helper has ended for mount mounts/image",
            "before detach of loop device image",
            "remove file images/image",
        ]
        .map(str::to_owned),
    );
    deadly.has_died_at(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(fs::read(host.join("written")).unwrap(), WRITTEN, "of others");
    assert_eq!(fs::read(dir.join("written")).unwrap(), WRITTEN, "of others");
}

#[tokio::test]
async fn agent_is_killed_at_every_step_while_the_pod_is_deleted() {
    let Some(mut deadly) = Deadly::start().await else { return };
    let volumes = [
        claimed("files", Use::Files),
        VolumeCase { name: "memory", source: json!({"emptyDir": {"medium": "Memory"}}), use_: Use::Scratch },
    ];
    deadly.class().await;
    deadly.claim("files", "Filesystem").await;
    deadly.dies_at_every_step().await;
    let mut rounds = 0;
    loop {
        deadly.http.create(PODS, &pod("web", &volumes)).await;
        let died =
            deadly.dies_before("the pod runs", &async |http: &Http, _: &Path| runs(http, "web").await).await;
        // Deleted gracefully, or removed from the API immediately: then the next agent never sees the pod.
        let query = if rounds % 2 == 0 { "" } else { "?gracePeriodSeconds=0" };
        deadly.http.delete(&format!("{PODS}/web{query}")).await.expect(200);
        if died {
            deadly.ground.start_agent();
            rounds += 1;
        }
        deadly.through("nothing is left", async |http, root| nothing_is_left(http, root, "web").await).await;
        if !died {
            break;
        }
    }
    eprintln!("killed {} times, {rounds} of them while a pod came", deadly.kills);
    deadly.has_died_at(&[
        "before NodeStageVolume",
        "before NodePublishVolume",
        "put written file",
        "put record of runtime",
    ]);
    write_through(&mut deadly, &volumes).await;
}

/// A pod writes data, and the next one finds it.
async fn write_through(deadly: &mut Deadly, volumes: &[VolumeCase]) {
    deadly.http.create(PODS, &pod("web", volumes)).await;
    deadly.through("the pod runs", async |http, _| runs(http, "web").await).await;
    write(&deadly.ground.root, "web", volumes);
    deadly.http.delete(&format!("{PODS}/web")).await.expect(200);
    deadly.through("nothing is left", async |http, root| nothing_is_left(http, root, "web").await).await;
    deadly.next_one(volumes).await;
}

#[tokio::test]
async fn agent_is_killed_in_the_middle_of_every_driver_call() {
    let Some(mut deadly) = Deadly::start().await else { return };
    let volumes = [claimed("files", Use::Files), claimed("device", Use::Device)];
    deadly.class().await;
    deadly.claim("files", "Filesystem").await;
    deadly.claim("device", "Block").await;
    deadly.http.create(PODS, &pod("web", &volumes)).await;
    for (coming, rpcs) in [
        (true, ["NodeStageVolume", "NodePublishVolume"]),
        (false, ["NodeUnpublishVolume", "NodeUnstageVolume"]),
    ] {
        for (rpc, fault) in rpcs.iter().flat_map(|rpc| [(rpc, "hold"), (rpc, "hold-after")]) {
            deadly.ground.driver.faults(&json!([{"rpc": rpc, "fault": fault}]));
            if (*rpc, fault) == ("NodeUnpublishVolume", "hold") {
                deadly.http.delete(&format!("{PODS}/web")).await.expect(200);
            }
            wait::until(&format!("{rpc} is held"), async || {
                let held = deadly.ground.driver.held();
                if held.iter().any(|held| held == rpc) { Ok(()) } else { Err(format!("{held:?}")) }
            })
            .await;
            deadly.ground.kill_agent().await;
            deadly.kills += 1;
        }
        deadly.ground.driver.faults(&json!([]));
        if coming {
            deadly.through("the pod runs", async |http, _| runs(http, "web").await).await;
            write(&deadly.ground.root, "web", &volumes);
        }
    }
    deadly.through("nothing is left", async |http, root| nothing_is_left(http, root, "web").await).await;
    assert_eq!(deadly.kills, 8);
    deadly.next_one(&volumes).await;
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

#[tokio::test]
async fn agent_is_killed_at_random_times() {
    let Some(mut deadly) = Deadly::start().await else { return };
    let seed = number("ORLOP_NODE_KILL_SEED").unwrap_or_else(|| rand::rng().random());
    eprintln!("ORLOP_NODE_KILL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let volumes = [
        claimed("files", Use::Files),
        claimed("device", Use::Device),
        VolumeCase { name: "memory", source: json!({"emptyDir": {"medium": "Memory"}}), use_: Use::Scratch },
    ];
    deadly.class().await;
    deadly.claim("files", "Filesystem").await;
    deadly.claim("device", "Block").await;
    let mut kills = number("ORLOP_NODE_KILLS").unwrap_or(8);
    let mut has_written = false;
    while kills > 0 {
        deadly.http.create(PODS, &pod("web", &volumes)).await;
        kills = deadly.dies(&mut random, kills).await;
        deadly.through("the pod runs", async |http, _| runs(http, "web").await).await;
        if has_written {
            deadly.through("what was written", async |_, root| finds(root, "web", &volumes, true)).await;
        }
        write(&deadly.ground.root, "web", &volumes);
        has_written = true;
        kills = deadly.dies(&mut random, kills).await;
        deadly.through("it has its files", async |_, root| finds(root, "web", &volumes, false)).await;
        deadly.http.delete(&format!("{PODS}/web")).await.expect(200);
        kills = deadly.dies(&mut random, kills).await;
        deadly.through("nothing is left", async |http, root| nothing_is_left(http, root, "web").await).await;
    }
    deadly.next_one(&volumes).await;
}

impl Deadly {
    /// Up to two deaths, after random times. Returns the number of kills left.
    async fn dies(&mut self, random: &mut StdRng, left: u64) -> u64 {
        let kills = random.random_range(0..=2).min(left);
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..900))).await;
            self.ground.kill_agent().await;
        }
        left - kills
    }
}
