//! Fault injection: every call fails once in every way, and the agent crashes during every call. The final state
//! must equal that of a run without faults.

use std::time::Duration;

use super::fixture::{Agent, Bench, Fault, pod};
use crate::volumes::PodVolumes;

const CALLS: usize = 7;

/// Two pods share a disk, and one has its own directory.
async fn come(agent: &Agent) {
    agent.volumes.want(pod("p", "u1", &["a", "+x"]));
    tokio::time::sleep(Duration::from_millis(500)).await;
    agent.volumes.want(pod("q", "u2", &["a"]));
}

fn go(agent: &Agent) {
    agent.volumes.release("u1");
    agent.volumes.release("u2");
}

fn all_there(bench: &Bench, agent: &Agent, what: &str) {
    assert!(agent.is_ready("u1"), "{what}: {}", agent.waits("u1"));
    assert!(agent.is_ready("u2"), "{what}: {}", agent.waits("u2"));
    let state = bench.machine.state();
    assert_eq!((state.places.len(), state.devices.len()), (3, 1), "{what}");
}

fn all_gone(bench: &Bench, agent: &Agent, what: &str) {
    assert_eq!(
        (agent.state("u1"), agent.state("u2")),
        (PodVolumes::Released, PodVolumes::Released),
        "{what}"
    );
    {
        let state = bench.machine.state();
        assert!(
            state.places.is_empty() && state.devices.is_empty(),
            "{what}: {:?} {:?}",
            state.places,
            state.devices
        );
    }
    assert_eq!(agent.in_use(), Vec::<String>::new(), "{what}");
    for uid in ["u1", "u2"] {
        assert!(!bench.paths().pod(uid).exists(), "{what}");
    }
    assert!(!bench.paths().quarantine().exists(), "{what}: nothing strange was found");
}

#[tokio::test(start_paused = true)]
async fn every_call_recovers_from_every_fault() {
    for nth in 0..CALLS {
        for fault in [Fault::Final, Fault::Lost, Fault::Done, Fault::Panics] {
            let what = format!("call {nth} {fault:?}");
            let bench = Bench::new();
            bench.disk("a", "ReadWriteMany", "d");
            bench.machine.plan("", nth, fault);
            let agent = bench.agent().await;
            come(&agent).await;
            bench.rest().await;
            all_there(&bench, &agent, &what);
            go(&agent);
            bench.rest().await;
            all_gone(&bench, &agent, &what);
            assert!(bench.machine.state().plans.is_empty(), "{what}: it has happened");
            bench.nothing_wrong();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failing_call_is_retried_with_back_off() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    bench.machine.always("stage a", Fault::Final);
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.rest().await;
    // 0.5 1 2 4 8 16 32 64 122 122 ...
    assert_eq!(bench.machine.take_calls().len(), 11);
    let text = "MountVolume.MountDevice failed for volume \"pv-a\" : stage a: no";
    assert!(bench.events("FailedMount")[0].ends_with(text));
    assert!(agent.waits("u").ends_with("failed to process volumes=[]: stage a: no"));
    agent.volumes.release("u");
    bench.settle().await;
    assert_eq!(agent.state("u"), PodVolumes::Released);
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new(), "nothing was left behind");
    assert_eq!(agent.in_use(), Vec::<String>::new());
}

/// The agent crashes during a call, before or after its effect, and another one starts.
#[tokio::test(start_paused = true)]
async fn crash_during_every_call_is_recovered() {
    for nth in 0..CALLS {
        for fault in [Fault::HangsBefore, Fault::HangsAfter] {
            let what = format!("crash in call {nth} {fault:?}");
            let bench = Bench::new();
            bench.disk("a", "ReadWriteMany", "d");
            bench.machine.plan("", nth, fault);
            let mut agent = bench.agent().await;
            come(&agent).await;
            bench.settle().await;
            let has_crashed = || bench.machine.state().plans.is_empty();
            if has_crashed() {
                agent.crash().await;
                agent = bench.quiet_agent().await;
                bench.register(&agent);
                come(&agent).await;
                agent.volumes.synced();
                bench.rest().await;
            }
            all_there(&bench, &agent, &what);
            let crashed_before = has_crashed();
            go(&agent);
            bench.settle().await;
            if !crashed_before {
                // The pods are deleted before the next agent starts.
                agent.crash().await;
                agent = bench.agent().await;
                bench.rest().await;
            }
            all_gone(&bench, &agent, &what);
            assert!(has_crashed(), "{what}: it has happened");
            bench.nothing_wrong();
        }
    }
}

/// The same, but the pods are deleted before the next agent starts, whatever operation was in progress.
#[tokio::test(start_paused = true)]
async fn crash_during_mounts_of_deleted_pods_is_recovered() {
    for nth in 0..4 {
        for fault in [Fault::HangsBefore, Fault::HangsAfter] {
            let what = format!("crash in call {nth} {fault:?}");
            let bench = Bench::new();
            bench.disk("a", "ReadWriteMany", "d");
            bench.machine.plan("", nth, fault);
            let agent = bench.agent().await;
            come(&agent).await;
            bench.settle().await;
            assert!(bench.machine.state().plans.is_empty(), "{what}: it has happened");
            agent.crash().await;
            let agent = bench.agent().await;
            bench.rest().await;
            all_gone(&bench, &agent, &what);
            bench.nothing_wrong();
        }
    }
}
