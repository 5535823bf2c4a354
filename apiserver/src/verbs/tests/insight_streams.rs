//! Change streams: the stream of all kinds, the timeline and captures.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{CONFIG_MAPS, Lines, Rig, text, version};

const ROOT: &str = "/apis/orlop.dev/v1";

/// The short form of a line: its type and its object or revision.
fn short(line: &Value) -> String {
    let ty = line["type"].as_str().unwrap();
    match ty {
        "HEADER" | "SYNCED" | "PROGRESS" => format!("{ty} {}", text(line, "/revision")),
        "ERROR" => format!("{ty} {}", line["code"]),
        _ => format!("{ty} {} {}", text(line, "/resource"), text(line, "/object/metadata/name")),
    }
}

/// All lines of a finite stream.
async fn lines(rig: &Rig, path: &str) -> Vec<Value> {
    let text = rig.get(&format!("{ROOT}/{path}")).await.expect(200).text();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn short_lines(rig: &Rig, path: &str) -> Vec<String> {
    lines(rig, path).await.iter().map(short).collect()
}

async fn next(stream: &mut Lines) -> String {
    stream.next().await.map_or("end".to_owned(), |line| short(&line))
}

/// Creates, changes and deletes a config map; returns its revisions.
async fn story(rig: &Rig) -> [String; 3] {
    let url = format!("{CONFIG_MAPS}/one");
    let made = version(&rig.config_map("one", json!({})).await);
    rig.advance(Duration::from_secs(60));
    let changed = rig.patch(&url, "merge", json!({"data": {"n": "1"}})).await.expect(200).json();
    rig.advance(Duration::from_secs(60));
    rig.delete(&url, Value::Null).await.expect(200);
    [made, version(&changed), rig.head().to_string()]
}

#[tokio::test]
async fn stream_sends_the_state_and_then_changes() {
    let rig = Rig::new().await;
    rig.config_map("old", json!({})).await;
    let before = rig.head().to_string();
    let mut stream = rig.watch(&format!("{ROOT}/stream?resource=configmaps,pv&resource=nodes")).await;
    let header = stream.next().await.unwrap();
    assert_eq!(
        (&header["format"], text(&header, "/revision")),
        (&json!("orlop.dev/stream.1"), before.clone())
    );
    assert_eq!(
        (text(&header, "/oldest"), text(&header, "/time")),
        ("0".into(), "2026-01-01T12:00:00.000Z".into())
    );
    assert!(text(&header, "/server").starts_with("v1.36"));
    assert_eq!(next(&mut stream).await, "ADDED configmaps old");
    assert_eq!(next(&mut stream).await, format!("SYNCED {before}"));
    let [made, _, gone] = story(&rig).await;
    let line = stream.next().await.unwrap();
    assert_eq!((short(&line), text(&line, "/revision")), ("ADDED configmaps one".into(), made.clone()));
    let object = &line["object"];
    assert_eq!((&object["kind"], version(object)), (&json!("ConfigMap"), made));
    assert_eq!(object["metadata"].get("managedFields"), None);
    assert_eq!(next(&mut stream).await, "MODIFIED configmaps one");
    let line = stream.next().await.unwrap();
    assert_eq!((short(&line), text(&line, "/revision")), ("DELETED configmaps one".into(), gone.clone()));
    assert_eq!((&line["object"]["data"], version(&line["object"])), (&json!({"n": "1"}), gone));
    assert_eq!(text(&line, "/time"), "2026-01-01T12:02:00.000Z");
    // Kinds that were not requested are omitted.
    rig.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.expect(201);
    let pv = json!({
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}},
    });
    rig.post("/api/v1/persistentvolumes", pv).await.expect(201);
    assert_eq!(next(&mut stream).await, "ADDED persistentvolumes v");
    rig.server.drain().await;
    assert_eq!(next(&mut stream).await, "end");
}

