//! Paged lists: every page shows the same revision, whatever is written in the meantime.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::rig::{CONFIG_MAPS, Rig, text, version};

#[tokio::test]
async fn all_pages_show_the_revision_of_the_first() {
    let rig = Rig::new().await;
    for n in 0..7 {
        rig.config_map(&format!("c{n}"), json!({"half": (n % 2).to_string()})).await;
    }
    let whole = rig.get(CONFIG_MAPS).await.names();
    for (selector, want) in [
        ("", whole.clone()),
        ("&labelSelector=half%3D0", vec!["c0".into(), "c2".into(), "c4".into(), "c6".into()]),
    ] {
        for limit in 1..9 {
            let mut names = Vec::new();
            let mut token = String::new();
            let mut first = None;
            loop {
                let page = rig
                    .get(&format!("{CONFIG_MAPS}?limit={limit}{selector}&continue={token}"))
                    .await
                    .expect(200);
                let json = page.json();
                let revision = first.get_or_insert_with(|| version(&json)).clone();
                assert_eq!(version(&json), revision, "every page tells the version of the first");
                names.extend(page.names());
                token = text(&json, "/metadata/continue");
                let left = json["metadata"].get("remainingItemCount").and_then(serde_json::Value::as_u64);
                let known = selector.is_empty() && !token.is_empty();
                assert_eq!(left, known.then(|| (want.len() - names.len()) as u64), "limit {limit}");
                // Writes between the pages do not affect them.
                rig.patch(
                    &format!("{CONFIG_MAPS}/c6"),
                    "merge",
                    json!({"data": {"n": names.len().to_string()}}),
                )
                .await
                .expect(200);
                let extra = format!("{CONFIG_MAPS}/c5x");
                if rig.get(&extra).await.code == 200 {
                    rig.delete(&extra, json!(null)).await.expect(200);
                } else {
                    rig.config_map("c5x", json!({"half": "0"})).await;
                }
                if token.is_empty() {
                    break;
                }
            }
            let extra = format!("{CONFIG_MAPS}/c5x");
            if rig.get(&extra).await.code == 200 {
                rig.delete(&extra, json!(null)).await.expect(200);
            }
            assert_eq!(names, want, "limit {limit} {selector}");
        }
    }
}

#[tokio::test]
async fn expired_continue_token_is_replaced_by_a_fresh_one() {
    let rig = Rig::new().await;
    for n in 0..4 {
        rig.config_map(&format!("c{n}"), json!({})).await;
    }
    let page = rig.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200).json();
    let token = text(&page, "/metadata/continue");
    rig.delete(&format!("{CONFIG_MAPS}/c3"), json!(null)).await.expect(200);
    rig.config_map("c9", json!({})).await;
    rig.compact().await;
    let expired = rig.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(410);
    assert_eq!(expired.reason(), "Expired");
    let fresh = text(&expired.json(), "/metadata/continue");
    let rest = rig.get(&format!("{CONFIG_MAPS}?limit=2&continue={fresh}")).await.expect(200);
    assert_eq!(rest.names(), ["c2", "c9"], "the rest of what there is now");
    let zero =
        rig.get(&format!("{CONFIG_MAPS}?limit=1&resourceVersion=0&continue={fresh}")).await.expect(200);
    assert_eq!(zero.names(), ["c2", "c9"], "the token wins over the version 0, which knows no limit");
    rig.get(&format!("{CONFIG_MAPS}?limit=2&resourceVersion=5&continue={fresh}")).await.expect(400);
    let exact = format!("{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion=5&continue={fresh}");
    rig.get(&exact).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn continue_tokens_from_clients_are_validated() {
    let rig = Rig::new().await;
    for n in 0..3 {
        rig.config_map(&format!("c{n}"), json!({})).await;
    }
    rig.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.expect(201);
    let head = rig.head().0;
    let start = |start: &str| json!({"v": "meta.k8s.io/v1", "rv": head, "start": start});
    for (case, token, want) in [
        ("1 a good one", start("/c1"), Ok(vec!["c1", "c2"])),
        ("2 without a slash", start("c2"), Ok(vec!["c2"])),
        ("3 behind everything", start("/zzz"), Ok(vec![])),
        ("4 out of the collection", start("/../../secrets/default/"), Err(400)),
        ("5 no start", start(""), Err(400)),
        ("6 no version", json!({"rv": head, "start": "/a"}), Err(400)),
        ("7 no revision", json!({"v": "meta.k8s.io/v1", "start": "/a"}), Err(400)),
        ("8 the newest state", json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "/c2"}), Ok(vec!["c2"])),
        ("9 from the future", json!({"v": "meta.k8s.io/v1", "rv": head + 100, "start": "/a"}), Err(504)),
        ("10 not an object", json!([1]), Err(400)),
        ("11 odd bytes", start("/\u{0}\u{10ffff}"), Ok(vec!["c0", "c1", "c2"])),
    ] {
        let token = URL_SAFE_NO_PAD.encode(token.to_string());
        let answer = rig.get(&format!("{CONFIG_MAPS}?continue={token}")).await;
        let got = if answer.code == 200 { Ok(answer.names()) } else { Err(answer.code) };
        assert_eq!(got, want.map(|names| names.into_iter().map(str::to_owned).collect()), "{case}");
    }
    for token in ["%21", "aaa", "e30", "====", "%00"] {
        rig.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(400);
    }
    for (token, why) in [
        ("YQ==".to_owned(), "illegal base64 data at input byte 2"),
        ("a".to_owned(), "illegal base64 data at input byte 0"),
        (URL_SAFE_NO_PAD.encode("{\"v\""), "unexpected end of JSON input"),
        (URL_SAFE_NO_PAD.encode([0x9e]), "invalid character '\\u009e' looking for beginning of value"),
        (
            URL_SAFE_NO_PAD.encode("[]"),
            "json: cannot unmarshal array into Go value of type storage.continueToken",
        ),
        (
            URL_SAFE_NO_PAD.encode("{\"v\":\"meta.k8s.io/v1\",\"rv\":\"5\"}"),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
    ] {
        let refused = rig.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(400).json();
        let want = format!("invalid continue token: continue key is not valid: {why}");
        assert_eq!(text(&refused, "/message"), want, "{token}");
    }
    for query in ["limit=x", "timeoutSeconds=x", "watch=1&limit=x"] {
        rig.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(400);
    }
}

#[tokio::test]
async fn page_of_large_objects_ends_before_its_limit() {
    let rig = Rig::new().await;
    let text_of = "x".repeat(1 << 20);
    for n in 0..20 {
        let body = json!({"metadata": {"name": format!("c{n:02}")}, "data": {"k": text_of}});
        rig.post(CONFIG_MAPS, body).await.expect(201);
    }
    let first = rig.get(&format!("{CONFIG_MAPS}?limit=500")).await.expect(200);
    let token = text(&first.json(), "/metadata/continue");
    assert_eq!((first.names().len(), &first.json()["metadata"]["remainingItemCount"]), (16, &json!(4)));
    let second = rig.get(&format!("{CONFIG_MAPS}?limit=500&continue={token}")).await.expect(200);
    assert_eq!(second.names(), ["c16", "c17", "c18", "c19"]);
    assert_eq!(
        rig.get(CONFIG_MAPS).await.expect(200).names().len(),
        20,
        "a list without a limit is complete"
    );
}
