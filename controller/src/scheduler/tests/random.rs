//! Pods are created and deleted while writes fail: no node is ever overcommitted, and no ReadWriteOncePod claim is used twice.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::storage::{claim, class};
use super::{WITH_BINDER, node, node_of, pod};
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};

const PODS: usize = 24;
const STEPS: usize = 120;

/// Checks all pods on the server.
fn check(api: &FakeApi, said: &str) {
    let mut cpus: BTreeMap<String, u64> = BTreeMap::new();
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in api.list("pods") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        let cpu = text(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]);
        *cpus.entry(node.to_owned()).or_default() += cpu.parse::<u64>().unwrap();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
            users.entry(claim).or_default().push(text(&pod["metadata"]["name"]));
        }
    }
    assert!(cpus.values().all(|cpu| *cpu <= 4), "{said}: {cpus:?}");
    assert!(users.values().all(|pods| pods.len() <= 1), "{said}: {users:?}");
}

fn disturb(api: &FakeApi, random: &mut StdRng) {
    let kind = match random.random_range(0..4) {
        0 => FaultKind::Broken,
        1 => FaultKind::AnswerLost,
        2 => FaultKind::Status(409, "Conflict", "the object has been modified"),
        _ => FaultKind::Status(500, "InternalError", "no"),
    };
    let resource = ["pods/binding", "persistentvolumes", "persistentvolumeclaims", "pods/status"];
    let resource = resource[random.random_range(0..resource.len())];
    api.fail(Fault { verb: "write", resource, skip: 0, kind });
}

#[tokio::test(start_paused = true)]
async fn no_node_is_overcommitted() {
    let seed = std::env::var("ORLOP_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_727);
    println!("ORLOP_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let api = FakeApi::new();
    api.seed(class("once", "kubernetes.io/no-provisioner"));
    for n in 0..3 {
        api.seed(node(&format!("n{n}"), "a"));
        let mut volume = super::storage::local(&format!("pv{n}"), &format!("n{n}"));
        volume["spec"]["storageClassName"] = json!("once");
        volume["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        api.seed(volume);
        api.seed(claim(&format!("c{n}"), "once", "ReadWriteOncePod"));
    }
    let _running = api.start(&WITH_BINDER, Options::default());
    let mut placed = 0;
    for step in 0..STEPS {
        let name = format!("p{}", random.random_range(0..PODS));
        let there = api.get("pods", &format!("ns/{name}")).is_some();
        match (there, random.random_range(0..4)) {
            (false, _) => {
                let claim = format!("c{}", random.random_range(0..3));
                let claims: &[&str] = if random.random_range(0..3) == 0 { &[claim.as_str()] } else { &[] };
                let mut pod = pod(&name, claims);
                let cpu = random.random_range(1..=3).to_string();
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
                pod["spec"]["priority"] = json!(random.random_range(0..3));
                api.create(pod);
            }
            (true, 0..2) => {
                api.delete_with("pods", &format!("ns/{name}"), json!({"gracePeriodSeconds": 0}));
            }
            (true, 2) => disturb(&api, &mut random),
            (true, _) => placed += usize::from(node_of(&api, &name).is_some()),
        }
        let pause = std::time::Duration::from_millis(random.random_range(0..1500));
        tokio::time::sleep(pause).await;
        check(&api, &format!("seed {seed}, step {step}"));
    }
    // Pods with a node are deleted until all the others have been scheduled: none was forgotten.
    let someone = || {
        let pods = api.list("pods");
        let placed = pods.iter().find(|pod| pod["spec"]["nodeName"].is_string())?;
        placed["metadata"]["name"].as_str().map(str::to_owned)
    };
    while let Some(name) = someone() {
        api.delete_with("pods", &format!("ns/{name}"), json!({"gracePeriodSeconds": 0}));
        api.settle().await;
        check(&api, &format!("seed {seed}, after {name}"));
    }
    assert_eq!(api.list("pods"), Vec::<Value>::new(), "seed {seed}");
    assert!(placed > 0, "seed {seed}: a pod was placed");
}
