//! Forced detaches: the announcement, the record, and their order.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::play::Stage;
use super::table::{Case, NO_CASE};
use orlop_client::names::{ANN_DETACH_NOT_BEFORE, ANN_FORCED_DETACH};

const TWO: Case = Case {
    given: &[
        "node node-1",
        "node node-2",
        "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
        "pvc default/c-1 uid-c-1 volume=pv-1",
        "pod default/p-1 on=node-1 claim=c-1",
    ],
    ..NO_CASE
};

async fn steps(stage: &Stage, lines: &[&str]) {
    for line in lines {
        stage.step(line).await;
    }
    stage.step("settle").await;
}

fn attachment_of(stage: &Stage, node: &str) -> Option<Value> {
    stage.api.list("volumeattachments").into_iter().find(|object| object["spec"]["nodeName"] == node)
}

fn mark(stage: &Stage, key: &str) -> Option<String> {
    attachment_of(stage, "node-1")?["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn forced_detach_time_is_shown_while_waiting() {
    let stage = Stage::of(&TWO).await;
    steps(&stage, &["uses node-1 HP^v", "delete pod default/p-1"]).await;
    assert_eq!(mark(&stage, ANN_DETACH_NOT_BEFORE), None, "a ready node may unmount for as long as it takes");
    let asked: Timestamp = stage.api.now().parse().unwrap();
    steps(&stage, &["create pod default/p-2 on=node-2 claim=c-1"]).await;
    steps(&stage, &["ready node-1 false"]).await;
    let shown = mark(&stage, ANN_DETACH_NOT_BEFORE).unwrap();
    let left = shown.parse::<Timestamp>().unwrap().as_second() - asked.as_second();
    assert!((355..=360).contains(&left), "six minutes after the pod: {left}");
    let refused =
        stage.events().into_iter().find(|event| event.contains("p-2") && event.contains("used by")).unwrap();
    assert!(refused.ends_with("; will be released when node node-1 reports it as not in use"), "{refused}");
    let waiting_events = |object: &str| {
        stage
            .events()
            .iter()
            .filter(|e| e.starts_with(object) && e.contains("VolumeDetachWaiting") && e.ends_with(&shown))
            .count()
    };
    assert_eq!(
        (waiting_events("volumeattachment/"), waiting_events("pod/default/p-2")),
        (1, 1),
        "{:#?}",
        stage.events()
    );
    steps(&stage, &["touch node node-1", "wait 60", "touch node node-1"]).await;
    let writes = stage.api.take_writes();
    let marks = writes.iter().filter(|write| write.body.to_string().contains(ANN_DETACH_NOT_BEFORE)).count();
    assert_eq!(marks, 1, "it is written once");
    steps(&stage, &["ready node-1 true"]).await;
    assert_eq!(mark(&stage, ANN_DETACH_NOT_BEFORE), None, "the node is back and may take its time");
    steps(&stage, &["ready node-1 false"]).await;
    assert_eq!(mark(&stage, ANN_DETACH_NOT_BEFORE), Some(shown), "the time counts from the pod's end");
    steps(&stage, &["delete pod default/p-2", "create pod default/p-1 on=node-1 claim=c-1"]).await;
    assert_eq!(mark(&stage, ANN_DETACH_NOT_BEFORE), None, "wanted again");
}

#[tokio::test(start_paused = true)]
async fn i7_force_is_recorded_before_it_is_used() {
    let stage = Stage::of(&TWO).await;
    steps(&stage, &["uses node-1 HP^v", "delete pod default/p-1"]).await;
    steps(&stage, &["create pod default/p-2 on=node-2 claim=c-1", "ready node-1 false", "wait 300"]).await;
    assert!(mark(&stage, ANN_FORCED_DETACH).is_none() && attachment_of(&stage, "node-2").is_none());
    stage.api.take_writes();
    steps(&stage, &["wait 100"]).await;
    assert!(attachment_of(&stage, "node-1").is_none() && attachment_of(&stage, "node-2").is_some());
    let writes: Vec<String> = stage
        .api
        .take_writes()
        .iter()
        .map(|write| {
            format!(
                "{} {}{}",
                write.verb,
                write.resource,
                if write.body.to_string().contains(ANN_FORCED_DETACH) { " forced" } else { "" }
            )
        })
        .collect();
    let wanted = [
        "patch nodes",
        "patch volumeattachments forced",
        "delete volumeattachments",
        "create volumeattachments",
        "patch nodes",
    ];
    assert_eq!(writes, wanted);
    for object in ["volumeattachment/", "pod/default/p-2"] {
        let is_forced_detach =
            |event: &String| event.starts_with(object) && event.contains(" Warning ForcedDetachVolume ");
        assert!(stage.events().iter().any(is_forced_detach), "{object}: {:#?}", stage.events());
    }
}

#[tokio::test(start_paused = true)]
async fn i7_no_force_without_a_record() {
    let stage = Stage::of(&TWO).await;
    stage.step("attacher detachNever").await;
    steps(&stage, &["uses node-1 HP^v", "ready node-1 false", "delete pod default/p-1", "wait 300"]).await;
    for _ in 0..6 {
        stage.api.fail(crate::testing::Fault {
            verb: "patch",
            resource: "volumeattachments",
            skip: 0,
            kind: crate::testing::FaultKind::Status(500, "InternalError", "no"),
        });
    }
    let mut recorded = false;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let attachment = attachment_of(&stage, "node-1").unwrap();
        recorded = attachment["metadata"]["annotations"][ANN_FORCED_DETACH].is_string();
        assert!(recorded || attachment["metadata"].get("deletionTimestamp").is_none(), "{attachment}");
    }
    let attachment = attachment_of(&stage, "node-1").unwrap();
    assert!(recorded && attachment["metadata"].get("deletionTimestamp").is_some(), "{attachment}");
}

/// The cache does not show yet that the node has begun to use the volume; the server's Node does.
#[tokio::test(start_paused = true)]
async fn i7_node_is_read_from_the_server() {
    let stage = Stage::of(&TWO).await;
    let name = attachment_of(&stage, "node-1").unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let unique = super::notation::unique("HP^v");
    // Without an await point between them, so that no watch event arrives in between.
    stage.api.delete_with("pods", "default/p-1", json!({"gracePeriodSeconds": 0}));
    stage.api.patch("nodes", "node-1", "status", json!({"status": {"volumesInUse": [unique]}}));
    steps(&stage, &["wait 30"]).await;
    let attachment = stage.api.get("volumeattachments", &name).unwrap();
    assert!(attachment["metadata"].get("deletionTimestamp").is_none(), "{attachment}");
    let node = stage.api.get("nodes", "node-1").unwrap();
    assert_eq!(
        node["status"]["volumesAttached"][0]["name"],
        json!(unique),
        "the node may continue to use it: {node}"
    );
    steps(&stage, &["uses node-1 -"]).await;
    assert_eq!(stage.api.get("volumeattachments", &name), None);
}
