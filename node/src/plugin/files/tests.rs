//! The four kinds of volumes with a fake API server: the pod's files, notifications of changes, and secrets that
//! stay in memory.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Pod, Volume};
use orlop_csi::drivers::Drivers;
use orlop_test_support::FakeApi;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::DropGuard;

use super::*;
use crate::config::NodeConfig;
use crate::mount::{LinuxMounter, Mounter, Mounts, RecordingMounter};
use crate::paths::Paths;

struct Fixture {
    api: FakeApi,
    host: Host,
    files: Files,
    recorded: Option<Arc<RecordingMounter>>,
    root: PathBuf,
    _dir: TempDir,
    _end: DropGuard,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|root| {
            let mounter = Arc::new(RecordingMounter::new(root.to_owned()).unwrap());
            (Arc::clone(&mounter) as Arc<dyn Mounter>, Some(mounter))
        })
    }

    fn with(mounter: impl FnOnce(&Path) -> (Arc<dyn Mounter>, Option<Arc<RecordingMounter>>)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let (mounter, recorded) = mounter(&root);
        let (api, shutdown) = (FakeApi::new(), CancellationToken::new());
        let events = api.event_sink(&shutdown).recorder("kubelet");
        let host = Host {
            config: Arc::new(NodeConfig::new("node", root.clone())),
            paths: Paths::new(root.clone()),
            mounts: Mounts::new(mounter, Duration::from_secs(60)),
            client: api.client(),
            drivers: Drivers::new(Duration::from_secs(15)),
            events,
            clock: api.clock(),
        };
        let files = Files::new(api.client(), shutdown.clone());
        Self { api, host, files, recorded, root, _dir: dir, _end: shutdown.drop_guard() }
    }

    fn plugin(&self, name: &str) -> Arc<dyn Plugin> {
        self.files.plugins().into_iter().find(|plugin| plugin.name() == name).unwrap()
    }

    async fn set_up(&self, pod: &Value, volume: Value) -> Result<PathBuf, String> {
        let (volume, place) = given(pod, volume);
        let plugin = self.plugin(&place.plugin);
        let done = tokio::time::timeout(Duration::from_secs(60), plugin.set_up(&self.host, &volume)).await;
        done.unwrap().map_err(|error| error.to_string())?;
        Ok(plugin.path(&self.host, &place))
    }

    async fn tear_down(&self, pod: &Value, volume: Value) -> Result<(), String> {
        let (_, place) = given(pod, volume);
        let plugin = self.plugin(&place.plugin);
        plugin.tear_down(&self.host, &place).await.map_err(|error| error.to_string())
    }

    async fn next(&self) -> Place {
        tokio::time::timeout(Duration::from_secs(60), self.files.changes().next()).await.unwrap()
    }

    fn mounts(&self) -> Vec<String> {
        let root = self.root.display().to_string();
        let calls = self.recorded.as_ref().unwrap().calls();
        calls.into_iter().map(|call| call.replace(&root, "")).collect()
    }
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "x"}},
        "spec": {"nodeName": "node", "serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]}})
}

fn given(pod: &Value, volume: Value) -> (PodVolume, Place) {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let kind = ContentKind::ALL.into_iter().find(|kind| kind.is_of(&volume)).unwrap();
    let place = Place {
        uid: pod.metadata.uid.clone().unwrap(),
        plugin: kind.name().to_owned(),
        dir_name: volume.name.clone(),
        block: false,
    };
    let spec = VolumeSpec {
        name: volume.name.clone(),
        source: Source::Inline(Arc::new(volume)),
        claim: None,
        read_only: false,
        block: false,
    };
    (PodVolume { pod: Arc::new(pod), spec: Arc::new(spec) }, place)
}

fn map(name: &str, key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}, "data": {key: value}})
}

/// `geheim` in base64.
const GEHEIM: &str = "Z2VoZWlt";

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": name}, "data": {"k": GEHEIM}})
}

fn shown(path: &Path) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let (false, Ok(text)) = (name.starts_with(".."), fs::read_to_string(path.join(&name))) {
            shown.insert(name, text);
        }
    }
    shown
}

