//! I7 under random events: changes of pods and nodes, attachers that do not answer, failing requests, and restarts of the
//! controller. The test checks every change in the history of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::attacher::FINALIZER;
use super::notation::{conditions, parse, unique};
use crate::attach;
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};
use orlop_client::names::{ANN_FORCED_DETACH, TAINT_OUT_OF_SERVICE};

const NODES: [&str; 3] = ["n-1", "n-2", "n-3"];
/// The last volume may be attached to several nodes.
const VOLUMES: [(&str, &str); 4] = [("v-1", "RWO"), ("v-2", "RWO"), ("v-3", "RWOP"), ("v-4", "RWX")];
const SHARED: &str = "v-4";
const STEPS: usize = 200;
const HISTORIES: u64 = 6;

/// The server's state at every revision, and the invariants.
#[derive(Default)]
struct History {
    seen: u64,
    attachments: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    /// Volumes and nodes with a forced detach: the user who requested it is responsible for the result.
    forced: BTreeSet<(String, String)>,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Volume and node of a VolumeAttachment.
fn place(attachment: &Value) -> (String, String) {
    let volume = text(attachment, "/spec/source/persistentVolumeName").replace("pv-", "");
    (volume, text(attachment, "/spec/nodeName").to_owned())
}

fn names(node: &Value, list: &str, field: &str) -> Vec<String> {
    let entries = node["status"][list].as_array().cloned().unwrap_or_default();
    let name =
        |entry: &Value| entry.as_str().or_else(|| entry[field].as_str()).unwrap_or_default().to_owned();
    entries.iter().map(name).collect()
}

impl History {
    fn check(&mut self, api: &FakeApi) {
        for (revision, type_, object) in api.changes(self.seen) {
            self.seen = revision;
            let name = text(&object, "/metadata/name").to_owned();
            match text(&object, "/kind") {
                "VolumeAttachment" => self.attachment(&name, type_, object),
                "Node" if type_ == "DELETED" => drop(self.nodes.remove(&name)),
                "Node" => {
                    self.nodes.insert(name, object);
                    self.listed_once();
                }
                _ => {}
            }
        }
    }

    fn attachment(&mut self, name: &str, type_: &str, object: Value) {
        let (volume, node) = place(&object);
        let leaves = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
        let old = self.attachments.get(name);
        if type_ == "ADDED" && volume != SHARED {
            for other in
                self.attachments.values().filter(|other| place(other).0 == volume && place(other).1 != node)
            {
                let status = &other["status"];
                let failed = match leaves(other) {
                    true => status["detachError"].is_object(),
                    false => {
                        let unique = unique(&format!("HP^{volume}"));
                        let used = self.nodes.get(&place(other).1);
                        let used = used.is_some_and(|node| names(node, "volumesInUse", "").contains(&unique));
                        status["attached"] != true && status["attachError"].is_object() && !used
                    }
                };
                assert!(failed, "{volume} is asked for {node} while another node has it: {other}");
            }
        }
        let begins_to_leave = leaves(&object) && !old.is_some_and(leaves);
        let vanishes = type_ == "DELETED" && !old.is_some_and(leaves);
        if begins_to_leave || vanishes {
            if object["metadata"]["annotations"][ANN_FORCED_DETACH].is_string() {
                self.forced.insert((volume.clone(), node.clone()));
            } else if let Some(object) = self.nodes.get(&node) {
                let unique = unique(&format!("HP^{volume}"));
                let in_use = names(object, "volumesInUse", "").contains(&unique);
                assert!(!in_use, "{volume} is taken from {node}, which has it in use");
                let listed = names(object, "volumesAttached", "name").contains(&unique);
                assert!(!listed, "{volume} is taken from {node}, which may begin to use it");
            }
        }
        match type_ {
            "DELETED" => drop(self.attachments.remove(name)),
            _ => drop(self.attachments.insert(name.to_owned(), object)),
        }
    }

    /// No two nodes may mount a volume that only one may use.
    fn listed_once(&self) {
        for (volume, _) in VOLUMES.iter().filter(|(volume, _)| *volume != SHARED) {
            let unique = unique(&format!("HP^{volume}"));
            let lists = |node: &&Value| names(node, "volumesAttached", "name").contains(&unique);
            let on: Vec<_> =
                self.nodes.values().filter(lists).map(|node| text(node, "/metadata/name")).collect();
            assert!(on.len() < 2, "{volume} is on {on:?}");
        }
    }
}

/// The simulated cluster around the controller.
struct World {
    api: FakeApi,
    random: StdRng,
    history: History,
    pods: u32,
    /// Volumes that the driver has published, and where.
    published: BTreeSet<(String, String)>,
    running: Option<DropGuard>,
}

impl World {
    fn new(seed: u64) -> Self {
        let api = FakeApi::new();
        for node in NODES {
            api.seed(parse(&format!("node {node}"), ""));
        }
        for (volume, mode) in VOLUMES {
            api.seed(parse(
                &format!("pv pv-{volume} HP^{volume} {mode} ref=default/{volume}:uid-{volume}"),
                "",
            ));
            api.seed(parse(&format!("pvc default/{volume} uid-{volume} volume=pv-{volume}"), ""));
        }
        let random = StdRng::seed_from_u64(seed);
        Self { api, random, history: History::default(), pods: 0, published: BTreeSet::new(), running: None }
    }

