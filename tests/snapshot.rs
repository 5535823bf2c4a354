//! Snapshots of the whole store, data loss, and restore; and a full disk.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};
use crate::harness::wait;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs `orlop` to its end; returns stdout, or its error output.
fn orlop(args: &[&str]) -> Result<String, String> {
    let home = tempfile::tempdir().unwrap();
    let output = command(&*ORLOP, home.path()).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    // A store in use is neither sound nor damaged.
    let in_use = args.starts_with(&["store", "check"]) && text(&output.stderr).contains("in use");
    let wanted = if in_use { 3 } else { 1 };
    assert_eq!(output.status.code(), Some(wanted), "{}", text(&output.stderr));
    Err(text(&output.stdout) + &text(&output.stderr))
}

/// Checks that other users can access neither a directory nor the files in it.
fn assert_private(dir: &str) {
    let (mut todo, mut seen) = (vec![PathBuf::from(dir)], 0);
    while let Some(path) = todo.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
        seen += 1;
        if found.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 4, "{seen}");
}

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" },
        "data": { "key": value },
    })
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A cache like a controller's: kept up to date across restarts and restores of the server.
fn cache(client: kube::Client) -> Arc<Mutex<BTreeSet<String>>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &kind);
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    let kept = names.clone();
    tokio::spawn(async move {
        let mut events = Box::pin(watcher(api, watcher::Config::default()));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            let name = |object: DynamicObject| object.metadata.name.unwrap_or_default();
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => drop(listed.insert(name(object))),
                Ok(watcher::Event::InitDone) => *kept.lock() = std::mem::take(&mut listed),
                Ok(watcher::Event::Apply(object)) => drop(kept.lock().insert(name(object))),
                Ok(watcher::Event::Delete(object)) => drop(kept.lock().remove(&name(object))),
                // The server is down; the watcher retries.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    });
    names
}

async fn holds(names: &Mutex<BTreeSet<String>>, wanted: &[&str]) {
    wait::until("the cache is up to date", async || {
        let names = names.lock();
        if names.iter().map(String::as_str).eq(wanted.iter().copied()) {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn lost_store_is_restored_from_a_snapshot() {
    let mut plane = Plane::of(Layout::ServerAlone).start().await;
    let (http, file) = (plane.http(), plane.dir().join("it.snapshot"));
    for name in ["a", "b", "c"] {
        http.create(MAPS, &map(name, "before")).await;
    }
    http.delete(&format!("{MAPS}/c")).await;
    let output = orlop(&["snapshot", "save", &shown(&file), "--server", &plane.url()]).unwrap();
    assert!(output.contains("objects of revision"), "{output}");
    let status = orlop(&["snapshot", "status", &shown(&file), "-o", "json"]).unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["kinds"]["configmaps"], 3, "{status}");
    assert_eq!(status["kinds"]["namespaces"], 4, "{status}");
    let table = orlop(&["snapshot", "status", &shown(&file)]).unwrap();
    assert!(table.contains("configmaps                  3\n"), "{table}");

    // The old server continues to accept writes, and clients see them.
    let late = revision(&http.create(MAPS, &map("late", "after")).await);
    assert!(late > status["revision"].as_u64().unwrap());
    let names = cache(plane.client());
    holds(&names, &["a", "b", "late"]).await;

    // A running server locks its directory.
    let data = shown(&plane.data_dir());
    let other = shown(&plane.dir().join("other.snapshot"));
    for args in [
        &["snapshot", "save", &other, "--data-dir", &data][..],
        &["store", "compact", "--data-dir", &data],
        &["store", "check", &data],
    ] {
        let refusal = orlop(args).unwrap_err();
        assert!(refusal.contains("in use") && refusal.contains("pid "), "{args:?}: {refusal}");
    }
    plane.kill().await;
    let output = orlop(&["store", "compact", "--data-dir", &data]).unwrap();
    assert!(output.contains("bytes before"), "{output}");
    assert_private(&data);
    let output = orlop(&["store", "check", &data]).unwrap();
    assert!(output.contains("sound"), "{output}");
    let offline = plane.dir().join("offline.snapshot");
    orlop(&["snapshot", "save", &shown(&offline), "--data-dir", &data]).unwrap();
    let status = orlop(&["snapshot", "status", &shown(&offline), "-o", "json"]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["kinds"]["configmaps"], 4);

    let refusal = orlop(&["snapshot", "restore", &shown(&file), "--data-dir", &data]).unwrap_err();
    assert!(refusal.contains("is not empty"), "{refusal}");
    std::fs::rename(&data, plane.dir().join("lost")).unwrap();
    let output = orlop(&["snapshot", "restore", &shown(&file), "--data-dir", &data]).unwrap();
    assert!(output.contains("as a new store in"), "{output}");
    assert_private(&data);
    plane.start_again().await;

    // I11: every revision served now is newer than every revision served before.
    let list = http.get(MAPS).await.expect(200);
    assert!(revision(&list) > late);
    for item in list["items"].as_array().unwrap() {
        assert!(revision(item) > late && item["data"]["key"] == "before", "{item}");
    }
    for path in [
        format!("{MAPS}?resourceVersion={late}&resourceVersionMatch=Exact"),
        format!("{MAPS}?watch=1&resourceVersion={late}&timeoutSeconds=5"),
    ] {
        let answer = http.get(&path).await;
        assert!(answer.text().contains("\"code\":410"), "{path}: {} {}", answer.code, answer.text());
    }
    // Objects that no longer exist leave the cache as well, although no deletion was recorded.
    holds(&names, &["a", "b"]).await;
    let next = http.create(MAPS, &map("next", "x")).await;
    assert!(revision(&next) > revision(&list));
    holds(&names, &["a", "b", "next"]).await;
    // An update with an object read before the restore is a conflict, not an overwrite.
    let mut old = map("a", "stale");
    old["metadata"]["resourceVersion"] = late.to_string().into();
    http.put(&format!("{MAPS}/a"), &old).await.expect(409);
}

#[tokio::test]
async fn damaged_files_are_refused_by_name() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let file = plane.dir().join("it.snapshot");
    orlop(&["snapshot", "save", &shown(&file), "--server", &plane.url()]).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let new = shown(&plane.dir().join("new"));
    for args in [
        &["snapshot", "status", &shown(&file)][..],
        &["snapshot", "restore", &shown(&file), "--data-dir", &new],
    ] {
        let refusal = orlop(args).unwrap_err();
        assert!(refusal.contains("it.snapshot is damaged"), "{refusal}");
    }
    assert!(!Path::new(&new).exists());
    // An address without a server.
    let refusal = orlop(&["snapshot", "save", &new, "--server", "http://127.0.0.1:1"]).unwrap_err();
    assert!(refusal.contains("the server does not answer"), "{refusal}");
    // An existing file is kept.
    let refusal = orlop(&["snapshot", "save", &shown(&file), "--server", &plane.url()]).unwrap_err();
    assert!(refusal.contains("--force"), "{refusal}");
    orlop(&["snapshot", "save", "--force", &shown(&file), "--server", &plane.url()]).unwrap();
    orlop(&["snapshot", "status", &shown(&file)]).unwrap();
}

#[tokio::test]
async fn scheduled_snapshots_are_taken_and_rotated() {
    let kept = tempfile::tempdir().unwrap();
    let dir = shown(kept.path());
    let flags = ["--snapshot-every", "300ms", "--snapshot-dir", &dir, "--snapshot-keep", "2"];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    let metric = async |name: &str| {
        let text = http.get("/metrics").await.text();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.rsplit(' ').next().unwrap_or_default().parse::<f64>().unwrap_or_default()
    };
    for n in 0..4_u8 {
        // Before the create: the next snapshot may follow it immediately.
        let before = metric("orlop_snapshots_total{result=\"success\"}").await;
        http.create(MAPS, &map(&format!("m{n}"), "x")).await;
        wait::until("the next one is there", async || {
            let now = metric("orlop_snapshots_total{result=\"success\"}").await;
            if n == 0 || now > before { Ok(()) } else { Err(format!("{now}")) }
        })
        .await;
    }
    wait::until("nothing has changed", async || {
        let unchanged = metric("orlop_snapshots_total{result=\"unchanged\"}").await;
        if unchanged > 0.0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert!(metric("orlop_snapshot_last_success_timestamp_seconds").await > 1e9);
    let files: Vec<_> = std::fs::read_dir(kept.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        orlop(&["snapshot", "status", &shown(&file)]).unwrap();
    }
    // Without the directory, failures are reported and counted, and the server keeps running.
    wait::until("a file replaces the directory", async || {
        // The server may be writing a snapshot to it.
        let removed = std::fs::remove_dir_all(kept.path());
        let replaced = removed.and_then(|()| std::fs::write(kept.path(), "in the way"));
        replaced.map_err(|error| error.to_string())
    })
    .await;
    http.create(MAPS, &map("more", "x")).await;
    wait::until("the failure is counted", async || {
        let failed = metric("orlop_snapshots_total{result=\"failure\"}").await;
        if failed > 0.0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    http.get(MAPS).await.expect(200);
    std::fs::remove_file(kept.path()).unwrap();
}

#[tokio::test]
async fn full_disk_rejects_writes_that_grow() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "event-ttl: 1h\n").unwrap();
    let flags = ["--config", file.path().to_str().unwrap()];
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    http.create(MAPS, &map("a", "x")).await;
    let mut held = map("held", "x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    http.create(MAPS, &held).await;
    plane.kill().await;

    // Requires 100 bytes more than are free: every write that grows is rejected, and other
    // writes are still accepted.
    let free = free_bytes(plane.dir());
    std::fs::write(file.path(), format!("store-min-free-bytes: {}\n", free + free / 2)).unwrap();
    plane.start_again().await;
    let refusal = http.post(MAPS, &map("b", "x")).await;
    assert_eq!(refusal.header("retry-after"), "1");
    let status = refusal.expect(507);
    assert_eq!(
        (&status["reason"], &status["details"]["retryAfterSeconds"]),
        (&json!("InsufficientStorage"), &json!(1))
    );
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("more bytes must be free in") && message.contains(&shown(plane.dir())),
        "{message}"
    );
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "a" }, "reason": "Test",
    });
    http.post("/api/v1/namespaces/default/events", &event).await.expect(507);
    // Reads, updates that do not grow, and complete deletions, finalizers included.
    let mut read = http.get(&format!("{MAPS}/a")).await.expect(200);
    read["data"]["key"] = "y".into();
    http.put(&format!("{MAPS}/a"), &read).await.expect(200);
    read["data"]["key"] = "y".repeat(2000).into();
    read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    http.put(&format!("{MAPS}/a"), &read).await.expect(507);
    http.delete(&format!("{MAPS}/a")).await.expect(200);
    http.delete(&format!("{MAPS}/held")).await.expect(200);
    http.patch(&format!("{MAPS}/held"), &json!({ "metadata": { "finalizers": null } })).await.expect(200);
    http.until_gone(&format!("{MAPS}/held")).await;
    let metrics = http.get("/metrics").await.text();
    assert!(metrics.contains("\norlop_store_full 1\n"), "{metrics}");
}

fn free_bytes(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir).unwrap();
    stat.f_bavail * stat.f_frsize
}
