//! Tests of the scrub: the content that it deletes and, above all, the files that it must not delete.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use orlop_test_support::FakeApi;
use orlop_test_support::bind_mount::BindMount;
use orlop_volume::recycle::{PodRecipe, RecyclerOptions};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};
use tempfile::TempDir;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::*;
use crate::mount::{LinuxMounter, Mount, Mounter, Origin, RecordingMounter};

fn volume(source: &Value) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "uid": "pv-1"},
        "spec": {"persistentVolumeReclaimPolicy": "Recycle", "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "c", "uid": "c-1"}},
        "status": {"phase": "Released"}});
    for (key, value) in source.as_object().unwrap() {
        volume["spec"][key] = value.clone();
    }
    volume
}

/// The pod as the binder creates it and admission extends it.
fn pod(source: &Value) -> Value {
    let recipe = PodRecipe::new(&RecyclerOptions::host_path()).unwrap();
    let typed: PersistentVolume = serde_json::from_value(volume(source)).unwrap();
    let pod = recipe.pod(&typed, |own| {
        let spec = typed.spec.as_ref().unwrap();
        own.host_path = spec.host_path.clone();
        own.nfs = spec.nfs.clone();
    });
    let mut pod = serde_json::to_value(pod).unwrap();
    pod["metadata"]["uid"] = json!("u-1");
    pod["spec"]["nodeName"] = json!("node");
    let account = json!({"name": "kube-api-access-x2z4k", "projected": {"sources": []}});
    pod["spec"]["volumes"].as_array_mut().unwrap().push(account);
    pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(
        json!({"name": "kube-api-access-x2z4k", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}),
    );
    pod
}

fn host_path() -> Value {
    json!({"hostPath": {"path": "/data/pv"}})
}

fn nfs() -> Value {
    json!({"nfs": {"server": "srv", "path": "/export"}})
}

fn decided(pod: &Value, volume: &Value) -> Result<Recycler, String> {
    decide(&serde_json::from_value(pod.clone()).unwrap(), &serde_json::from_value(volume.clone()).unwrap())
}

#[test]
fn pod_of_the_binder_is_accepted() {
    let recycler = decided(&pod(&host_path()), &volume(&host_path())).unwrap();
    assert_eq!(recycler.target(), &ScrubTarget::HostPath("/data/pv".into()));
    assert_eq!(recycler.volume(), "pv");
    let mut failed = volume(&host_path());
    put(&mut failed, "/status/phase", json!("Failed"));
    assert_eq!(decided(&pod(&host_path()), &failed).as_ref(), Ok(&recycler), "it is tried again");
    let recycler = decided(&pod(&nfs()), &volume(&nfs())).unwrap();
    assert_eq!(recycler.target(), &ScrubTarget::Nfs { server: "srv".to_owned(), path: "/export".to_owned() });
    assert!(is_recycler(&serde_json::from_value(pod(&nfs())).unwrap()));
}

