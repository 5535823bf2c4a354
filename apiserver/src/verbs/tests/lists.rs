//! GET on items and collections: resource versions, formats, layout.

use axum::body::Body;
use serde_json::json;

use super::rig::{CONFIG_MAPS, Rig, text, version};

/// resourceVersion and resourceVersionMatch, as in upstream's table.
#[tokio::test(start_paused = true)]
async fn resource_versions_follow_upstreams_table() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let old = rig.head();
    rig.config_map("b", json!({})).await;
    rig.config_map("c", json!({})).await;
    let head = rig.head();
    let future = head.0 + 1000;
    let exact = "resourceVersionMatch=Exact";
    let not_older = "resourceVersionMatch=NotOlderThan";
    for (case, query, want) in [
        ("1 nothing", String::new(), Ok((3, head.0))),
        ("2 zero", "resourceVersion=0".into(), Ok((3, head.0))),
        ("3 zero knows no pages", "resourceVersion=0&limit=1".into(), Ok((3, head.0))),
        ("4 at least", format!("resourceVersion={old}"), Ok((3, head.0))),
        ("5 a page is exact", format!("resourceVersion={old}&limit=5"), Ok((1, old.0))),
        ("6 at least, with a page", format!("resourceVersion={old}&{not_older}&limit=2"), Ok((2, head.0))),
        ("7 at least zero", format!("resourceVersion=0&{not_older}&limit=2"), Ok((3, head.0))),
        ("8 exact", format!("resourceVersion={old}&{exact}"), Ok((1, old.0))),
        ("9 exact without a version", exact.into(), Err(422)),
        ("10 exact zero", format!("resourceVersion=0&{exact}"), Err(422)),
        ("11 at least without a version", not_older.into(), Err(422)),
        ("12 no such match", format!("resourceVersion={old}&resourceVersionMatch=Like"), Err(422)),
        ("13 not a number", "resourceVersion=abc".into(), Err(400)),
        ("14 the future", format!("resourceVersion={future}"), Err(504)),
        ("15 exactly the future", format!("resourceVersion={future}&{exact}"), Err(504)),
        ("16 for watches alone", "sendInitialEvents=true".into(), Err(422)),
        ("17 a bad limit", "limit=abc".into(), Err(400)),
        ("18 a limit below zero", "limit=-1".into(), Ok((3, head.0))),
        ("19 the largest of limits", "limit=9223372036854775807".into(), Ok((3, head.0))),
        ("20 the largest of versions", "resourceVersion=18446744073709551615".into(), Err(504)),
    ] {
        let answer = rig.get(&format!("{CONFIG_MAPS}?{query}")).await;
        let got = if answer.code == 200 {
            Ok((answer.names().len(), version(&answer.json()).parse::<u64>().unwrap()))
        } else {
            Err(answer.code)
        };
        assert_eq!(got, want, "{case}: {}", answer.text());
    }
    rig.compact().await;
    let expired = rig.get(&format!("{CONFIG_MAPS}?resourceVersion={old}&{exact}")).await.expect(410);
    assert_eq!(expired.reason(), "Expired");
    rig.get(&format!("{CONFIG_MAPS}?resourceVersion={old}")).await.expect(200);

    for (query, code) in [
        (format!("resourceVersion={head}"), 200),
        (format!("resourceVersion={future}"), 504),
        ("resourceVersion=x".into(), 500),
        ("export=1".into(), 400),
        ("watch=1".into(), 200),
    ] {
        rig.get(&format!("{CONFIG_MAPS}/a?{query}")).await.expect(code);
    }
}

#[tokio::test(start_paused = true)]
async fn list_waits_for_a_future_revision() {
    let rig = Rig::new().await;
    let next = rig.head().0 + 1;
    let target = format!("{CONFIG_MAPS}?resourceVersion={next}");
    let later = async {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        rig.config_map("a", json!({})).await;
    };
    let (list, ()) = tokio::join!(rig.get(&target), later);
    assert_eq!(list.expect(200).names(), ["a"]);
}

#[tokio::test]
async fn lists_are_sorted_and_limited_to_their_scope() {
    let rig = Rig::new().await;
    for namespace in ["b", "a"] {
        rig.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await.expect(201);
        for name in ["z", "m.1", "m", "m-1"] {
            let target = format!("/api/v1/namespaces/{namespace}/configmaps");
            rig.post(&target, json!({"metadata": {"name": name}})).await.expect(201);
        }
    }
    assert_eq!(rig.get("/api/v1/namespaces/a/configmaps/").await.names(), ["m", "m-1", "m.1", "z"]);
    let all = rig.get("/api/v1/configmaps").await;
    assert_eq!(all.names(), ["m", "m-1", "m.1", "z", "m", "m-1", "m.1", "z"]);
    let nowhere = rig.get("/api/v1/namespaces/none/configmaps").await.expect(200);
    assert!(nowhere.text().contains("\"items\":[]"), "{}", nowhere.text());
    for (query, want) in [
        ("metadata.name%3Dm", vec!["m", "m"]),
        ("metadata.name%3Dm,metadata.namespace%3Da", vec!["m"]),
        ("metadata.name%3Dnone", vec![]),
        ("metadata.namespace%21%3Da,metadata.name%3Dz", vec!["z"]),
    ] {
        assert_eq!(
            rig.get(&format!("/api/v1/configmaps?fieldSelector={query}")).await.names(),
            want,
            "{query}"
        );
    }
    let one = rig.get("/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dm&limit=1").await;
    assert_eq!(one.names(), ["m"]);
    assert!(one.json()["metadata"].get("continue").is_none());
}