fn of(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn plugin_names_and_capabilities() {
    let room = Fixture::new();
    for (volume, name) in [
        (json!({"name": "v", "configMap": {"name": "m"}}), "kubernetes.io/configmap"),
        (json!({"name": "v", "secret": {"secretName": "s"}}), "kubernetes.io/secret"),
        (json!({"name": "v", "downwardAPI": {}}), "kubernetes.io/downward-api"),
        (json!({"name": "v", "projected": {}}), "kubernetes.io/projected"),
    ] {
        let (volume, place) = given(&pod(), volume);
        let plugins = super::super::Plugins::new(room.files.plugins());
        let plugin = plugins.for_source(&volume.spec.source).unwrap();
        assert_eq!(plugin.name(), name);
        assert_eq!(plugin.volume_name(&volume.spec).unwrap(), "v");
        let abilities = plugin.abilities(&room.host, &volume.spec);
        assert!(abilities.refreshed && abilities.read_only && !abilities.owned && !abilities.attach);
        let path = plugin.path(&room.host, &place);
        assert!(path.ends_with(format!("pods/u-1/volumes/{}/v", name.replace('/', "~"))), "{path:?}");
    }
    let other: Volume = serde_json::from_value(json!({"name": "v", "emptyDir": {}})).unwrap();
    let other = Source::Inline(Arc::new(other));
    assert!(room.files.plugins().iter().all(|plugin| !plugin.can_support(&other)));
}

#[tokio::test]
async fn pod_sees_changes_of_its_config_map() {
    let room = Fixture::new();
    let volume = || json!({"name": "v", "configMap": {"name": "m"}});
    let place = given(&pod(), volume()).1;
    assert_eq!(room.set_up(&pod(), volume()).await.unwrap_err(), "configmap \"m\" not found");
    room.api.create(map("m", "k", "1"));
    assert_eq!(room.next().await, place, "it is reported when it appears");
    let path = room.set_up(&pod(), volume()).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "1")]));
    assert_eq!(fs::metadata(path.join("k")).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    assert_eq!(room.mounts(), Vec::<String>::new(), "it is on the disk");
    room.api.patch("configmaps", "ns/m", "", json!({"data": {"k": "2", "l": "3"}}));
    assert_eq!(room.next().await, place);
    room.set_up(&pod(), volume()).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "2"), ("l", "3")]));
    room.api.delete("configmaps", "ns/m");
    assert_eq!(room.next().await, place);
    assert_eq!(room.set_up(&pod(), volume()).await.unwrap_err(), "configmap \"m\" not found");
    assert_eq!(shown(&path), of(&[("k", "2"), ("l", "3")]), "what it has it keeps");
    let optional = json!({"name": "v", "configMap": {"name": "m", "optional": true}});
    room.set_up(&pod(), optional).await.unwrap();
    assert_eq!(shown(&path), of(&[]));
    room.tear_down(&pod(), volume()).await.unwrap();
    assert!(!path.exists());
    room.tear_down(&pod(), volume()).await.unwrap();
    // Another pod watches the object: once it is notified, this one would have been notified, too.
    let mut other = pod();
    other["metadata"]["uid"] = json!("u-2");
    room.api.create(map("m", "k", "4"));
    room.set_up(&other, volume()).await.unwrap();
    room.api.patch("configmaps", "ns/m", "", json!({"data": {"k": "5"}}));
    assert_eq!(room.next().await.uid, "u-2");
    assert!(room.files.changes().next().now_or_never().is_none(), "nothing is reported for a removed volume");
}

#[tokio::test]
async fn secrets_are_in_memory_and_in_no_error() {
    let room = Fixture::new();
    let volume = || json!({"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}});
    assert_eq!(room.set_up(&pod(), volume()).await.unwrap_err(), "secret \"s\" not found");
    room.api.create(secret("s"));
    room.next().await;
    let path = room.set_up(&pod(), volume()).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "geheim")]));
    assert_eq!(fs::metadata(path.join("k")).unwrap().mode() & 0o7777, 0o400);
    let target = "/pods/u-1/volumes/kubernetes.io~secret/v";
    assert_eq!(room.mounts(), [format!("mounting tmpfs at {target}")]);
    room.set_up(&pod(), volume()).await.unwrap();
    assert_eq!(room.mounts().len(), 1, "it is mounted once");
    let wrong = json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "x", "path": "x"}]}});
    assert_eq!(room.set_up(&pod(), wrong).await.unwrap_err(), "references non-existent secret key: x");
    let wrong = json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "x/.."}]}});
    let error = room.set_up(&pod(), wrong).await.unwrap_err();
    assert_eq!(error, "invalid path: must not contain '..': x/..");
    let recorded = room.recorded.as_ref().unwrap();
    recorded.set_busy(&path, true);
    let error = room.tear_down(&pod(), volume()).await.unwrap_err();
    assert!(error.contains("busy"), "{error}");
    assert_eq!(shown(&path), of(&[("k", "geheim")]), "what is in use stays");
    recorded.set_busy(&path, false);
    room.tear_down(&pod(), volume()).await.unwrap();
    assert_eq!(room.mounts().last().unwrap(), &format!("unmounting {target}"));
    assert!(!path.exists());
}