#[test]
fn any_difference_is_refused() {
    type Change = (&'static str, Value, &'static str);
    let pods: [Change; 23] = [
        ("/metadata/namespace", json!("other"), "another namespace"),
        ("/metadata/name", json!("recycler-for-"), "its name"),
        ("/metadata/name", json!("recycler-for-other"), "for another volume"),
        ("/metadata/name", json!("scrubber-for-pv"), "its name"),
        ("/metadata/generateName", json!("recycler-"), "its name"),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]),
            "owns it",
        ),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), "being deleted"),
        ("/spec/restartPolicy", json!("Always"), "does not end"),
        ("/spec/activeDeadlineSeconds", Value::Null, "does not end"),
        ("/spec/initContainers", json!([{"name": "i"}]), "other containers"),
        ("/spec/ephemeralContainers", json!([{"name": "i"}]), "other containers"),
        ("/spec/containers", json!([]), "other containers"),
        ("/spec/containers/0/name", json!("x"), "container is not"),
        ("/spec/containers/0/image", json!("x"), "container is not"),
        ("/spec/containers/0/command", json!(["/bin/true"]), "container is not"),
        ("/spec/containers/0/args", json!(["-c", "true"]), "container is not"),
        ("/spec/containers/0/volumeMounts/0/mountPath", json!("/x"), "container is not"),
        ("/spec/containers/0/volumeMounts/0/subPath", json!("x"), "container is not"),
        ("/spec/containers/0/volumeMounts/0/readOnly", json!(true), "container is not"),
        ("/spec/containers/0/volumeMounts/1/mountPath", json!("/x"), "container is not"),
        ("/spec/volumes/0/name", json!("x"), "its volumes"),
        ("/spec/volumes/1", json!({"name": "kube-api-access-x", "hostPath": {"path": "/"}}), "its volumes"),
        ("/spec/volumes/0/hostPath/path", json!("/data/other"), "not the source"),
    ];
    for (pointer, value, want) in pods {
        let mut pod = pod(&host_path());
        put(&mut pod, pointer, value);
        let why = decided(&pod, &volume(&host_path())).unwrap_err();
        assert!(why.contains(want), "{pointer}: {why}");
    }
    let volumes: [Change; 8] = [
        ("/metadata/name", json!("other"), "another volume"),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), "is being deleted"),
        ("/status/phase", json!("Bound"), "is Bound, not Released"),
        ("/status/phase", json!("Available"), "not Released"),
        ("/spec/persistentVolumeReclaimPolicy", json!("Retain"), "has policy Retain"),
        ("/spec/claimRef", Value::Null, "never bound"),
        ("/spec/hostPath/path", json!("/data/pv/"), "not the source"),
        ("/spec/hostPath", Value::Null, "not the source"),
    ];
    for (pointer, value, want) in volumes {
        let mut changed = volume(&host_path());
        put(&mut changed, pointer, value);
        let why = decided(&pod(&host_path()), &changed).unwrap_err();
        assert!(why.contains(want), "{pointer}: {why}");
    }
    for path in ["/", "/data/..", "data", "//", "/data/../../etc"] {
        let source = json!({"hostPath": {"path": path}});
        let why = decided(&pod(&source), &volume(&source)).unwrap_err();
        assert!(why.contains("not one to be emptied"), "{path}: {why}");
    }
    for other in [
        json!({"nfs": {"server": "other", "path": "/export"}}),
        json!({"nfs": {"server": "srv", "path": "/export/x"}}),
        host_path(),
        json!({"csi": {"driver": "d", "volumeHandle": "h"}}),
    ] {
        let why = decided(&pod(&nfs()), &volume(&other)).unwrap_err();
        assert!(why.contains("not the source"), "{other}: {why}");
    }
}

fn put(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match key.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[key] = value,
    }
}

fn point(target: &str, fs_type: &str, source: &str) -> MountPoint {
    MountPoint {
        target: target.into(),
        root: "/".into(),
        fs_type: fs_type.to_owned(),
        source: source.to_owned(),
        options: Vec::new(),
        device: (0, 1),
    }
}

#[test]
fn directory_must_be_that_of_the_volume() {
    let of = |source: &Value| decided(&pod(source), &volume(source)).unwrap();
    let (host, server) = (of(&host_path()), of(&nfs()));
    let six = of(&json!({"nfs": {"server": "fd00::1", "path": "/"}}));
    let dir = "/agent/pods/u/volumes/kubernetes.io~nfs/vol";
    for (recycler, dir, points, want) in [
        (&host, "/data/pv", vec![point("/", "ext4", "/dev/x"), point("/data", "xfs", "/dev/y")], None),
        (&host, "/data/pv", vec![point("/data/pv", "xfs", "/dev/y")], None),
        (&host, "/data/pv2", vec![], Some("the volume is /data/pv")),
        (&host, "/data", vec![], Some("the volume is /data/pv")),
        (
            &host,
            "/data/pv",
            vec![point("/data/pv/x", "tmpfs", "tmpfs")],
            Some("/data/pv/x is mounted below it"),
        ),
        (&server, dir, vec![], Some("nothing is mounted there")),
        (&server, dir, vec![point(dir, "nfs4", "srv:/export/")], None),
        (&server, dir, vec![point(dir, "nfs", "srv:/export")], None),
        (&server, dir, vec![point(dir, "nfs", "srv:/exports")], Some("srv:/exports is mounted there")),
        (&server, dir, vec![point(dir, "ext4", "srv:/export")], Some("is mounted there")),
        (
            &server,
            dir,
            vec![point(dir, "nfs", "srv:/export"), point(dir, "tmpfs", "tmpfs")],
            Some("tmpfs is mounted there"),
        ),
        (&six, dir, vec![point(dir, "nfs4", "[fd00::1]:/")], None),
        (&six, "/agent/../x", vec![], Some("plain names")),
    ] {
        let got = recycler.check(Path::new(dir), Path::new("/agent"), &roots(), &points);
        match want {
            None => assert_eq!(got, Ok(()), "{dir} {points:?}"),
            Some(part) => {
                let why = got.unwrap_err();
                assert!(why.contains(part), "{dir} {points:?}: {why}");
            }
        }
    }
    for agent in ["/data/pv", "/data/pv/agent", "/data"] {
        let why = host.check(Path::new("/data/pv"), Path::new(agent), &roots(), &[]).unwrap_err();
        assert!(why.contains("agent's own directory"), "{agent}: {why}");
    }
}

