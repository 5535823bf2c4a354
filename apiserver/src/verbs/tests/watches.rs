//! Watches: start, events, end.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::rig::{CONFIG_MAPS, Rig, text, version};

async fn label(rig: &Rig, name: &str, value: serde_json::Value) {
    let patch = json!({"metadata": {"labels": {"on": value}}});
    rig.patch(&format!("{CONFIG_MAPS}/{name}"), "merge", patch).await.expect(200);
}

#[tokio::test]
async fn watch_starts_at_the_requested_revision() {
    let rig = Rig::new().await;
    rig.config_map("b", json!({})).await;
    let old = rig.head();
    rig.config_map("a", json!({})).await;
    let head = rig.head();
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for (case, query, want) in [
        (
            "1 with what there is, in the order of names",
            String::new(),
            vec!["ADDED a", "ADDED b", "ADDED new"],
        ),
        ("2 the same for 0", "resourceVersion=0".into(), vec!["ADDED a", "ADDED b", "ADDED new"]),
        ("3 after a version", format!("resourceVersion={old}"), vec!["ADDED a", "ADDED new"]),
        ("4 after the newest", format!("resourceVersion={head}"), vec!["ADDED new"]),
        ("5 asked for", format!("{initial}&resourceVersion={old}"), vec!["ADDED a", "ADDED b", "ADDED new"]),
        (
            "6 not asked for",
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan".into(),
            vec!["ADDED new"],
        ),
        ("7 one name", "fieldSelector=metadata.name%3Db".into(), vec!["ADDED b"]),
    ] {
        let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        rig.config_map("new", json!({})).await;
        for expected in want {
            assert_eq!(watch.short().await, expected, "{case}");
        }
        rig.delete(&format!("{CONFIG_MAPS}/new"), json!(null)).await.expect(200);
    }
    for (case, query, code) in [
        ("8 initial events need the match", "sendInitialEvents=true", 422),
        ("9 the match needs initial events", "resourceVersionMatch=NotOlderThan", 422),
        ("10 no exact watches", "sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("11 not a number", "resourceVersion=abc", 500),
        ("12 a bad time", "timeoutSeconds=abc", 400),
        ("13 a bad selector", "labelSelector=%3D", 400),
        ("14 an unknown field", "fieldSelector=spec.x%3D1", 400),
    ] {
        assert_eq!(rig.get(&format!("{CONFIG_MAPS}?watch=1&{query}")).await.code, code, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_waits_for_a_future_revision() {
    let rig = Rig::new().await;
    let after = rig.head().0 + 1;
    let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={after}")).await;
    rig.config_map("a", json!({})).await;
    rig.config_map("b", json!({})).await;
    assert_eq!(watch.short().await, "ADDED b", "the client reports that it received a");
    let far = u64::MAX;
    let mut never = rig.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion={far}")).await;
    assert_eq!(never.short().await, "end");
    let initial =
        format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={}", after + 1000);
    let mut failed = rig.watch(&format!("{CONFIG_MAPS}?watch=1&{initial}")).await;
    assert_eq!(failed.short().await, "ERROR 504");
    assert_eq!(failed.short().await, "end");
}

#[tokio::test]
async fn compacted_revision_ends_the_watch() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let old = rig.head();
    label(&rig, "a", json!("1")).await;
    label(&rig, "a", json!("2")).await;
    rig.compact().await;
    let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={old}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    let status = &event["object"];
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    assert!(watch.next().await.is_none());
    let head = rig.head();
    let mut resumed = rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={head}")).await;
    label(&rig, "a", json!("3")).await;
    assert_eq!(resumed.short().await, "MODIFIED a");
}

/// An object that enters the selection is added, one that leaves it is deleted.
#[tokio::test]
async fn objects_are_added_and_deleted_as_they_enter_and_leave_the_selection() {
    let rig = Rig::new().await;
    let from = rig.head();
    let mut watch =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=on%3Dyes&resourceVersion={from}")).await;
    rig.config_map("a", json!({})).await;
    label(&rig, "a", json!("yes")).await;
    rig.patch(&format!("{CONFIG_MAPS}/a"), "merge", json!({"data": {"n": "1"}})).await.expect(200);
    label(&rig, "a", json!("no")).await;
    let left_at = rig.head();
    label(&rig, "a", json!("neither")).await;
    label(&rig, "a", json!("yes")).await;
    rig.delete(&format!("{CONFIG_MAPS}/a"), json!(null)).await.expect(200);
    rig.config_map("a", json!({"on": "yes"})).await;
    let check = async |watch: &mut super::rig::Lines| {
        for (expected, on) in [
            ("ADDED", "yes"),
            ("MODIFIED", "yes"),
            ("DELETED", "yes"),
            ("ADDED", "yes"),
            ("DELETED", "yes"),
            ("ADDED", "yes"),
        ] {
            let event = watch.next().await.unwrap();
            assert_eq!(event["type"], expected);
            assert_eq!(text(&event, "/object/metadata/labels/on"), on, "what left is shown as it was");
        }
    };
    check(&mut watch).await;
    // The same events from the past, which also contain the previous state.
    let mut again =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=on%3Dyes&resourceVersion={from}")).await;
    check(&mut again).await;
    let before = left_at.0 - 1;
    let mut one =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=on%3Dyes&resourceVersion={before}")).await;
    let event = one.next().await.unwrap();
    assert_eq!((&event["type"], version(&event["object"])), (&json!("DELETED"), left_at.to_string()));
}

#[tokio::test]
async fn watch_resumes_after_any_event() {
    let rig = Rig::new().await;
    let from = rig.head();
    for n in 0..5 {
        rig.config_map(&format!("c{n}"), json!({})).await;
        label(&rig, &format!("c{n}"), json!("1")).await;
    }
    let mut whole = Vec::new();
    let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    for _ in 0..10 {
        whole.push(watch.next().await.unwrap());
    }
    let versions: Vec<u64> = whole.iter().map(|event| version(&event["object"]).parse().unwrap()).collect();
    assert!(versions.is_sorted(), "{versions:?}");
    for (at, event) in whole.iter().enumerate() {
        let mut rest =
            rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&event["object"]))).await;
        for expected in &whole[at + 1..] {
            assert_eq!(&rest.next().await.unwrap(), expected, "taken up behind {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_minute_and_before_the_end() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let at = rig.head();
    let started = Instant::now();
    let mut watch =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=150")).await;
    assert_eq!(watch.short().await, "ADDED a");
    let end = watch.next().await.unwrap();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&end["object"]), at.to_string());
    assert_eq!(end["object"]["kind"], "ConfigMap");
    // Writes to other resources advance the bookmark, which is its purpose.
    rig.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.expect(201);
    let head = rig.head();
    for seconds in [60, 120, 148] {
        assert_eq!(watch.short().await, format!("BOOKMARK {head}"));
        assert_eq!(started.elapsed().as_secs(), seconds);
    }
    assert_eq!(watch.short().await, "end");
    assert_eq!(started.elapsed().as_secs(), 150);

    let mut quiet =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=150&resourceVersion={head}")).await;
    assert_eq!(quiet.short().await, "end", "without being asked for there are none");
}

/// A bookmark guarantees that all events up to its revision have been sent, even under constant writes.
#[tokio::test(start_paused = true)]
async fn busy_watch_sends_bookmarks_and_ends_on_time() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let head = rig.head();
    let started = Instant::now();
    let target =
        format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=100&resourceVersion={head}");
    let mut watch = rig.watch(&target).await;
    let mut last_sent = head.0;
    let mut bookmarks = 0;
    let write = async {
        for n in 0.. {
            tokio::time::sleep(Duration::from_millis(500)).await;
            label(&rig, "a", json!(n.to_string())).await;
        }
    };
    let read = async {
        while let Some(event) = watch.next().await {
            let at: u64 = version(&event["object"]).parse().unwrap();
            if event["type"] == "BOOKMARK" {
                bookmarks += 1;
                assert_eq!(at, last_sent, "nothing is promised that was not sent");
            }
            last_sent = at;
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    assert_eq!(bookmarks, 2);
    assert_eq!(started.elapsed().as_secs(), 100);
}

/// A constant flow of events does not delay the end of a watch.
#[tokio::test(start_paused = true)]
async fn backlog_does_not_delay_the_end() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let from = rig.head();
    for n in 0..1000 {
        label(&rig, "a", json!(n.to_string())).await;
    }
    let mut watch =
        rig.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={from}")).await;
    assert_eq!(watch.short().await, "MODIFIED a");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut more = 0;
    while watch.next().await.is_some() {
        more += 1;
    }
    assert!(more < 999, "what comes after its time is left for the next watch");
}

#[tokio::test(start_paused = true)]
async fn duration_follows_the_timeout_parameter() {
    let rig = Rig::with(|config| config.min_request_timeout = Duration::from_secs(10)).await;
    for (case, query, least, most) in [
        ("1 as asked", "timeoutSeconds=3", 3, 3),
        ("2 without an option", "", 10, 20),
        ("3 zero is the default", "timeoutSeconds=0", 10, 20),
        ("4 below zero as well", "timeoutSeconds=-9223372036854775808", 10, 20),
        ("5 the timeout of requests is not meant", "timeout=1s", 10, 20),
    ] {
        let started = Instant::now();
        let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        assert_eq!(watch.short().await, "end", "{case}");
        let seconds = started.elapsed().as_secs();
        assert!((least..=most).contains(&seconds), "{case}: {seconds}");
    }
    // A timeout beyond the representable range is accepted.
    let mut long = rig.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=9223372036854775807")).await;
    rig.config_map("a", json!({})).await;
    assert_eq!(long.short().await, "ADDED a");
}

#[tokio::test]
async fn shutdown_ends_all_watches() {
    let rig = Rig::new().await;
    let mut watches = Vec::new();
    for _ in 0..1000 {
        watches.push(rig.watch(&format!("{CONFIG_MAPS}?watch=1")).await);
    }
    rig.config_map("a", json!({})).await;
    for watch in &mut watches {
        assert_eq!(watch.short().await, "ADDED a");
    }
    let metrics = rig.get("/metrics").await.text();
    let line = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\"";
    assert!(metrics.lines().any(|l| l.starts_with(line) && l.ends_with(" 1000")), "{metrics}");
    rig.server.drain().await;
    for watch in &mut watches {
        assert_eq!(watch.short().await, "end");
    }
    drop(watches);
    let metrics = rig.get("/metrics").await.text();
    assert!(
        metrics.lines().any(|l| l.starts_with(line) && l.ends_with(" 0")),
        "watches that are gone are not counted"
    );
}

/// Large events are not combined into one chunk.
#[tokio::test]
async fn large_events_are_sent_in_separate_chunks() {
    let rig = Rig::new().await;
    let from = rig.head();
    for n in 0..8 {
        let body = json!({"metadata": {"name": format!("c{n}")}, "data": {"x": "x".repeat(100_000)}});
        rig.post(CONFIG_MAPS, body).await.expect(201);
    }
    for query in [format!("resourceVersion={from}"), String::new()] {
        let target = format!("{CONFIG_MAPS}?watch=1&{query}");
        let response = rig.raw("GET", &target, &[], axum::body::Body::empty()).await;
        let mut body = response.into_body().into_data_stream();
        for _ in 0..8 {
            let piece = futures::StreamExt::next(&mut body).await.unwrap().unwrap();
            assert!(piece.len() < 150_000, "{query}: {}", piece.len());
        }
    }
}
