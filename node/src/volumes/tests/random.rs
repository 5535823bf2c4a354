//! Random histories: pods are created and deleted, calls fail and hang, agents crash and restart. The invariants
//! are checked at every call, and the final state must be correct. `ORLOP_VOLUMES_SEED` runs one history,
//! `ORLOP_VOLUMES_HISTORIES` sets the number of random ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::{Agent, Bench, Fault, pod};
use crate::volumes::PodVolumes;

const HISTORIES: u64 = 6;
const STEPS: usize = 40;
const FAULTS: [Fault; 7] = [
    Fault::Final,
    Fault::Late,
    Fault::Lost,
    Fault::Done,
    Fault::Panics,
    Fault::HangsBefore,
    Fault::HangsAfter,
];
const CALLS: [&str; 5] = ["", "stage", "publish", "unpublish", "unstage"];
const SETS: [&[&str]; 6] = [&["many"], &["once"], &["+x"], &["many", "+x"], &["many", "once"], &[]];

type Pods = BTreeMap<String, Arc<Pod>>;

/// Another agent takes over; some pods arrive before all are known, and some claims cannot be read at first.
async fn again(bench: &Bench, agent: Agent, pods: &Pods, rng: &mut StdRng) -> Agent {
    agent.crash().await;
    // Hanging calls ended with their agent.
    bench.machine.state().plans.clear();
    let agent = bench.quiet_agent().await;
    let node_first = rng.random_bool(0.5);
    if node_first {
        bench.register(&agent);
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..300))).await;
    }
    for pod in pods.values() {
        agent.volumes.want(Arc::clone(pod));
    }
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..100))).await;
    agent.volumes.synced();
    if !node_first {
        bench.register(&agent);
    }
    agent
}

async fn play(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let bench = Bench::new();
    bench.disk("many", "ReadWriteMany", "d");
    bench.disk("once", "ReadWriteOncePod", "d");
    let mut agent = bench.agent().await;
    let (mut pods, mut next) = (Pods::new(), 0);
    for _ in 0..STEPS {
        match rng.random_range(0..10) {
            0..4 => {
                next += 1;
                let (name, uid) = (format!("p{}", rng.random_range(0..3)), format!("u{next}"));
                let wanted = pod(&name, &uid, SETS[rng.random_range(0..SETS.len())]);
                agent.volumes.want(Arc::clone(&wanted));
                pods.insert(uid, wanted);
            }
            4..7 => {
                let uids: Vec<String> = pods.keys().cloned().collect();
                if !uids.is_empty() {
                    let uid = &uids[rng.random_range(0..uids.len())];
                    pods.remove(uid);
                    agent.volumes.release(uid);
                }
            }
            7..9 => {
                let call = CALLS[rng.random_range(0..CALLS.len())];
                let mut fault = FAULTS[rng.random_range(0..FAULTS.len())];
                if call.starts_with("un") && rng.random_bool(0.3) {
                    fault = Fault::Denied;
                }
                bench.machine.plan(call, rng.random_range(0..3), fault);
            }
            _ => agent = again(&bench, agent, &pods, &mut rng).await,
        }
        let pause = [0, 20, 200, 3000][rng.random_range(0..4)];
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    agent = again(&bench, agent, &pods, &mut rng).await;
    bench.rest().await;
    bench.nothing_wrong();
    let wants_once = |pod: &Pod| {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.into_iter().any(|volume| volume.name == "once")
    };
    let mut have_once = 0;
    for (uid, pod) in &pods {
        match (agent.is_ready(uid), wants_once(pod)) {
            (true, true) => have_once += 1,
            (true, false) => {}
            (false, true) => {
                assert!(agent.waits(uid).contains("ReadWriteOncePod"), "{uid}: {}", agent.waits(uid))
            }
            (false, false) => panic!("{uid} is not ready: {}", agent.waits(uid)),
        }
    }
    assert_eq!(have_once, usize::from(pods.values().any(|pod| wants_once(pod))), "exactly one pod has it");
    for uid in pods.keys() {
        agent.volumes.release(uid);
    }
    bench.rest().await;
    for uid in pods.keys() {
        assert_eq!(agent.state(uid), PodVolumes::Released);
    }
    bench.nothing_wrong();
    {
        let state = bench.machine.state();
        assert!(
            state.places.is_empty() && state.devices.is_empty(),
            "{:?} {:?}",
            state.places,
            state.devices
        );
    }
    assert_eq!(agent.in_use(), Vec::<String>::new());
    let left = std::fs::read_dir(bench.paths().pods()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "directories of pods are left");
    assert!(!bench.paths().quarantine().exists(), "nothing strange was found");
}

#[tokio::test(start_paused = true)]
async fn i7_i12_random_histories_reach_the_desired_state() {
    let seeds = match std::env::var("ORLOP_VOLUMES_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let first = rand::rng().random_range(0..u64::from(u32::MAX));
            let histories = std::env::var("ORLOP_VOLUMES_HISTORIES").ok().and_then(|n| n.parse().ok());
            (first..first + histories.unwrap_or(HISTORIES)).collect()
        }
    };
    for seed in seeds {
        eprintln!("ORLOP_VOLUMES_SEED={seed}");
        play(seed).await;
    }
}