#[tokio::test]
async fn stream_from_a_revision_sends_the_later_changes() {
    let rig = Rig::new().await;
    let before = rig.head().to_string();
    let [made, changed, gone] = story(&rig).await;
    let path = format!("stream?resource=configmaps&from={made}");
    let mut stream = rig.watch(&format!("{ROOT}/{path}")).await;
    for want in [
        format!("HEADER {made}"),
        format!("SYNCED {made}"),
        "MODIFIED configmaps one".into(),
        "DELETED configmaps one".into(),
    ] {
        assert_eq!(next(&mut stream).await, want);
    }
    drop(stream);
    let all = ["ADDED configmaps one", "MODIFIED configmaps one", "DELETED configmaps one"];
    for (path, first, want, last) in [
        (format!("from={before}&follow=false"), &before, &all[..], &gone),
        (format!("from={gone}&follow=false"), &gone, &[][..], &gone),
        (format!("at={made}&until={made}"), &made, &all[..1], &made),
        (format!("from={before}&until={changed}"), &before, &all[..2], &changed),
        (format!("from={made}&until=2026-01-01T12:01:30Z"), &made, &all[1..2], &changed),
        (format!("at={made}&until={gone}"), &made, &["SYNCED", all[1], all[2]][..], &gone),
    ] {
        let got = short_lines(&rig, &format!("stream?resource=configmaps&{path}")).await;
        assert_eq!(
            (&got[0], got.last()),
            (&format!("HEADER {first}"), Some(&format!("PROGRESS {last}"))),
            "{path}"
        );
        let is_change = |line: &&String| line.contains("configmaps one");
        let changes: Vec<&String> = got.iter().filter(is_change).collect();
        // The state at a revision uses the same type as later additions.
        let want: Vec<&str> = want.iter().map(|line| if *line == "SYNCED" { all[0] } else { line }).collect();
        assert_eq!(changes, want, "{path}");
    }
}

#[tokio::test]
async fn stream_at_a_time_sends_the_state_of_that_time() {
    let rig = Rig::new().await;
    let [made, changed, gone] = story(&rig).await;
    for (at, revision, data) in [
        (made.as_str(), &made, Some("0")),
        ("2026-01-01T12:00:30Z", &made, Some("0")),
        (&changed, &changed, Some("1")),
        ("2026-01-01T12:01:59Z", &changed, Some("1")),
        (&gone, &gone, None),
    ] {
        let all = lines(&rig, &format!("stream?follow=false&resource=configmaps&at={at}")).await;
        let found =
            all.iter().find(|line| line["type"] == "ADDED" && line["object"]["metadata"]["name"] == "one");
        assert_eq!(found.map(|line| text(line, "/object/data/n")).as_deref(), data, "{at}");
        assert_eq!(short(all.last().unwrap()), format!("SYNCED {revision}"), "{at}");
        assert_eq!(all[0].get("until"), None, "{at}: a read does not wait for more");
    }
}

#[tokio::test]
async fn stream_parameters_are_validated() {
    let rig = Rig::new().await;
    let [made, changed, _] = story(&rig).await;
    for (query, words) in [
        (format!("from={made}&at={made}"), "exclude"),
        (format!("at={changed}&until={made}"), "before the beginning"),
        ("at=noon".to_owned(), "must be a revision"),
    ] {
        let answer = rig.get(&format!("{ROOT}/stream?{query}")).await.expect(400);
        assert!(answer.text().contains(words), "{}", answer.text());
    }
    rig.get(&format!("{ROOT}/capture?from={changed}&until={made}")).await.expect(400);
    rig.get(&format!("{ROOT}/stream?resource=nothings")).await.expect(404);
    let all =
        lines(&rig, &format!("stream?follow=false&managedFields=true&at={made}&resource=configmaps")).await;
    assert!(all.iter().any(|line| line["object"]["metadata"]["managedFields"].is_array()), "{all:?}");
}

#[tokio::test]
async fn compacted_revision_ends_the_stream_with_an_error_line() {
    let rig = Rig::new().await;
    let [made, ..] = story(&rig).await;
    let oldest = rig.head();
    rig.compact().await;
    rig.config_map("two", json!({})).await;
    for query in [format!("from={made}"), format!("at={made}"), "at=2026-01-01T12:00:30Z".to_owned()] {
        let all = lines(&rig, &format!("stream?{query}")).await;
        let got: Vec<String> = all.iter().map(short).collect();
        assert_eq!(got, [format!("HEADER {}", rig.head()), "ERROR 410".to_owned()], "{query}");
        assert!(text(&all[1], "/message").contains(&format!("is {oldest}")), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_stream_reports_progress() {
    let rig = Rig::new().await;
    let mut stream = rig.watch(&format!("{ROOT}/stream?from=0&resource=configmaps")).await;
    assert_eq!(next(&mut stream).await, "HEADER 0");
    assert_eq!(next(&mut stream).await, "SYNCED 0");
    let begun = tokio::time::Instant::now();
    assert_eq!(next(&mut stream).await, format!("PROGRESS {}", rig.head()));
    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
    rig.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.expect(201);
    assert_eq!(next(&mut stream).await, format!("PROGRESS {}", rig.head()));
}

#[tokio::test]
async fn slow_reader_misses_no_event() {
    let rig = Rig::new().await;
    let before = rig.head();
    let mut stream = rig.watch(&format!("{ROOT}/stream?from={before}&resource=configmaps")).await;
    next(&mut stream).await;
    next(&mut stream).await;
    // More events than one read returns.
    rig.config_map("one", json!({})).await;
    for n in 0..700 {
        let body = json!({"data": {"n": n.to_string()}});
        rig.patch(&format!("{CONFIG_MAPS}/one"), "merge", body).await;
    }
    let last = rig.head().to_string();
    let mut seen = before.0;
    loop {
        let line = stream.next().await.unwrap();
        if line["type"] == "PROGRESS" {
            continue;
        }
        let revision: u64 = text(&line, "/revision").parse().unwrap();
        assert_eq!(revision, seen + 1);
        seen = revision;
        if revision.to_string() == last {
            break;
        }
    }
}

#[tokio::test]
async fn stream_and_history_include_custom_kinds() {
    let rig = Rig::new().await;
    let before = rig.head();
    let class = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "c"},
        "driver": "d", "deletionPolicy": "Delete",
    });
    let url = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
    rig.post(url, class).await.expect(201);
    let want = "ADDED volumesnapshotclasses.snapshot.storage.k8s.io c".to_owned();
    assert!(short_lines(&rig, "stream?follow=false&resource=volumesnapshotclasses").await.contains(&want));
    assert!(short_lines(&rig, &format!("stream?follow=false&from={before}")).await.contains(&want));
    let history = rig.get(&format!("{ROOT}/volumesnapshotclasses/c/history")).await.expect(200).json();
    assert_eq!(text(&history, "/items/0/object/driver"), "d");
}