    async fn restart(&mut self) {
        self.running = Some(CancellationToken::new().drop_guard());
        // Requests in flight end; only one controller runs at a time.
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.running = Some(self.api.start(&[attach::run], Options::default()));
    }

    fn some_node(&mut self) -> Option<Value> {
        self.api.list("nodes").choose(&mut self.random).cloned()
    }

    fn pod(&mut self) {
        let (volume, _) = VOLUMES.choose(&mut self.random).unwrap();
        let Some(node) = self.some_node() else { return };
        self.pods += 1;
        let line = format!("pod default/p-{} on={} claim={volume}", self.pods, text(&node, "/metadata/name"));
        self.api.seed(parse(&line, ""));
    }

    fn end_pod(&mut self) {
        let Some(pod) = self.api.list("pods").choose(&mut self.random).cloned() else { return };
        let key = format!("default/{}", text(&pod, "/metadata/name"));
        self.api.delete_with("pods", &key, json!({"gracePeriodSeconds": 0}));
    }

    /// Nodes that are ready mount the volumes that are attached and that their pods need, and unmount the others.
    fn kubelets(&mut self) {
        let pods = self.api.list("pods");
        for node in self.api.list("nodes") {
            let name = text(&node, "/metadata/name");
            if node["status"]["conditions"] != conditions(true) {
                continue;
            }
            let (listed, in_use) =
                (names(&node, "volumesAttached", "name"), names(&node, "volumesInUse", ""));
            let wanted = |volume: &str| {
                let claim =
                    |pod: &Value| text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName") == volume;
                pods.iter().any(|pod| text(pod, "/spec/nodeName") == name && claim(pod))
            };
            let next: Vec<String> = VOLUMES
                .iter()
                .filter(|(volume, _)| wanted(volume))
                .map(|(volume, _)| unique(&format!("HP^{volume}")))
                .filter(|unique| listed.contains(unique) || in_use.contains(unique))
                .collect();
            if next != in_use {
                self.api.patch("nodes", name, "status", json!({"status": {"volumesInUse": next}}));
            }
        }
    }

    /// Answers one VolumeAttachment, or all of them.
    fn attacher(&mut self, well: bool) {
        let mut attachments = self.api.list("volumeattachments");
        if !well {
            attachments = attachments.choose(&mut self.random).cloned().into_iter().collect();
        }
        for attachment in attachments {
            let fails = !well && self.random.random_bool(0.3);
            self.answer(&attachment, fails);
        }
    }

    fn answer(&mut self, attachment: &Value, fails: bool) {
        let name = text(attachment, "/metadata/name");
        let place = place(attachment);
        let patch = |subresource: &str, patch: Value| {
            drop(self.api.patch("volumeattachments", name, subresource, patch))
        };
        if attachment["metadata"].get("deletionTimestamp").is_some() {
            if fails {
                return patch("status", json!({"status": {"detachError": {"message": "no"}}}));
            }
            self.published.remove(&place);
            return patch("", json!({"metadata": {"finalizers": null}}));
        }
        if attachment["status"]["attached"] == true {
            return;
        }
        // The driver refuses to publish a volume of one node to a second node.
        let elsewhere = place.0 != SHARED
            && self.published.iter().any(|(volume, node)| *volume == place.0 && *node != place.1);
        if fails || elsewhere {
            return patch("status", json!({"status": {"attachError": {"message": "no"}}}));
        }
        patch("", json!({"metadata": {"finalizers": [FINALIZER]}}));
        patch("status", json!({"status": {"attached": true, "attachError": null}}));
        self.published.insert(place);
    }

    /// A VolumeAttachment reports that it is no longer attached; the driver still has the volume attached.
    fn turn(&mut self) {
        let mut attachments = self.api.list("volumeattachments");
        attachments.retain(|attachment| attachment["status"]["attached"] == true);
        let Some(attachment) = attachments.choose(&mut self.random) else { return };
        let error = if self.random.random_bool(0.5) { json!({"message": "no"}) } else { Value::Null };
        let status = json!({"status": {"attached": false, "attachError": error}});
        self.api.patch("volumeattachments", text(attachment, "/metadata/name"), "status", status);
    }