/// YAML output quotes strings that would otherwise be parsed as another type.
#[tokio::test]
async fn yaml_quotes_ambiguous_strings() {
    let rig = Rig::new().await;
    let odd = [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "true",
        "null",
        "~",
        "",
        "1",
        "1.5",
        "0x1f",
        "010",
        "1_000",
        "1e3",
        "1:30",
        ".inf",
        "2026-01-01",
        "- a",
        "a: b",
        "a #b",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "<<",
        "=",
        "|",
        " lead",
        "trail ",
        "line\nline\n",
        "\n",
        "tab\there",
        "\"q\"",
        "'q'",
        "é",
        "\u{85}",
        "\u{2028}",
        "{}",
        "[]",
        "a line that is longer than eighty characters, so that it would be folded into several lines of a block",
        "  indented\n more\nless",
    ];
    let values: serde_json::Map<String, serde_json::Value> =
        odd.iter().enumerate().map(|(n, text)| (format!("v{n}"), (*text).into())).collect();
    let keys: serde_json::Map<String, serde_json::Value> =
        ["yes", "n", "null", "1", "1e3", "0x1f", "true", "2026-01-01"]
            .iter()
            .map(|key| ((*key).to_owned(), "x".into()))
            .collect();
    let body = json!({"metadata": {"name": "a", "annotations": values}, "data": keys});
    let made = rig.post(CONFIG_MAPS, body).await.expect(201).json();
    let target = format!("{CONFIG_MAPS}/a");
    let yaml = rig.get_as(&target, "application/yaml").await.expect(200);
    for quoted in ["v0: \"yes\"", "\"yes\":", "\"n\":", "\"null\":", "\"1\":"] {
        let single = quoted.replace('"', "'");
        assert!(yaml.text().contains(quoted) || yaml.text().contains(&single), "{quoted}:\n{}", yaml.text());
    }
    // The YAML output is the same object, so writing it back stores nothing.
    let before = rig.head();
    let headers = [("content-type", "application/yaml")];
    let put = rig.send("PUT", &target, &headers, Body::from(yaml.bytes)).await.expect(200).json();
    assert_eq!(put, made);
    assert_eq!(rig.head(), before);
}

#[tokio::test]
async fn layout_and_compression_follow_client_and_size() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let plain = rig.get(CONFIG_MAPS).await;
    assert!(plain.text().ends_with("}\n") && plain.text().lines().count() == 1);
    let pretty = rig.get(&format!("{CONFIG_MAPS}?pretty=true")).await;
    assert!(pretty.text().starts_with("{\n  \"kind\": \"ConfigMapList\",\n  \"apiVersion\": \"v1\",\n"));
    assert_eq!(pretty.json(), plain.json());
    let curl = [("user-agent", "curl/8"), ("accept-encoding", "gzip, br")];
    let small = rig.send("GET", CONFIG_MAPS, &curl, Body::empty()).await;
    assert_eq!((small.header("content-encoding"), small.text()), ("", pretty.text()));

    // More than 128 KiB, with and without the chunks of very long lists.
    let filler = "x".repeat(100_000);
    for n in 0..3 {
        let body = json!({"metadata": {"name": format!("b{n}")}, "data": {"x": filler}});
        rig.post(CONFIG_MAPS, body).await.expect(201);
    }
    let whole = rig.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(whole.names(), ["a", "b0", "b1", "b2"]);
    assert_eq!(whole.header("content-encoding"), "");
    for query in ["", "?pretty=true"] {
        let target = format!("{CONFIG_MAPS}{query}");
        let gzip = rig.send("GET", &target, &[("accept-encoding", "gzip")], Body::empty()).await;
        assert_eq!(gzip.header("content-encoding"), "gzip", "{query}");
        assert!(gzip.header("vary").to_lowercase().contains("accept-encoding"), "{query}");
        assert!(gzip.bytes.len() < 20_000, "{query}");
    }
    let watch = rig.raw("GET", &format!("{CONFIG_MAPS}?watch=1"), &curl, Body::empty()).await;
    assert!(watch.headers().get("content-encoding").is_none(), "a watch is never compressed");
}

#[tokio::test]
async fn string_data_of_secrets_is_stored_as_data() {
    let rig = Rig::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let body = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "type": "x.y/z"});
    let made = rig.post(secrets, body).await.expect(201).json();
    assert_eq!(made["data"], json!({"a": "Yg=="}));
    assert!(made.get("stringData").is_none(), "what is given in plain is not kept in plain");
    let selected = rig.get(&format!("{secrets}?fieldSelector=type%3Dx.y/z")).await;
    assert_eq!(text(&selected.json()["items"][0], "/metadata/name"), "s");
}
