//! CSI provisioning with the real binaries: a claim and a clone of it get their volumes, and both are deleted.
//! Then the server and the driver are killed repeatedly at random times while claims are created and deleted. At
//! the end the driver has exactly the volumes that the API has (I9).
//!
//! ORLOP_LEAK_ROUNDS sets the number of kills (4 when unset), ORLOP_LEAK_SEED repeats the choices of a run.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use orlop_csi::driver::Line;
use orlop_csi::socket;
use orlop_csi_hostpath as hostpath;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
/// The number of kills in a default run.
const ROUNDS: u64 = 4;

/// A control plane and a driver.
struct Lab {
    plane: Plane,
    driver: Option<Process>,
    // The last field: the processes must end before their files are removed.
    dir: TempDir,
}

impl Lab {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = format!("{}=unix://{}", hostpath::NAME, dir.path().join("csi.sock").display());
        std::fs::write(dir.path().join("faults.json"), "[]").unwrap();
        let plane = Plane::of(Layout::OneProcess);
        let plane =
            plane.controller_flags(&["--csi-endpoint", &endpoint, "--csi-timeout", "2s"]).start().await;
        let mut lab = Lab { plane, driver: None, dir };
        lab.start_driver();
        let class = json!({"metadata": {"name": "c"}, "provisioner": hostpath::NAME});
        lab.http().create(CLASSES, &class).await;
        lab
    }

    fn http(&self) -> Http {
        self.plane.http()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.path("csi.sock").display())
    }

    fn start_driver(&mut self) {
        let text = |name: &str| self.path(name).display().to_string();
        let args =
            ["csi-hostpath", "--endpoint", &self.endpoint(), "--data-dir", &text("driver"), "--faults"];
        let mut args: Vec<String> = args.map(str::to_owned).into();
        args.push(text("faults.json"));
        self.driver = Some(Process::start("driver", self.dir.path(), &args));
    }

    async fn kill_driver(&mut self) {
        if let Some(mut driver) = self.driver.take() {
            driver.kill().await;
        }
    }

    fn faults(&self, script: &Value) {
        // Atomic: the driver may read the file at any time.
        std::fs::write(self.path("faults.new"), script.to_string()).unwrap();
        std::fs::rename(self.path("faults.new"), self.path("faults.json")).unwrap();
    }

    /// The ids of the driver's volumes.
    async fn driver_volumes(&self) -> Result<BTreeSet<String>, String> {
        let channel = socket::connect(&self.endpoint()).map_err(|error| error.to_string())?;
        let line = Line::new(channel, Duration::from_secs(5));
        let driver = line.identify().await.map_err(|error| error.to_string())?;
        let all = driver.list_volumes(Default::default()).await.map_err(|error| error.to_string())?;
        Ok(all.entries.into_iter().filter_map(|entry| Some(entry.volume?.volume_id)).collect())
    }

    /// The handles of the API's volumes; fails if two volumes have the same handle.
    async fn api_volumes(&self) -> BTreeSet<String> {
        let list = self.http().get(VOLUMES).await.expect(200);
        let handles: Vec<String> = list["items"].as_array().unwrap().iter().map(handle).collect();
        let set: BTreeSet<String> = handles.iter().cloned().collect();
        assert_eq!(set.len(), handles.len(), "two objects for one volume: {handles:?}");
        set
    }

    /// Waits until both have the same volumes, this many of them, and no claim is pending or being deleted.
    async fn until_same(&self, count: usize) {
        wait::until("driver and API have the same volumes", async || {
            let (driver, api) = (self.driver_volumes().await?, self.api_volumes().await);
            let claims = self.http().get(CLAIMS).await.expect(200);
            let noted: Vec<&Value> =
                claims["items"].as_array().unwrap().iter().filter(|c| is_noted(c)).collect();
            if driver == api && api.len() == count && noted.is_empty() {
                return Ok(());
            }
            Err(format!("{count} are wanted\ndriver: {driver:?}\nAPI: {api:?}\nin between: {noted:#?}"))
        })
        .await;
    }

    async fn bound(&self, name: &str) -> Value {
        let path = format!("{CLAIMS}/{name}");
        self.http().until(&path, "the claim is bound", |claim| claim["status"]["phase"] == "Bound").await
    }
}