#[tokio::test]
async fn timeline_lists_changes_in_pages() {
    let rig = Rig::new().await;
    let before = rig.head().to_string();
    let [made, changed, gone] = story(&rig).await;
    let all = lines(&rig, &format!("timeline?after={before}")).await;
    let ours: Vec<String> = all
        .iter()
        .map(|line| format!("{} {} {} {}", line["type"], line["revision"], line["name"], line["time"]))
        .collect();
    let line = |ty: &str, revision: &str, time: &str| {
        format!("\"{ty}\" \"{revision}\" \"one\" \"2026-01-01T{time}.000Z\"")
    };
    let want = [
        line("ADDED", &made, "12:00:00"),
        line("MODIFIED", &changed, "12:01:00"),
        line("DELETED", &gone, "12:02:00"),
    ];
    assert_eq!(ours[..3], want);
    assert_eq!(short(&all[3]), format!("PROGRESS {gone}"));
    let history =
        rig.get(&format!("{ROOT}/namespaces/default/configmaps/one/history")).await.expect(200).json();
    for line in &all[..3] {
        assert_eq!(line["uid"], history["object"]["uid"]);
        assert_eq!((&line["resource"], &line["namespace"]), (&json!("configmaps"), &json!("default")));
        assert_eq!(line.get("object"), None);
    }
    // In pages, from the beginning.
    let (mut after, mut count) = ("0".to_owned(), 0);
    loop {
        let page = lines(&rig, &format!("timeline?limit=2&after={after}")).await;
        after = text(page.last().unwrap(), "/revision");
        assert!(page.len() <= 3);
        if page.len() == 1 {
            break;
        }
        count += page.len() - 1;
    }
    assert_eq!((after, count), (gone, lines(&rig, "timeline").await.len() - 1));
    assert_eq!(
        lines(&rig, "timeline?resource=configmaps").await.iter().filter(|line| line["name"] == "one").count(),
        3
    );
}

#[tokio::test]
async fn secret_values_are_never_sent() {
    let rig = Rig::new().await;
    let url = "/api/v1/namespaces/default/secrets";
    let before = rig.head().to_string();
    // "hidden-one" and "hidden-two" in base64, and again in the annotation of `kubectl apply`.
    let secret = json!({
        "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "aGlkZGVuLW9uZQ=="}},
        "data": {"password": "aGlkZGVuLW9uZQ=="},
    });
    rig.post(url, secret).await.expect(201);
    let made = rig.head().to_string();
    let body = json!({"data": {"password": "aGlkZGVuLXR3bw==", "more": "aGlkZGVuLW9uZQ=="}});
    rig.patch(&format!("{url}/s"), "merge", body).await.expect(200);
    let object = format!("{ROOT}/namespaces/default/secrets/s");
    for (path, names_it) in [
        (format!("{object}/history"), true),
        (format!("{object}/history?objects=true"), true),
        (format!("{object}/diff?from={before}"), true),
        (format!("{object}/diff?from={made}"), true),
        (format!("{ROOT}/stream?follow=false"), true),
        (format!("{ROOT}/stream?follow=false&managedFields=true"), true),
        (format!("{ROOT}/stream?from={before}&follow=false"), true),
        (format!("{ROOT}/capture"), true),
        (format!("{ROOT}/timeline"), false),
    ] {
        let answer = rig.get(&path).await.expect(200).text();
        assert!(!answer.contains("aGlkZGVu"), "{path}: {answer}");
        assert_eq!(answer.contains("password"), names_it, "{path}: {answer}");
    }
    let changed = rig.head().to_string();
    rig.delete(&format!("{url}/s"), Value::Null).await.expect(200);
    let back = rig.post(&format!("{object}/undelete?dryRun=All"), json!({})).await.expect(200).text();
    let gone = rig.get(&format!("{object}/diff?from={made}")).await.expect(200).text();
    for answer in [back, gone] {
        assert!(answer.contains("password") && answer.contains("last-applied"), "{answer}");
        assert!(!answer.contains("aGlkZGVu"), "{answer}");
    }
    let diff = rig.get(&format!("{object}/diff?from={made}&to={changed}")).await.expect(200).json();
    let want = json!([
        {"path": ["data", "more"], "op": "add", "to": ""},
        {"path": ["data", "password"], "op": "replace", "from": "", "to": ""},
    ]);
    assert_eq!(diff["changes"], want);
}