#[tokio::test]
async fn failed_mount_leaves_no_secret() {
    let room = Fixture::new();
    let volume = || json!({"name": "v", "secret": {"secretName": "s"}});
    room.api.create(secret("s"));
    room.recorded.as_ref().unwrap().fail_next_mount("no memory");
    let error = room.set_up(&pod(), volume()).await.unwrap_err();
    assert!(error.contains("no memory"), "{error}");
    let path = room.root.join("pods/u-1/volumes/kubernetes.io~secret/v");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    room.set_up(&pod(), volume()).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "geheim")]));
}

#[tokio::test]
async fn virtual_node_writes_no_secret() {
    let mut room = Fixture::new();
    let mut config = NodeConfig::clone(&room.host.config);
    config.is_virtual = true;
    room.host.config = Arc::new(config);
    room.api.create(secret("s"));
    let path = room.set_up(&pod(), json!({"name": "v", "secret": {"secretName": "s"}})).await.unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let error = room.set_up(&pod(), json!({"name": "w", "secret": {"secretName": "t"}})).await.unwrap_err();
    assert_eq!(error, "secret \"t\" not found");
}

#[tokio::test]
async fn immutable_objects_are_not_watched() {
    let room = Fixture::new();
    let mut fixed = map("fixed", "k", "1");
    fixed["immutable"] = json!(true);
    room.api.create(fixed);
    room.api.create(map("m", "k", "1"));
    let volume = json!({"name": "v", "configMap": {"name": "fixed"}});
    let path = room.set_up(&pod(), volume.clone()).await.unwrap();
    room.set_up(&pod(), json!({"name": "w", "configMap": {"name": "m"}})).await.unwrap();
    // No server allows this change; it shows that there is no watch.
    room.api.patch("configmaps", "ns/fixed", "", json!({"data": {"k": "2"}}));
    room.api.patch("configmaps", "ns/m", "", json!({"data": {"k": "2"}}));
    assert_eq!(room.next().await.dir_name, "w");
    assert!(room.files.changes().next().now_or_never().is_none());
    room.set_up(&pod(), volume).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "1")]));
}

