//! Replay of captures: another server reports the state and history that one server recorded.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use orlop_store::Kv;
use orlop_store::memory::{Memory, MemoryOptions};
use serde_json::{Value, json};

use super::rig::{CONFIG_MAPS, Rig, text, version};
use crate::insight::replay::{HeldClock, ReplayError, Replayed, Until, replay};
use crate::projection::Projection;

const ROOT: &str = "/apis/orlop.dev/v1";

/// A store with the contents of a capture, up to a revision or time.
async fn replayed(
    capture: &str,
    until: Option<Until>,
) -> (Arc<dyn Kv<Projection>>, Result<Replayed, ReplayError>) {
    let clock = Arc::new(HeldClock::default());
    let options = MemoryOptions { clock: clock.clone(), ..MemoryOptions::default() };
    let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::with(options));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(capture.as_bytes()).unwrap();
    let result = replay(&*store, &clock, file.path(), until).await;
    (store, result)
}

/// A history without revisions: types, times and changes.
fn without_revisions(history: &Value) -> Vec<Value> {
    let items = history["items"].as_array().unwrap();
    items.iter().map(|item| json!([item["type"], item["time"], item["changes"], item["uid"]])).collect()
}

/// Creates a definition, one of its objects, a service, a secret, and a config map that is changed, deleted and
/// recreated.
async fn story(rig: &Rig) {
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    rig.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "size": 3});
    while rig.post(things, thing.clone()).await.code != 201 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    rig.post("/api/v1/namespaces/default/services", service).await.expect(201);
    rig.advance(Duration::from_secs(60));
    rig.config_map("one", json!({})).await;
    rig.advance(Duration::from_secs(60));
    let url = format!("{CONFIG_MAPS}/one");
    rig.patch(&url, "merge", json!({"data": {"n": "1"}})).await.expect(200);
    rig.advance(Duration::from_millis(1500));
    rig.delete(&url, Value::Null).await.expect(200);
    rig.config_map("one", json!({})).await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"password": "aGlkZGVuLW9uZQ=="}});
    rig.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
}

/// The objects and histories that must be equal on both sides.
async fn compared(rig: &Rig) -> Vec<Value> {
    let mut found = Vec::new();
    for path in
        ["namespaces/default/configmaps/one", "namespaces/default/things/t", "namespaces/default/services/s"]
    {
        found.push(json!(without_revisions(
            &rig.get(&format!("{ROOT}/{path}/history")).await.expect(200).json()
        )));
    }
    for path in [
        format!("{CONFIG_MAPS}/one"),
        "/apis/example.com/v1/namespaces/default/things/t".to_owned(),
        "/api/v1/namespaces/default/services/s".to_owned(),
    ] {
        let mut object = rig.get(&path).await.expect(200).json();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        found.push(object);
    }
    found
}

#[tokio::test]
async fn replayed_capture_restores_objects_and_history() {
    let rig = Rig::new().await;
    story(&rig).await;
    let capture = rig.get(&format!("{ROOT}/capture?managedFields=true")).await.expect(200).text();
    let (store, result) = replayed(&capture, None).await;
    let done = result.unwrap();
    assert_eq!((done.reached, done.secrets, done.broken_off), (rig.head().0, 1, None));
    let again = Rig::on(store).await;
    assert_eq!(compared(&again).await, compared(&rig).await);
    let secret = again.get("/api/v1/namespaces/default/secrets/s").await.expect(200).json();
    assert_eq!(secret["data"], json!({"password": ""}));
    // Times are resolved to revisions in the replayed history as well.
    let then = "namespaces/default/configmaps/one/diff?from=2026-01-01T12:01:30Z&to=2026-01-01T12:02:00.500Z";
    let diff = again.get(&format!("{ROOT}/{then}")).await.expect(200).json();
    assert_eq!(diff["changes"], json!([{"path": ["data", "n"], "op": "replace", "from": "0", "to": "1"}]));
    // The service owns its cluster IP again, and new writes have the current time.
    let mut service = again.get("/api/v1/namespaces/default/services/s").await.expect(200).json();
    service["metadata"] = json!({"name": "thief"});
    again.post("/api/v1/namespaces/default/services", service).await.expect(422);
    again.config_map("late", json!({})).await;
    let late =
        again.get(&format!("{ROOT}/namespaces/default/configmaps/late/history")).await.expect(200).json();
    assert!(text(&late, "/items/0/time").as_str() > "2026-01-02", "{late}");

    // A second replay fails because the store is not empty.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(capture.as_bytes()).unwrap();
    let error = replay(&*again.store, &HeldClock::default(), file.path(), None).await.unwrap_err();
    assert!(matches!(error, ReplayError::NotEmpty(_)) && error.to_string().contains("--data-dir"), "{error}");
}