#[tokio::test]
async fn capture_contains_the_state_and_the_changes() {
    let rig = Rig::new().await;
    let [made, _, gone] = story(&rig).await;
    let answer = rig.get(&format!("{ROOT}/capture?resource=configmaps")).await.expect(200);
    assert!(answer.header("content-disposition").contains("orlop-20260101T120200Z.capture"));
    let whole: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((short(&whole[0]), text(&whole[0], "/until")), ("HEADER 0".into(), gone.clone()));
    assert_eq!(short(&whole[1]), "SYNCED 0");
    assert_eq!(short(whole.last().unwrap()), format!("PROGRESS {gone}"));
    assert_eq!(whole.iter().filter(|line| line["object"]["metadata"]["name"] == "one").count(), 3);
    let part = short_lines(&rig, &format!("capture?resource=configmaps&from={made}&until={gone}")).await;
    let synced = format!("SYNCED {made}");
    let want = [&synced, "MODIFIED configmaps one", "DELETED configmaps one", &format!("PROGRESS {gone}")];
    assert_eq!(part[part.len() - 4..], want);
    let nothing = short_lines(&rig, &format!("capture?resource=configmaps&from={gone}")).await;
    assert_eq!(nothing.last(), Some(&format!("PROGRESS {gone}")), "{nothing:?}");
}

#[tokio::test]
async fn chunks_stay_small_for_large_events() {
    let rig = Rig::new().await;
    let before = rig.head();
    const SIZE: usize = 100_000;
    rig.config_map("one", json!({})).await;
    for n in 0..20 {
        let body = json!({"data": {"n": n.to_string(), "x": "x".repeat(SIZE)}});
        rig.patch(&format!("{CONFIG_MAPS}/one"), "merge", body).await.expect(200);
    }
    let last = rig.head();
    for path in [
        format!("stream?resource=configmaps&from={before}&until={last}"),
        format!("stream?resource=configmaps&from={before}"),
        format!("capture?resource=configmaps&from={before}&until={last}"),
    ] {
        let response = rig.raw("GET", &format!("{ROOT}/{path}"), &[], axum::body::Body::empty()).await;
        let mut body = response.into_body().into_data_stream();
        let (mut all, end) = (Vec::new(), format!("\"revision\":\"{last}\""));
        loop {
            let piece = futures::StreamExt::next(&mut body).await.unwrap().unwrap();
            assert!(piece.len() < 64 * 1024 + SIZE + 4096, "{path}: {}", piece.len());
            all.extend_from_slice(&piece);
            if String::from_utf8_lossy(&piece).contains(&end) && all.ends_with(b"\n") && all.len() > 20 * SIZE
            {
                break;
            }
        }
        let output = String::from_utf8(all).unwrap();
        assert_eq!(output.lines().filter(|line| line.contains("\"MODIFIED\"")).count(), 20, "{path}");
    }
}

#[tokio::test]
async fn open_streams_are_counted_as_watches() {
    let rig = Rig::new().await;
    let counted = async |want: &str| {
        let metrics = rig.get("/metrics").await.text();
        let line =
            "apiserver_longrunning_requests{component=\"apiserver\",group=\"orlop.dev\",resource=\"stream\"";
        metrics.lines().any(|text| text.starts_with(line) && text.ends_with(want))
    };
    let paths = ["stream", "stream/", "%73tream"].map(|path| format!("{ROOT}/{path}"));
    let mut streams = Vec::new();
    for path in &paths {
        let mut stream = rig.watch(path).await;
        assert!(next(&mut stream).await.starts_with("HEADER"), "{path}");
        streams.push(stream);
    }
    rig.get(&format!("{ROOT}/stream?follow=false")).await.expect(200);
    assert!(counted(" 3").await);
    drop(streams);
    assert!(counted(" 0").await);
}