fn roots() -> HostPathRoots {
    HostPathRoots::new(["/data".into(), "/agent".into()]).unwrap()
}

struct Fixture {
    dir: TempDir,
    data: PathBuf,
    agent: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let room = Self { data: base.join("data"), agent: base.join("agent"), dir };
        for path in
            [room.data.join("a/b/c"), room.data.join(".hidden/x"), room.agent.clone(), base.join("out")]
        {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(base.join("out/dear"), "dear").unwrap();
        fs::write(room.data.join(".file"), "").unwrap();
        fs::write(room.data.join("a/b/c/file"), "x").unwrap();
        symlink(base.join("out"), room.data.join("link")).unwrap();
        symlink("../../out/dear", room.data.join("a/link")).unwrap();
        room
    }

    fn source(&self) -> Value {
        json!({"hostPath": {"path": self.data}})
    }

    fn recycler(&self) -> Recycler {
        decided(&pod(&self.source()), &volume(&self.source())).unwrap()
    }

    fn scrub(&self, points: &[MountPoint]) -> Result<Scrubbed, ScrubError> {
        let cancel = CancellationToken::new();
        scrub(&self.recycler(), &self.data, &self.agent, &self.roots(), points, &cancel)
    }

    fn roots(&self) -> HostPathRoots {
        HostPathRoots::new([self.data.parent().unwrap().to_owned()]).unwrap()
    }

    fn left(&self) -> usize {
        fs::read_dir(&self.data).unwrap().count()
    }

    fn is_dear_there(&self) -> bool {
        fs::read(self.dir.path().join("out/dear")).unwrap() == b"dear"
    }
}

#[test]
fn whole_content_is_deleted_and_nothing_else() {
    let room = Fixture::new();
    assert_eq!(room.scrub(&[]).unwrap(), Scrubbed { entries: 4 });
    assert_eq!(room.left(), 0);
    assert!(room.data.is_dir() && room.is_dear_there());
    assert_eq!(room.scrub(&[]).unwrap(), Scrubbed { entries: 0 });
}

#[test]
fn missing_or_replaced_directory_is_not_touched() {
    let room = Fixture::new();
    let out = room.dir.path().join("out");
    fs::rename(&room.data, room.dir.path().join("moved")).unwrap();
    let error = room.scrub(&[]).unwrap_err().to_string();
    assert!(error.contains("nothing was deleted") && error.contains("does not exist"), "{error}");
    symlink(&out, &room.data).unwrap();
    let error = room.scrub(&[]).unwrap_err().to_string();
    assert!(error.contains("is a link; links are not followed"), "{error}");
    assert!(room.is_dear_there());
    fs::remove_file(&room.data).unwrap();
    fs::write(&room.data, "file").unwrap();
    assert!(matches!(room.scrub(&[]).unwrap_err(), ScrubError::Place { .. }));
}

#[test]
fn directory_outside_the_allowed_roots_is_not_touched() {
    let room = Fixture::new();
    for roots in [HostPathRoots::default(), HostPathRoots::new([room.data.join("a")]).unwrap()] {
        let cancel = CancellationToken::new();
        let outcome = scrub(&room.recycler(), &room.data, &room.agent, &roots, &[], &cancel);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("--host-path-roots") && error.contains("nothing was deleted"), "{error}");
        assert_eq!(room.left(), 4);
    }
}