#[tokio::test]
async fn replay_stops_at_a_revision_or_time() {
    let rig = Rig::new().await;
    rig.config_map("one", json!({})).await;
    let made = rig.head();
    rig.advance(Duration::from_secs(60));
    rig.patch(&format!("{CONFIG_MAPS}/one"), "merge", json!({"data": {"n": "1"}})).await.expect(200);
    let changed = rig.head();
    rig.advance(Duration::from_secs(60));
    rig.delete(&format!("{CONFIG_MAPS}/one"), Value::Null).await.expect(200);
    let whole = rig.get(&format!("{ROOT}/capture")).await.expect(200).text();
    let late = rig.get(&format!("{ROOT}/capture?from={changed}")).await.expect(200).text();
    for (case, file, until, wanted) in [
        ("1 a revision", &whole, made.to_string(), Ok(Some("0"))),
        ("2 the next one", &whole, changed.to_string(), Ok(Some("1"))),
        ("3 a time", &whole, "2026-01-01T12:00:30Z".to_owned(), Ok(Some("0"))),
        ("4 the very millisecond", &whole, "2026-01-01T12:01:00Z".to_owned(), Ok(Some("1"))),
        ("5 after all", &whole, "2027-01-01T12:01:00Z".to_owned(), Ok(None)),
        ("6 the end", &whole, rig.head().to_string(), Ok(None)),
        ("7 behind the end", &whole, rig.head().next().to_string(), Err("it ends at revision")),
        ("8 before the beginning", &late, made.to_string(), Err("later than what --at asks for")),
        (
            "9 a time before it",
            &late,
            "2026-01-01T12:00:30Z".to_owned(),
            Err("later than what --at asks for"),
        ),
        ("10 the beginning", &late, changed.to_string(), Ok(Some("1"))),
    ] {
        let (store, result) = replayed(file, Some(until.parse().unwrap())).await;
        match wanted {
            Err(words) => assert!(result.unwrap_err().to_string().contains(words), "{case}"),
            Ok(n) => {
                result.unwrap();
                let found = store.head();
                let found = found.get("/registry/configmaps/default/one");
                let found = found.map(|record| serde_json::from_slice::<Value>(&record.value).unwrap());
                assert_eq!(found.as_ref().and_then(|object| object["data"]["n"].as_str()), n, "{case}");
            }
        }
    }
    for text in ["", "x", "-1", "99999999999999999999", "2026-01-01"] {
        text.parse::<Until>().unwrap_err();
    }
}