    fn nodes(&mut self) {
        let Some(node) = self.some_node() else { return self.missing_nodes() };
        let name = text(&node, "/metadata/name").to_owned();
        match self.random.random_range(0..10) {
            0..4 => {
                let ready = node["status"]["conditions"] == conditions(true);
                self.api.patch(
                    "nodes",
                    &name,
                    "status",
                    json!({"status": {"conditions": conditions(!ready)}}),
                );
            }
            4..6 => {
                let tainted = node["spec"]["taints"].is_array();
                let taints = json!([{"key": TAINT_OUT_OF_SERVICE, "effect": "NoExecute"}]);
                let taints = if tainted { Value::Null } else { taints };
                self.api.patch("nodes", &name, "", json!({"spec": {"taints": taints}}));
            }
            6 => drop(self.api.delete("nodes", &name)),
            _ => self.missing_nodes(),
        }
    }

    fn missing_nodes(&mut self) {
        for node in NODES.iter().filter(|node| self.api.get("nodes", node).is_none()) {
            self.api.seed(parse(&format!("node {node}"), ""));
        }
    }

    fn fault(&mut self) {
        let kinds = [
            FaultKind::Broken,
            FaultKind::AnswerLost,
            FaultKind::Status(500, "InternalError", "no"),
            FaultKind::Status(409, "Conflict", "no"),
        ];
        let kind = kinds.choose(&mut self.random).unwrap().clone();
        let skip = self.random.random_range(0..3);
        self.api.fail_nth_write(skip, kind);
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..22 => self.pod(),
            22..42 => self.end_pod(),
            42..62 => self.attacher(false),
            62..75 => self.kubelets(),
            75..78 => self.turn(),
            78..88 => self.nodes(),
            88..93 => self.fault(),
            93..96 => self.restart().await,
            96..98 => self.api.disconnect(self.random.random()),
            _ => tokio::time::sleep(Duration::from_secs(200)).await,
        }
        let pause = if self.random.random_bool(0.3) { 0 } else { self.random.random_range(1..3000) };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        self.history.check(&self.api);
    }

    /// Removes all faults, and checks the final state.
    async fn settle(&mut self) {
        self.missing_nodes();
        for node in NODES {
            self.api.patch("nodes", node, "", json!({"spec": {"taints": null}}));
            self.api.patch("nodes", node, "status", json!({"status": {"conditions": conditions(true)}}));
        }
        // Leaves one pod for each volume that only one node may use.
        let mut seen = BTreeSet::new();
        for pod in self.api.list("pods") {
            let claim = text(&pod, "/spec/volumes/0/persistentVolumeClaim/claimName");
            if claim != SHARED && !seen.insert(claim.to_owned()) {
                let key = format!("default/{}", text(&pod, "/metadata/name"));
                self.api.delete_with("pods", &key, json!({"gracePeriodSeconds": 0}));
            }
        }
        // Longer than the sum of the longest delay and the timeout of an attacher.
        for _ in 0..100 {
            self.kubelets();
            self.attacher(true);
            tokio::time::sleep(Duration::from_secs(3)).await;
            self.history.check(&self.api);
        }
        let wanted: BTreeSet<(String, String)> = self
            .api
            .list("pods")
            .iter()
            .map(|pod| {
                let claim = text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName");
                (claim.to_owned(), text(pod, "/spec/nodeName").to_owned())
            })
            .collect();
        let attachments = self.api.list("volumeattachments");
        let there: BTreeSet<_> = attachments.iter().map(place).collect();
        assert_eq!(there, wanted, "VolumeAttachments {attachments:#?}");
        assert!(
            attachments.iter().all(|attachment| attachment["status"]["attached"] == true),
            "{attachments:#?}"
        );
        let listed: BTreeSet<_> = self
            .api
            .list("nodes")
            .iter()
            .flat_map(|node| {
                let name = text(node, "/metadata/name").to_owned();
                let volumes = names(node, "volumesAttached", "name");
                volumes
                    .into_iter()
                    .map(move |unique| (unique.rsplit('^').next().unwrap().to_owned(), name.clone()))
            })
            .collect();
        assert_eq!(listed, wanted, "what node status lists");
    }
}

/// `ORLOP_ATTACH_SEED` selects the seed of a single history.
#[tokio::test(start_paused = true)]
async fn i7_no_volume_is_ever_on_two_nodes() {
    let asked = std::env::var("ORLOP_ATTACH_SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().expect("ORLOP_ATTACH_SEED is a number"));
    let seeds = asked.map_or(20_261_121..20_261_121 + HISTORIES, |seed| seed..seed + 1);
    for seed in seeds {
        println!("ORLOP_ATTACH_SEED={seed}");
        let mut world = World::new(seed);
        world.restart().await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        assert!(world.history.seen > 100, "something happened: {}", world.history.seen);
    }
}