#[test]
fn cancelled_scrub_deletes_nothing() {
    let room = Fixture::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = scrub(&room.recycler(), &room.data, &room.agent, &room.roots(), &[], &cancel);
    assert!(matches!(outcome, Err(ScrubError::Cancelled { .. })), "{outcome:?}");
    assert_eq!(room.left(), 4);
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

#[test]
fn directories_of_the_agent_that_are_mounted_elsewhere_are_not_touched() {
    if !orlop_test_support::privileges::has_root("an agent's directory that is a bind mount of a volume") {
        return;
    }
    let room = Fixture::new();
    let own = room.dir.path().canonicalize().unwrap().join("own");
    fs::create_dir(&own).unwrap();
    let roots = room.roots().protecting(std::slice::from_ref(&own));
    for mounted in [room.data.clone(), room.data.join("a/b"), room.data.parent().unwrap().to_owned()] {
        let _mount = BindMount::new(&mounted, &own);
        let cancel = CancellationToken::new();
        let outcome = scrub(&room.recycler(), &room.data, &room.agent, &roots, &[], &cancel);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("nothing was deleted"), "{}: {error}", mounted.display());
        assert_eq!(room.left(), 4, "{}", mounted.display());
    }
    room.scrub(&[]).unwrap();
}

#[test]
fn mounts_below_the_volume_are_not_touched() {
    let room = Fixture::new();
    let target = room.data.join("a/b");
    let mounter = LinuxMounter::new(room.dir.path().canonicalize().unwrap());
    let mount = Mount {
        origin: Origin::Memory { bytes: Some(1 << 20) },
        target: target.clone(),
        options: Vec::new(),
        read_only: false,
    };
    if !orlop_test_support::privileges::has_root("a real mount below a volume that is scrubbed") {
        let points = [point(target.to_str().unwrap(), "tmpfs", "tmpfs")];
        assert!(room.scrub(&points).is_err());
        assert_eq!(room.left(), 4);
        return;
    }
    mounter.mount(&mount).unwrap();
    let _guard = Unmount(target.clone());
    fs::write(target.join("dear"), "dear").unwrap();
    let error = room.scrub(&mounter.points().unwrap()).unwrap_err().to_string();
    assert!(error.contains("is mounted below it") && error.contains("nothing was deleted"), "{error}");
    assert_eq!(room.left(), 4, "nothing at all");
    // A mount that was added after the table was read.
    let error = room.scrub(&[]).unwrap_err();
    assert!(matches!(error, ScrubError::Delete { .. }), "{error}");
    assert_eq!(fs::read(target.join("dear")).unwrap(), b"dear");
}

#[tokio::test]
async fn pod_and_volume_are_checked_before_the_deletion() {
    let room = Fixture::new();
    let api = FakeApi::new();
    let (client, mounter) = (api.client(), RecordingMounter::new(room.agent.clone()).unwrap());
    let mounts = Mounts::new(Arc::new(mounter), Duration::from_secs(60));
    let key =
        PodKey { namespace: "default".to_owned(), name: "recycler-for-pv".to_owned(), uid: "u-1".to_owned() };
    let run = |key: PodKey| {
        let (client, mounts, room) = (&client, &mounts, &room);
        async move {
            let done = {
                let cancel = CancellationToken::new();
                run(client, mounts, &room.agent, &room.roots(), &key, &room.data, cancel).await
            };
            done.map(|done| done.entries).map_err(|error| error.to_string())
        }
    };
    let begin = "pod default/recycler-for-pv is not the recycler of a released volume, nothing was deleted: ";
    assert_eq!(run(key.clone()).await, Err(format!("{begin}the pod does not exist")));
    api.seed(pod(&room.source()));
    let other = PodKey { uid: "u-2".to_owned(), ..key.clone() };
    assert_eq!(run(other).await, Err(format!("{begin}another pod has its name")));
    assert_eq!(run(key.clone()).await, Err(format!("{begin}there is no volume pv")));
    let mut bound = volume(&room.source());
    bound["status"]["phase"] = json!("Bound");
    api.seed(bound);
    assert_eq!(run(key.clone()).await, Err(format!("{begin}volume pv is Bound, not Released")));
    assert_eq!(room.left(), 4);
    api.patch("persistentvolumes", "pv", "status", json!({"status": {"phase": "Released"}}));
    assert_eq!(run(key.clone()).await, Ok(4));
    assert_eq!(room.left(), 0);
    api.set_away(true);
    let error = run(key).await.unwrap_err();
    assert!(error.starts_with("cannot read pod default/recycler-for-pv, nothing was deleted: "), "{error}");
}
