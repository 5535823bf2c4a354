//! Tests the event writer against the fake API server.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::*;
use orlop_test_support::{FakeApi, Fault, FaultKind};

fn recorder(api: &FakeApi, stop: &CancellationToken, component: &str) -> Recorder {
    let clock = Clock::following_tokio(1_767_225_600);
    let (events, _writer) = EventSink::start(api.client(), clock, stop.clone());
    events.recorder(component)
}

fn claim() -> PersistentVolumeClaim {
    serde_json::from_value(
        json!({"metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7"}}),
    )
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn event_has_the_fields_that_tools_read_and_repeats_are_counted() {
    let api = FakeApi::new();
    let stop = CancellationToken::new();
    let recorder = recorder(&api, &stop, "persistentvolume-controller");
    for _ in 0..3 {
        recorder.event(&claim(), EventType::Normal, "FailedBinding", "nothing fits");
        api.settle().await;
    }
    let events = api.list("events");
    assert_eq!(events.len(), 1);
    let e = &events[0];
    assert_eq!(e["count"], 3);
    assert_ne!(e["firstTimestamp"], e["lastTimestamp"]);
    assert_eq!(
        e["involvedObject"],
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns",
        "name": "c", "uid": "u", "resourceVersion": "7"})
    );
    assert_eq!(
        (&e["source"]["component"], &e["reportingComponent"]),
        (&json!("persistentvolume-controller"), &json!("persistentvolume-controller"))
    );
    let name = e["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("c.") && i128::from_str_radix(&name[2..], 16).is_ok(), "{name}");
    assert_eq!(e["metadata"]["namespace"], "ns");
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_objects_are_in_default_and_expired_ones_are_recreated() {
    let api = FakeApi::new();
    let stop = CancellationToken::new();
    let recorder = recorder(&api, &stop, "x");
    let pv: PersistentVolume = serde_json::from_value(json!({"metadata": {"name": "pv-1"}})).unwrap();
    recorder.event(&pv, EventType::Warning, "R", "m");
    api.settle().await;
    let name = api.list("events")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(api.delete("events", &format!("default/{name}")));
    recorder.event(&pv, EventType::Warning, "R", "m");
    api.settle().await;
    let events = api.list("events");
    assert_eq!((events.len(), &events[0]["count"]), (1, &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_delays_events_and_a_refusal_drops_one() {
    let api = FakeApi::new();
    let stop = CancellationToken::new();
    let recorder = recorder(&api, &stop, "x");
    api.fail(Fault { verb: "create", resource: "events", skip: 0, kind: FaultKind::Broken });
    api.fail(Fault {
        verb: "create",
        resource: "events",
        skip: 2,
        kind: FaultKind::Status(403, "Forbidden", "no"),
    });
    recorder.event(&claim(), EventType::Normal, "A", "m");
    recorder.event(&claim(), EventType::Normal, "B", "m");
    recorder.event(&claim(), EventType::Normal, "C", "m");
    api.settle().await;
    let mut reasons: Vec<String> =
        api.list("events").iter().map(|e| e["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert_eq!(reasons, ["A", "C"]);
}

#[tokio::test(start_paused = true)]
async fn queued_events_are_written_at_shutdown_with_a_time_limit() {
    for (away, wanted) in [(false, 2), (true, 0)] {
        let api = FakeApi::new();
        let stop = CancellationToken::new();
        let (sink, writer) = EventSink::start(api.client(), Clock::Wall, stop.clone());
        api.set_away(away);
        let recorder = sink.recorder("x");
        recorder.event(&claim(), EventType::Normal, "A", "m");
        recorder.event(&claim(), EventType::Normal, "B", "m");
        stop.cancel();
        let start = tokio::time::Instant::now();
        writer.await.unwrap();
        assert!(start.elapsed() <= FLUSH + Duration::from_millis(10));
        assert_eq!(api.list("events").len(), wanted, "away: {away}");
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    for (message, length) in [
        ("a".repeat(1024), 1024),
        ("a".repeat(1025), 1024),
        ("a".repeat(3_000_000), 1024),
        // Two bytes each after one: 1020 is within a character.
        (format!("a{}", "\u{e9}".repeat(600)), 1023),
    ] {
        let is_cut = message.len() > 1024;
        let written = cut(message);
        assert_eq!((written.len(), written.ends_with(CUT)), (length, is_cut));
    }
}
