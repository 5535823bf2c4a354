//! History of objects: histories, differences, revisions and times, single objects at a revision; and the group
//! in discovery.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{CONFIG_MAPS, Rig, text, version};

const ROOT: &str = "/apis/orlop.dev/v1";
const ONE: &str = "/apis/orlop.dev/v1/namespaces/default/configmaps/one";

/// Creates, changes, deletes and recreates a config map, one minute apart; returns its revisions.
async fn story(rig: &Rig) -> Vec<String> {
    let url = format!("{CONFIG_MAPS}/one");
    let mut revisions = vec![version(&rig.config_map("one", json!({"a": "b"})).await)];
    rig.advance(Duration::from_secs(60));
    let painted = format!("{url}?fieldManager=painter");
    let patched = rig.patch(&painted, "merge", json!({"data": {"n": "1", "m": "2"}})).await;
    revisions.push(version(&patched.expect(200).json()));
    rig.advance(Duration::from_secs(60));
    rig.delete(&url, Value::Null).await.expect(200);
    revisions.push(rig.head().to_string());
    rig.advance(Duration::from_secs(60));
    revisions.push(version(&rig.config_map("one", json!({})).await));
    revisions
}

#[tokio::test]
async fn history_lists_changes_newest_first() {
    let rig = Rig::new().await;
    let revisions = story(&rig).await;
    let history = rig.get(&format!("{ONE}/history")).await.expect(200).json();
    assert_eq!((&history["kind"], &history["apiVersion"]), (&json!("History"), &json!("orlop.dev/v1")));
    assert_eq!(text(&history, "/object/resource"), "configmaps");
    let items = history["items"].as_array().unwrap();
    let got: Vec<String> =
        items.iter().map(|item| format!("{} {}", text(item, "/type"), text(item, "/revision"))).collect();
    let want = [
        format!("ADDED {}", revisions[3]),
        format!("DELETED {}", revisions[2]),
        format!("MODIFIED {}", revisions[1]),
        format!("ADDED {}", revisions[0]),
    ];
    assert_eq!(got, want);
    assert_ne!(items[0]["uid"], items[1]["uid"]);
    assert_eq!(items[1]["uid"], items[2]["uid"]);
    assert_eq!(items[0]["uid"], history["object"]["uid"]);
    let modified = &items[2];
    assert_eq!(
        (text(modified, "/manager"), text(modified, "/operation")),
        ("painter".into(), "Update".into())
    );
    let changes = json!([
        {"path": ["data", "m"], "op": "add", "to": "2"},
        {"path": ["data", "n"], "op": "replace", "from": "0", "to": "1"},
    ]);
    assert_eq!(modified["changes"], changes);
    assert_eq!((text(modified, "/time"), modified.get("object")), ("2026-01-01T12:01:00.000Z".into(), None));
    assert_eq!(items[1]["object"]["data"], json!({"n": "1", "m": "2"}));
    assert_eq!(items[3]["object"]["metadata"].get("managedFields"), None);

    // The same history in pages and with objects.
    let mut paged = Vec::new();
    let mut token = String::new();
    for _ in 0..items.len() {
        let page =
            rig.get(&format!("{ONE}/history?limit=1&objects=true&continue={token}")).await.expect(200).json();
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
        assert!(page["items"][0]["object"].is_object());
        paged.push(page["items"][0]["revision"].clone());
        token = text(&page, "/metadata/continue");
    }
    assert_eq!(token, "");
    assert_eq!(paged, items.iter().map(|item| item["revision"].clone()).collect::<Vec<_>>());

    // Compacted changes disappear; the remaining history begins with the whole object.
    rig.compact().await;
    let left = rig.get(&format!("{ONE}/history")).await.expect(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["object"]["data"], json!({"n": "0"}));
    assert_eq!(left["oldest"], rig.head().to_string());
}

#[tokio::test]
async fn histories_of_large_objects_are_paged() {
    let rig = Rig::new().await;
    rig.config_map("one", json!({})).await;
    for n in 0..11 {
        let body = json!({"data": {"n": n.to_string(), "x": "x".repeat(1_000_000)}});
        rig.patch(&format!("{CONFIG_MAPS}/one"), "merge", body).await.expect(200);
    }
    let (mut sizes, mut token) = (Vec::new(), String::new());
    loop {
        let page = rig.get(&format!("{ONE}/history?continue={token}")).await.expect(200).json();
        sizes.push(page["items"].as_array().unwrap().len());
        token = text(&page, "/metadata/continue");
        if token.is_empty() {
            break;
        }
    }
    // Two states per write, 16 MiB per page.
    assert_eq!(sizes, [8, 4]);
}