#[tokio::test]
async fn several_sources_share_one_volume() {
    let room = Fixture::new();
    room.api.create(
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "sa"}}),
    );
    room.api.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}));
    room.api.patch("nodes", "node", "status", json!({"status": {"allocatable": {"cpu": "3"}}}));
    room.api.create(map("m", "k", "1"));
    room.api.create(secret("s"));
    let mut pod = pod();
    pod["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 0});
    let volume = json!({"name": "v", "projected": {"defaultMode": 0o640, "sources": [
        {"configMap": {"name": "m"}},
        {"configMap": {"name": "none", "optional": true}},
        {"secret": {"name": "s", "items": [{"key": "k", "path": "./secret"}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "m", "items": [{"key": "k", "path": "secret"}]}},
    ]}});
    let path = room.set_up(&pod, volume.clone()).await.unwrap();
    let mut files = shown(&path);
    let token = files.remove("token").unwrap();
    assert!(token.starts_with("sa::"), "{token}");
    assert_eq!(
        files,
        of(&[("cpu", "3"), ("k", "1"), ("labels", "app=\"x\""), ("secret", "1")]),
        "the last source of a path has it"
    );
    assert_eq!(fs::metadata(path.join("token")).unwrap().mode() & 0o7777, 0o600, "one user: it is his alone");
    assert_eq!(fs::metadata(path.join("k")).unwrap().mode() & 0o7777, 0o640);
    let asked = room.api.take_writes();
    let asked = asked.iter().find(|write| write.subresource == "token").unwrap();
    assert_eq!(asked.key, "ns/sa");
    assert_eq!(
        asked.body["spec"],
        json!({"audiences": [], "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"}})
    );
    room.set_up(&pod, volume).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("token")).unwrap(), token, "a young token is kept");
    let wrong = json!({"name": "w", "projected": {"sources": [
        {"configMap": {"name": "none"}}, {"secret": {"name": "none"}}, {"configMap": {"name": "none"}},
        {"clusterTrustBundle": {"path": "x"}}, {"podCertificate": {"keyType": "ED25519", "signerName": "a/b"}}]}});
    let error = room.set_up(&pod, wrong).await.unwrap_err();
    assert!(
        error.starts_with("[configmap \"none\" not found, secret \"none\" not found, cluster"),
        "{error}"
    );
    assert!(error.contains("podCertificate sources are not served"), "{error}");
    pod["spec"]["serviceAccountName"] = json!("gone");
    let volume = json!({"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let error = room.set_up(&pod, volume).await.unwrap_err();
    assert_eq!(error, "failed to fetch token: serviceaccounts \"gone\" not found");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_before_they_expire() {
    let api = FakeApi::new();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "sa"}});
    api.create(account.clone());
    let shutdown = CancellationToken::new();
    let clock = api.clock();
    let uses = VolumeUses::new(api.client(), shutdown.clone());
    let volume = json!({"name": "v", "projected": {"sources": []}});
    let (volume, place) = given(&pod(), volume);
    let reader = uses.reader(&place, "ns");
    let key = |seconds: i64| {
        tokens::TokenKey::of(
            &serde_json::from_value(json!({"path": "t", "expirationSeconds": seconds})).unwrap(),
        )
    };
    let shared = uses.of(&place);
    let mut used = shared.lock().await;
    for (seconds, life) in [(3600, 2880), (10, 30), (600_000, 86_400)] {
        let first = reader.token(&mut used, &volume.pod, &key(seconds), clock.now()).await.unwrap();
        let start = clock.now();
        uses.remind(&mut used, &place, Some(first.renewal()), clock);
        assert_eq!(uses.changes().next().await, place);
        let after = clock.now().duration_since(start).as_secs();
        assert!((life - 11..=life + 1).contains(&after), "{seconds}: {after}");
        // A notification is at most one second early; then the renewal is due.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = reader.token(&mut used, &volume.pod, &key(seconds), clock.now()).await.unwrap();
        assert_ne!(first, second, "{seconds}");
    }
    // Without an answer the old token is used until it expires.
    let last = reader.token(&mut used, &volume.pod, &key(3600), clock.now()).await.unwrap();
    api.delete("serviceaccounts", "ns/sa");
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert_eq!(reader.token(&mut used, &volume.pod, &key(3600), clock.now()).await.unwrap(), last);
    tokio::time::sleep(Duration::from_secs(700)).await;
    let error = reader.token(&mut used, &volume.pod, &key(3600), clock.now()).await.unwrap_err();
    assert!(error.contains("expired and refresh failed") && !error.contains(&last.text), "{error}");
    api.create(account);
    assert_ne!(reader.token(&mut used, &volume.pod, &key(3600), clock.now()).await.unwrap(), last);
    // A removed volume gets no notification.
    uses.remind(&mut used, &place, Some(clock.now()), clock);
    drop(used);
    drop(shared);
    uses.forget(&place);
    api.settle().await;
    assert!(uses.changes().next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_is_an_error_and_later_a_notification() {
    let api = FakeApi::new();
    api.create(map("m", "k", "1"));
    api.set_away(true);
    let uses = VolumeUses::new(api.client(), CancellationToken::new());
    let place = given(&pod(), json!({"name": "v", "configMap": {"name": "m"}})).1;
    let (reader, used) = (uses.reader(&place, "ns"), uses.of(&place));
    let mut used = used.lock().await;
    let error = reader.config_map(&mut used, "m").await.unwrap_err();
    assert_eq!(error, "failed to sync configmap cache: timed out waiting for the condition");
    api.set_away(false);
    assert_eq!(uses.changes().next().await, place);
    assert!(reader.config_map(&mut used, "m").await.unwrap().is_some());
}

#[tokio::test]
async fn other_volumes_have_their_mount_points() {
    let room = Fixture::new();
    room.api.create(map("m", "k", "1"));
    let mut pod = pod();
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/etc/v"},
        {"name": "w", "mountPath": "/etc/v/deep/w"}, {"name": "w", "mountPath": "/etc/v/k"}]);
    let volume = json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "x"}]}});
    for _ in 0..2 {
        let path = room.set_up(&pod, volume.clone()).await.unwrap();
        assert!(path.join("deep/w").is_dir() && path.join("k").is_dir());
        assert_eq!(fs::read_to_string(path.join("x")).unwrap(), "1");
    }
    // Existing content already provides the path.
    let content = json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "x"}]}});
    pod["spec"]["containers"][0]["volumeMounts"][1]["mountPath"] = json!("/etc/v/x/y");
    room.set_up(&pod, content).await.unwrap();
    room.tear_down(&pod, volume).await.unwrap();
}