#[tokio::test]
async fn damaged_capture_is_reported_with_its_line() {
    let rig = Rig::new().await;
    let made = rig.config_map("one", json!({})).await;
    let capture = rig.get(&format!("{ROOT}/capture?from={}&resource=configmaps", version(&made))).await;
    let capture = capture.expect(200).text();
    let lines: Vec<&str> = capture.lines().collect();
    let [header, added, synced, _] = lines[..] else { panic!("{capture}") };
    let modified = |revision: u64| {
        added.replace("\"ADDED\"", "\"MODIFIED\"").replacen(&version(&made), &revision.to_string(), 1)
    };
    let (next, later) = (rig.head().0 + 1, rig.head().0 + 2);
    for (case, lines, wanted) in [
        ("1 no capture", vec!["x"], "line 1: this is no capture"),
        ("2 no header", vec![added, synced], "line 1: this is no capture"),
        (
            "3 another form",
            vec![r#"{"type":"HEADER","format":"other.9","revision":"1"}"#],
            "line 1: the format is \"other.9\"",
        ),
        ("4 cut within a line", vec![header, &added[..added.len() - 9], synced], "line 2: it is damaged"),
        ("4b cut in the middle of the state", vec![header, &added[..40]], "ends before the state"),
        ("5 no end of the state", vec![header, added], "ends before the state"),
        ("6 nothing at all", vec![], "ends before the state"),
        (
            "7 no such kind",
            vec![header, &added.replace("configmaps", "things.example.com"), synced],
            "line 2: this server has no things.example.com",
        ),
        (
            "8 no name",
            vec![header, &added.replace("\"name\":\"one\"", "\"name\":\"\""), synced],
            "line 2: \"default\" and \"\" name no object",
        ),
        (
            "9 a name that leads elsewhere",
            vec![header, &added.replace("\"name\":\"one\"", "\"name\":\"a/b\""), synced],
            "line 2: \"default\" and \"a/b\" name no object",
        ),
        (
            "10 no uid",
            vec![header, &added.replace("\"uid\":", "\"other\":"), synced],
            "line 2: configmaps one has no uid",
        ),
        ("11 twice", vec![header, added, added, synced], "is ADDED, and is there already"),
        (
            "12 a change of nothing",
            vec![header, synced, &modified(next)],
            "line 3: configmaps one changes, and is not there",
        ),
        (
            "13 a change within the state",
            vec![header, &modified(next), synced],
            "line 2: the state at the beginning",
        ),
        (
            "14 out of order",
            vec![header, added, synced, &modified(later), &modified(next)],
            "line 5: revision",
        ),
        (
            "15 no type",
            vec![header, added, synced, r#"{"type":"ODD","revision":"1"}"#],
            "line 4: \"ODD\" is no type",
        ),
        ("16 no revision", vec![header, added, r#"{"type":"SYNCED"}"#], "line 3: it has no revision"),
        (
            "17 no time",
            vec![header, &added.replace("\"time\":", "\"when\":"), synced],
            "line 2: it has no time",
        ),
        (
            "18 no object",
            vec![
                header,
                r#"{"type":"ADDED","revision":"1","resource":"configmaps","time":"2026-01-01T12:00:00Z"}"#,
                synced,
            ],
            "line 2: it has no object",
        ),
        ("19 a second beginning", vec![header, synced, header], "line 3: a second beginning"),
        (
            "20 no state",
            vec![header, r#"{"type":"ERROR","code":410,"message":"gone"}"#],
            "line 2: the server had no state to begin with: gone",
        ),
    ] {
        let (_, result) = replayed(&lines.join("\n"), None).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(wanted), "{case}: {error}");
    }
    // A truncated capture is replayed and reported as such.
    let error = r#"{"type":"ERROR","code":410,"message":"too slow"}"#;
    let changed = modified(next);
    for (case, lines, wanted) in [
        ("21 broken off", vec![header, added, synced, &changed, error], Some("too slow")),
        ("22 a state alone", vec![header, added, synced], None),
        (
            "23 broken off in its last line",
            vec![header, added, synced, &changed, &modified(later)[..40]],
            Some("its last lines are missing"),
        ),
    ] {
        let (_, result) = replayed(&lines.join("\n"), None).await;
        assert_eq!(result.unwrap().broken_off.as_deref(), wanted, "{case}");
    }
    let longer = header.replace("\"until\":\"", "\"until\":\"9");
    let (_, result) = replayed(&[&longer, added, synced, &changed].join("\n"), None).await;
    assert_eq!(result.unwrap().broken_off.as_deref(), Some("its last lines are missing"));
}