#[tokio::test]
async fn diff_compares_revisions_and_times() {
    let rig = Rig::new().await;
    let revisions = story(&rig).await;
    let diff = async |query: &str| rig.get(&format!("{ONE}/diff?{query}")).await;
    let [one, two, three, four] = [0, 1, 2, 3].map(|at: usize| revisions[at].as_str());
    let whole = diff(&format!("from={one}&to={two}")).await.expect(200).json();
    assert_eq!((&whole["kind"], whole["changes"].as_array().unwrap().len()), (&json!("Diff"), 2));
    assert_eq!(whole["from"]["written"], json!({"revision": one, "time": "2026-01-01T12:00:00.000Z"}));
    let gone = diff(&format!("from={two}&to={three}")).await.expect(200).json();
    assert_eq!(gone["to"], json!({"revision": three, "exists": false}));
    assert_eq!(gone["changes"][0], json!({"path": ["data"], "op": "remove", "from": {"n": "1", "m": "2"}}));
    // `to` defaults to now; times are accepted as well as revisions.
    let now = diff("from=2026-01-01T12:01:30Z").await.expect(200).json();
    assert_eq!(
        (text(&now, "/from/written/revision"), text(&now, "/to/written/revision")),
        (two.into(), four.into())
    );

    for (query, code) in [
        ("", 400),
        ("from=x", 400),
        ("from=99999999999999999999", 400),
        ("from=0&to=0", 404),
        ("from=2020-01-01T00:00:00Z&to=1", 404),
        // The object does not exist at revision 0 and exists now: a difference.
        ("from=0", 200),
    ] {
        diff(query).await.expect(code);
    }
}

#[tokio::test]
async fn compacted_revisions_are_expired() {
    let rig = Rig::new().await;
    let revisions = story(&rig).await;
    rig.compact().await;
    let head = rig.head();
    let old = &revisions[1];
    for path in [
        format!("{ONE}/diff?from={old}"),
        format!("{ROOT}/timeline?after={old}"),
        format!("{ROOT}/capture?from={old}"),
        format!("{ROOT}/revisions?at={old}"),
        format!("{ROOT}/revisions?at=2026-01-01T12:00:30Z"),
    ] {
        let answer = rig.get(&path).await.expect(410);
        assert_eq!(answer.reason(), "Expired", "{path}");
        assert!(text(&answer.json(), "/message").contains(&format!("is {head}")), "{}", answer.text());
    }
    for path in ["timeline", "capture", "revisions", "stream?follow=false"] {
        rig.get(&format!("{ROOT}/{path}")).await.expect(200);
    }
}

#[tokio::test]
async fn list_by_name_returns_the_object_at_a_revision() {
    let rig = Rig::new().await;
    let revisions = story(&rig).await;
    let exact = |revision: &str| {
        format!(
            "{CONFIG_MAPS}?fieldSelector=metadata.name%3Done&resourceVersion={revision}&resourceVersionMatch=Exact"
        )
    };
    for (revision, data) in [(&revisions[0], json!({"n": "0"})), (&revisions[1], json!({"n": "1", "m": "2"}))]
    {
        let list = rig.get(&exact(revision)).await.expect(200).json();
        let object = &list["items"][0];
        assert_eq!((&object["data"], version(object)), (&data, revision.clone()));
    }
    let gone = rig.get(&exact(&revisions[2])).await.expect(200).json();
    assert_eq!(gone["items"], json!([]));
    // As in upstream, a GET returns the newest version, whatever the match.
    for way in ["", "&resourceVersionMatch=Exact"] {
        let url = format!("{CONFIG_MAPS}/one?resourceVersion={}{way}", revisions[0]);
        let newest = rig.get(&url).await.expect(200).json();
        assert_eq!(version(&newest), revisions[3]);
    }
}

/// A name is one segment of a path and cannot contain another path.
#[tokio::test]
async fn names_that_contain_a_path_are_rejected() {
    let rig = Rig::new().await;
    for path in [
        "namespaces/default%2Fsecrets%2Ftop%3Fa=/configmaps/x",
        "namespaces/default/configmaps/..%2Fx",
        "persistentvolumes/%2e%2e",
        "persistentvolumes/a%25b",
    ] {
        for what in ["why", "history", "impact"] {
            let answer = rig.get(&format!("{ROOT}/{path}/{what}")).await.expect(400).json();
            assert!(text(&answer, "/message").contains("cannot be"), "{path}/{what}: {answer}");
        }
    }
}