#[tokio::test]
async fn oversized_volume_is_rejected_before_anything_is_written() {
    let room = Fixture::new();
    room.api.create(map("m", "k", &"x".repeat(1 << 20)));
    let items: Vec<Value> = (0..65).map(|at| json!({"key": "k", "path": at.to_string()})).collect();
    let volume = |items: &[Value]| json!({"name": "v", "configMap": {"name": "m", "items": items}});
    let error = room.set_up(&pod(), volume(&items)).await.unwrap_err();
    assert_eq!(error, "the files of the volume are larger than 64 MiB");
    assert!(!room.root.join("pods").exists());
    let path = room.set_up(&pod(), volume(&items[..3])).await.unwrap();
    assert_eq!(shown(&path).values().map(String::len).collect::<Vec<_>>(), [1 << 20; 3]);
}

/// Unmounts everything below a directory, also when a test fails.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let points = LinuxMounter::new(self.0.clone()).points().unwrap_or_default();
        for point in points.iter().rev().filter(|point| point.target.starts_with(&self.0)) {
            let _ = unmount(&point.target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

#[tokio::test]
async fn secrets_are_in_a_real_tmpfs() {
    let room = Fixture::with(|root| (Arc::new(LinuxMounter::new(root.to_owned())), None));
    room.api.create(secret("s"));
    let mut pod = pod();
    pod["spec"]["securityContext"] = json!({"fsGroup": 4242});
    let volume = json!({"name": "v", "secret": {"secretName": "s"}});
    if !orlop_test_support::privileges::has_root("content in memory") {
        assert!(room.set_up(&pod, volume).await.is_err());
        let path = room.root.join("pods/u-1/volumes/kubernetes.io~secret/v");
        assert_eq!(fs::read_dir(path).unwrap().count(), 0);
        return;
    }
    let _guard = Unmount(room.root.clone());
    let path = room.set_up(&pod, volume.clone()).await.unwrap();
    let points = || {
        let points = room.host.mounts.points().unwrap();
        points.into_iter().filter(|point| point.target == path).collect::<Vec<_>>()
    };
    assert_eq!(points().len(), 1);
    assert_eq!(points()[0].fs_type, "tmpfs");
    eprintln!("options of the mount: {:?}", points()[0].options);
    assert_eq!(shown(&path), of(&[("k", "geheim")]));
    let found = fs::metadata(path.join("k")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.gid()), (0o644, 4242));
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mode() & 0o7777, found.gid()), (0o3777, 4242));
    room.api.patch("secrets", "ns/s", "", json!({"data": {"k": "bmV1", "l": ""}}));
    room.next().await;
    room.set_up(&pod, volume.clone()).await.unwrap();
    assert_eq!(shown(&path), of(&[("k", "neu"), ("l", "")]));
    assert_eq!(points().len(), 1);
    let open = fs::File::open(path.join("k")).unwrap();
    let error = room.tear_down(&pod, volume.clone()).await.unwrap_err();
    assert!(error.contains("busy"), "{error}");
    drop(open);
    // A pod that was torn down is set up again when it returns before its end.
    room.set_up(&pod, volume.clone()).await.unwrap();
    room.tear_down(&pod, volume).await.unwrap();
    assert_eq!(points().len(), 0);
    assert!(!path.exists());
}