fn handle(volume: &Value) -> String {
    volume["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned()
}

fn is_noted(claim: &Value) -> bool {
    let finalizers = claim["metadata"]["finalizers"].as_array().into_iter().flatten();
    let annotations = &claim["metadata"]["annotations"];
    finalizers.into_iter().any(|one| one == "csi.orlop.dev/provisioning")
        || annotations.get("csi.orlop.dev/create-request").is_some()
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "resources": {"requests": {"storage": "1Mi"}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_and_clone_are_provisioned_and_deleted() {
    let lab = Lab::start().await;
    let http = lab.http();
    // The first call succeeds but its answer is lost; the second fails with a final error.
    lab.faults(&json!([{"rpc": "CreateVolume", "times": 1, "fault": "error-after", "code": "UNAVAILABLE"},
        {"rpc": "CreateVolume", "times": 1, "fault": "error", "code": "INTERNAL"}]));
    http.create(CLAIMS, &claim("a")).await;
    let bound = lab.bound("a").await;
    let name = bound["spec"]["volumeName"].as_str().unwrap().to_owned();
    assert_eq!(name, format!("pvc-{}", bound["metadata"]["uid"].as_str().unwrap()));
    let volume = http.get(&format!("{VOLUMES}/{name}")).await.expect(200);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], hostpath::NAME);
    assert_eq!(volume["spec"]["capacity"]["storage"], "1Mi");
    lab.until_same(1).await;
    let mut clone = claim("copy");
    clone["spec"]["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    http.create(CLAIMS, &clone).await;
    lab.bound("copy").await;
    lab.until_same(2).await;
    for name in ["a", "copy"] {
        http.delete(&format!("{CLAIMS}/{name}")).await.expect(200);
    }
    lab.until_same(0).await;
    http.until_gone(&format!("{CLAIMS}/a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i9_no_volume_leaks_when_server_and_driver_are_killed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let rounds = number("ORLOP_LEAK_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("ORLOP_LEAK_SEED").unwrap_or_else(rand::random);
    println!("ORLOP_LEAK_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut lab = Lab::start().await;
    let mut alive: Vec<String> = Vec::new();
    for round in 0..rounds {
        let rpc = if random.random() { "CreateVolume" } else { "DeleteVolume" };
        let fault =
            ["none", "error", "error-after", "no-answer", "crash", "crash-after"][random.random_range(0..6)];
        let (after, delay) = (random.random_range(0..4), random.random_range(0..40));
        // A driver that performs a call and answers with a final code violates the specification: see docs/csi.md.
        let final_code = random.random() && fault != "error-after";
        let code = if final_code { "INTERNAL" } else { "UNAVAILABLE" };
        println!("round {round}: {rpc} {fault} {code} after {after}");
        lab.faults(&json!([{"rpc": rpc, "after": after, "times": 2, "fault": fault, "code": code},
            {"rpc": "*", "delay_ms": delay}]));
        let http = lab.http();
        for n in 0..random.random_range(3..8) {
            let name = format!("r{round}-{n}");
            http.create(CLAIMS, &claim(&name)).await;
            alive.push(name);
        }
        for _ in 0..random.random_range(0..alive.len()) {
            let name = alive.swap_remove(random.random_range(0..alive.len()));
            http.delete(&format!("{CLAIMS}/{name}")).await.expect(200);
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..600))).await;
        match random.random_range(0..3) {
            0 => lab.plane.kill().await,
            1 => lab.kill_driver().await,
            _ => {
                lab.plane.kill().await;
                lab.kill_driver().await;
            }
        }
        // A driver that was scripted to crash is gone as well.
        lab.kill_driver().await;
        lab.start_driver();
        lab.plane.start_again().await;
    }
    lab.faults(&json!([]));
    lab.kill_driver().await;
    lab.start_driver();
    lab.plane.kill_and_restart().await;
    for name in &alive {
        lab.bound(name).await;
    }
    lab.until_same(alive.len()).await;
    for name in &alive {
        lab.http().delete(&format!("{CLAIMS}/{name}")).await.expect(200);
    }
    lab.until_same(0).await;
}