#[tokio::test]
async fn times_are_resolved_to_revisions() {
    let rig = Rig::new().await;
    let revisions = story(&rig).await;
    for (at, want) in [
        ("2026-01-01T12:00:00Z", Some(&revisions[0])),
        ("2026-01-01T12:00:59.999Z", Some(&revisions[0])),
        ("2026-01-01T12:01:00Z", Some(&revisions[1])),
        ("2026-01-01T13:02:30%2B01:00", Some(&revisions[2])),
        // Clocks differ, so times up to one minute ahead are accepted.
        ("2026-01-01T12:03:59Z", Some(&revisions[3])),
        ("", Some(&revisions[3])),
        ("2020-01-01T00:00:00Z", None),
    ] {
        let document = rig.get(&format!("{ROOT}/revisions?at={at}")).await.expect(200).json();
        assert_eq!(text(&document, "/revision"), want.map_or("0", String::as_str), "{at}");
        assert_eq!(text(&document, "/newest/revision"), revisions[3], "{at}");
        assert_eq!(document["newest"]["time"], "2026-01-01T12:03:00.000Z");
        assert_eq!(document["oldest"], json!({"revision": "0"}));
    }
    for wrong in ["yesterday", "2026-01-01T12:04:01Z", "2030-01-01T00:00:00Z"] {
        rig.get(&format!("{ROOT}/revisions?at={wrong}")).await.expect(400);
    }
}

#[tokio::test]
async fn object_paths_are_resolved_or_rejected() {
    let rig = Rig::new().await;
    rig.config_map("one", json!({})).await;
    for (path, code, words) in [
        ("namespaces/default/history", 200, "\"Namespace\""),
        ("priorityclasses/system-node-critical/history", 200, "priorityclasses.scheduling.k8s.io"),
        ("priorityclasses.scheduling.k8s.io/system-node-critical/history", 200, "PriorityClass"),
        ("pc/system-node-critical/history", 200, "PriorityClass"),
        ("namespaces/default/cm/one/history", 200, "ConfigMap"),
        ("namespaces/default/configmaps/two/history", 404, "two"),
        ("configmaps/one/history", 400, "namespaces/NAMESPACE/configmaps/one"),
        ("namespaces/default/nodes/a/history", 400, "nodes/a"),
        ("namespaces/default/nothings/a/history", 404, "plural name"),
        ("nothings.example.com/a/history", 404, "nothings.example.com"),
        ("history", 404, "names no object"),
        ("a/b/c/d/e/diff", 404, "names no object"),
        ("namespaces/default/configmaps/one/magic", 404, "there is no"),
        ("namespaces/default/configmaps//history", 400, "empty"),
        ("namespaces/default/configmaps/a%2Fb/history", 400, "hold / or %"),
        ("namespaces/default/configmaps/one/history?limit=-1", 400, "limit"),
        ("namespaces/default/configmaps/one/history?continue=x", 400, "continue"),
    ] {
        let answer = rig.get(&format!("{ROOT}/{path}")).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.text());
        assert!(answer.text().contains(words), "{path}: {}", answer.text());
        assert!(code == 200 || answer.json()["kind"] == "Status", "{path}");
    }
    rig.post(&format!("{ONE}/history"), json!({})).await.expect(405);
}

#[tokio::test]
async fn own_group_is_listed_only_if_configured() {
    for lists in [true, false] {
        let rig = Rig::with(|config| config.lists_own_group = lists).await;
        let legacy = rig.get("/apis").await.expect(200).text();
        let new =
            rig.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").await;
        let index = rig.get("/openapi/v3").await.expect(200).text();
        for document in [legacy, new.expect(200).text(), index] {
            assert_eq!(document.contains("orlop.dev"), lists, "{document}");
        }
        let code = if lists { 200 } else { 404 };
        let group = rig.get("/apis/orlop.dev/v1").await.expect(code);
        assert_eq!(group.text().contains("\"timeline\""), lists);
        rig.get("/apis/orlop.dev").await.expect(code);
        let openapi = rig.get("/openapi/v3/apis/orlop.dev/v1").await.expect(code);
        assert_eq!(openapi.text().contains("{resource}/{name}/history"), lists);
        // The endpoints are served in any case.
        rig.get(&format!("{ROOT}/revisions")).await.expect(200);
    }
}
