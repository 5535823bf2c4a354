//! Properties that hold for every failing request and for a second start, and the cost of a change.

use std::time::Duration;

use super::notation::canonical;
use super::play::Stage;
use super::table::{self, Case};
use crate::testing::FaultKind;

/// Attach, detach, move, refusal, force, adoption.
const CASES: [&str; 8] =
    ["AD-004", "AD-031", "AD-040", "AD-043", "AD-070", "AD-091", "AD-095", "NEW-AD-NODE-WINS"];

fn case(id: &str) -> &'static Case {
    table::all().find(|case| case.id == id).unwrap()
}

async fn played(case: &Case, fault: Option<(usize, FaultKind)>) -> Stage {
    let stage = Stage::with_fault(case, fault).await;
    for line in case.steps {
        stage.step(line).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    for id in CASES {
        let case = case(id);
        let writes = played(case, None).await.api.take_writes().len();
        assert!(writes > 0, "{id}");
        let mut wanted: Vec<String> = case.end.iter().map(|line| canonical(line)).collect();
        wanted.sort();
        for nth in 0..writes {
            for kind in [
                FaultKind::Broken,
                FaultKind::AnswerLost,
                FaultKind::Status(409, "Conflict", "the object has been modified"),
                FaultKind::Status(500, "InternalError", "no"),
            ] {
                let stage = played(case, Some((nth, kind.clone()))).await;
                assert_eq!(stage.end(), wanted, "{id} after write {nth} of {writes} failed with {kind:?}");
                assert_eq!(stage.api.pending_faults(), 0, "{id}: the fault happened");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn second_start_finds_nothing_to_do() {
    for id in CASES {
        let mut stage = played(case(id), None).await;
        stage.api.take_writes();
        stage.restart().await;
        assert_eq!(stage.api.take_writes(), [], "{id}");
    }
}

/// A change of one of many pods causes only its own requests.
#[tokio::test(start_paused = true)]
async fn change_of_one_pod_costs_only_that_pod() {
    const NODES: usize = 10;
    const VOLUMES: usize = 100;
    let stage = Stage::of(&table::NO_CASE).await;
    let create = |lines: Vec<String>| async {
        for line in lines {
            stage.step(&format!("create {line}")).await;
        }
    };
    create((0..NODES).map(|n| format!("node node-{n}")).collect()).await;
    create((0..=VOLUMES).map(|n| format!("pv pv-{n} HP^v-{n} RWO ref=default/c-{n}:uid-c-{n}")).collect())
        .await;
    create((0..=VOLUMES).map(|n| format!("pvc default/c-{n} uid-c-{n} volume=pv-{n}")).collect()).await;
    create((0..VOLUMES).map(|n| format!("pod default/p-{n} on=node-{} claim=c-{n}", n % NODES)).collect())
        .await;
    stage.step("wait 20").await;
    assert_eq!(stage.api.list("volumeattachments").len(), VOLUMES);
    let before = stage.api.requests().len();
    stage.step(&format!("create pod default/p-{VOLUMES} on=node-7 claim=c-{VOLUMES}")).await;
    stage.step("settle").await;
    let mut requests = stage.api.requests().split_off(before);
    requests.retain(|line| !line.contains("/events"));
    assert_eq!(
        requests,
        ["POST /apis/storage.k8s.io/v1/volumeattachments", "PATCH /api/v1/nodes/node-7/status"]
    );
    let before = stage.api.requests().len();
    stage.step(&format!("delete pod default/p-{VOLUMES}")).await;
    stage.step("settle").await;
    let requests: Vec<String> = stage
        .api
        .requests()
        .split_off(before)
        .into_iter()
        .map(|line| line.split("/csi-").next().unwrap().to_owned())
        .collect();
    let wanted = [
        "PATCH /api/v1/nodes/node-7/status",
        "GET /api/v1/nodes/node-7",
        "DELETE /apis/storage.k8s.io/v1/volumeattachments",
    ];
    assert_eq!(requests, wanted);
}
