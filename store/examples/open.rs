//! Measures the time and memory that opening a store takes.
//!
//! `cargo run --release -p orlop-store --example open [records] [directory]`
//!
//! Fills a store with `records` volumes of about 1.3 KB, each written once and every tenth a second
//! time. Opens the store after a close and after its process was killed without a close, each time in
//! a new process. Prints the seconds, the peak resident memory, and the resident memory afterwards.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bytes::Bytes;
use orlop_store::{Embedded, Expect, Key, Kv, Op, Options, View, Write};

/// A view that reads the whole value, as the view of a server does.
#[derive(Debug)]
struct Looked(#[allow(dead_code)] usize);

impl View for Looked {
    fn of(_key: &Key, value: &Bytes) -> Self {
        Looked(value.iter().filter(|byte| **byte == b'{').count())
    }
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    match args[..] {
        ["fill", records, dir, how] => runtime.block_on(fill(Path::new(dir), count(records), how == "kill")),
        ["measure", what, dir] => runtime.block_on(measure(what, Path::new(dir))),
        _ => all(args.first().map_or(100_000, |text| count(text)), args.get(1).copied()),
    }
}

fn count(text: &str) -> usize {
    text.parse().expect("records is a number")
}

fn all(records: usize, parent: Option<&str>) {
    let parent = parent.map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("orlop-open-{}", std::process::id()));
    let (closed, killed) = (dir.join("closed"), dir.join("killed"));
    let records = records.to_string();
    println!("{:<24}seconds   peak MB   after MB   revision   records", "opened");
    run(&["fill", &records], &closed, &["close"]);
    run(&["measure", "after a close"], &closed, &[]);
    run(&["measure", "a second time"], &closed, &[]);
    run(&["fill", &records], &killed, &["kill"]);
    run(&["measure", "after a kill"], &killed, &[]);
    if let Err(error) = std::fs::remove_dir_all(closed.join("sled")) {
        eprintln!("cannot remove the served copy: {error}");
    }
    run(&["measure", "without a served copy"], &closed, &[]);
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        eprintln!("cannot remove {}: {error}", dir.display());
    }
}

/// Runs this program in a new process and ignores its exit status: `fill` with `kill` aborts on purpose.
fn run(before: &[&str], dir: &Path, after: &[&str]) {
    let me = std::env::current_exe().expect("this program has a path");
    if let Err(error) = Command::new(me).args(before).arg(dir).args(after).status() {
        eprintln!("cannot start: {error}");
    }
}

async fn fill(dir: &Path, records: usize, kill: bool) {
    let store = Embedded::<Looked>::open(dir, Options::default()).expect("the store opens");
    for step in [1, 10] {
        let keys: Vec<_> = (0..records).step_by(step).collect();
        for part in keys.chunks(64) {
            let head = store.head();
            let writes = part.iter().map(|n| {
                let key = Key::from(format!("/registry/persistentvolumes/pvc-{n:08}"));
                let value = Bytes::from(volume(*n, step));
                let view = Looked::of(&key, &value);
                let expect =
                    head.get(key.as_str()).map_or(Expect::Absent, |at| Expect::Revision(at.mod_revision));
                Write { key, expect, op: Op::Put { value, view } }
            });
            store.commit(writes.collect()).await.expect("the commit succeeds");
        }
    }
    if kill {
        std::process::abort();
    }
    store.close().await;
}

/// Returns a typical PersistentVolume of a CSI driver, as JSON.
fn volume(n: usize, round: usize) -> String {
    let id = n.wrapping_mul(2_654_435_761);
    format!(
        r#"{{"kind":"PersistentVolume","apiVersion":"v1","metadata":{{"name":"pvc-{n:08}","uid":"{id:08x}-1c1e-4d3a-9f7e-{id:012x}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"topology.kubernetes.io/region":"eu-1","topology.kubernetes.io/zone":"eu-1{z}","round":"{round}"}},"annotations":{{"pv.kubernetes.io/provisioned-by":"csi.example.com","volume.kubernetes.io/provisioner-deletion-secret-name":"","volume.kubernetes.io/provisioner-deletion-secret-namespace":""}},"finalizers":["external-provisioner.volume.kubernetes.io/finalizer","kubernetes.io/pv-protection"]}},"spec":{{"capacity":{{"storage":"{g}Gi"}},"csi":{{"driver":"csi.example.com","volumeHandle":"vol-{id:016x}","fsType":"ext4","volumeAttributes":{{"storage.kubernetes.io/csiProvisionerIdentity":"1700000000000-8081-csi.example.com","pool":"fast","replicas":"3"}}}},"accessModes":["ReadWriteOnce"],"claimRef":{{"kind":"PersistentVolumeClaim","namespace":"team-{t}","name":"data-{n}","uid":"{id:08x}-77aa-4d3a-9f7e-{id:012x}","apiVersion":"v1","resourceVersion":"{n}"}},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"fast","volumeMode":"Filesystem","nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"topology.kubernetes.io/zone","operator":"In","values":["eu-1{z}"]}}]}}]}}}}}},"status":{{"phase":"Bound","lastPhaseTransitionTime":"2026-01-01T00:00:01Z"}}}}"#,
        z = n % 3,
        g = n % 100 + 1,
        t = n % 50,
    )
}

async fn measure(what: &str, dir: &Path) {
    let start = Instant::now();
    let store = Embedded::<Looked>::open(dir, Options::default()).expect("the store opens");
    let took = start.elapsed().as_secs_f64();
    let peak = memory("VmHWM:");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let (head, after) = (store.head(), memory("VmRSS:"));
    println!(
        "{what:<24}{took:>7.2}  {peak:>8}   {after:>8}   {:>8}   {:>7}",
        head.revision(),
        head.range("/", None).count()
    );
    store.close().await;
}

/// Returns a memory figure of this process in megabytes.
fn memory(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() / 1024
}
