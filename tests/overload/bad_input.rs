//! Invalid input, end to end: the server answers each with an error or closes the connection, and stays healthy.

use axum::http::Method;
use serde_json::json;

use super::raw::{PartialAnswer, Raw, get};
use super::{CONFIG_MAPS, server};
use crate::harness::http::Answer;
use crate::harness::plane::Plane;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const YAML: &[(&str, &str)] = &[("content-type", "application/yaml")];
const MERGE: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
const JSON_PATCH: &[(&str, &str)] = &[("content-type", "application/json-patch+json")];

async fn is_well(plane: &Plane, case: &str) {
    assert_eq!(plane.http().get("/healthz").await.text(), "ok", "after {case}");
}

async fn say(plane: &Plane, bytes: impl AsRef<[u8]>) -> PartialAnswer {
    let mut client = Raw::connect(plane).await;
    client.send(bytes).await;
    client.answer().await
}

#[tokio::test]
async fn invalid_request_heads_are_rejected() {
    let plane = server(&["--read-header-timeout", "1s"]).await;
    let with = |headers: &str| format!("GET /version HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let many: String = (0..101).map(|number| format!("x-{number}: y\r\n")).collect();
    let some: String = (0..60).map(|number| format!("x-{number}: y\r\n")).collect();
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(70_000));
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("1 an honest one", with("").into(), 200),
        ("2 many headers", with(&some).into(), 200),
        ("3 too many headers", with(&many).into(), 431),
        ("4 a header too large", with(&format!("x: {}\r\n", "y".repeat(200_000))).into(), 431),
        (
            "5 headers without end",
            format!("GET / HTTP/1.1\r\n{}", "x: yyyyyyyyyyyy\r\n".repeat(20_000)).into(),
            431,
        ),
        ("6 a path too long", long_path.into(), 414),
        ("7 no version", b"GET /version\r\n\r\n".to_vec(), 400),
        ("8 no method", b" /version HTTP/1.1\r\n\r\n".to_vec(), 400),
        ("9 a space before the colon", with("x : y\r\n").into(), 400),
        ("10 a folded header", with("x: y\r\n z: w\r\n").into(), 400),
        ("11 no name", with(": y\r\n").into(), 400),
        ("12 a zero byte", with("x: \0\r\n").into(), 400),
        ("13 TLS on a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), 400),
        ("14 another version", b"GET /version HTTP/3.7\r\nhost: localhost\r\n\r\n".to_vec(), 400),
        ("15 HTTP/1.0", b"GET /version HTTP/1.0\r\nhost: localhost\r\n\r\n".to_vec(), 200),
        ("16 HTTP/1.0 without a host", b"GET /version HTTP/1.0\r\n\r\n".to_vec(), 403),
        ("17 two hosts", with("host: evil.example\r\n").into(), 403),
        ("18 an unknown method", b"BREW /version HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), 405),
        ("19 a proxy is wanted", b"CONNECT localhost:22 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), 404),
        ("20 header bytes above ASCII", with("x: \u{fc}\r\n").into(), 200),
    ];
    for (case, bytes, want) in cases {
        let heard = say(&plane, bytes).await;
        assert_eq!(heard.code, want, "{case}: {}", heard.text);
        is_well(&plane, case).await;
    }
}

/// HTTP/1.0 connections are closed after the first answer.
#[tokio::test]
async fn http_1_0_connection_closes_after_its_answer() {
    let plane = server(&[]).await;
    let mut client = Raw::connect(&plane).await;
    client.send("GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    let heard = String::from_utf8(client.until_closed().await).unwrap();
    assert!(heard.starts_with("HTTP/1.0 200") && heard.ends_with("ok"), "{heard}");
}

/// Request smuggling: if a message has two possible readings, the server reads nothing after it.
#[tokio::test]
async fn ambiguous_requests_close_the_connection() {
    let plane = server(&["--read-header-timeout", "1s", "--request-timeout", "2s"]).await;
    let hidden = "GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let post = |headers: &str, body: &str| {
        format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
        )
    };
    let chunks = format!("0\r\n\r\n{hidden}");
    for (case, bytes) in [
        (
            "1 length and chunks",
            post(&format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", chunks.len()), &chunks),
        ),
        (
            "2 chunks and length",
            post(&format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", chunks.len()), &chunks),
        ),
        ("3 two lengths", post("content-length: 2\r\ncontent-length: 60\r\n", &format!("{{}}{hidden}"))),
        ("4 a length with a sign", post("content-length: +2\r\n", &format!("{{}}{hidden}"))),
        ("5 a list of lengths", post("content-length: 2, 60\r\n", &format!("{{}}{hidden}"))),
        ("6 a negative length", post("content-length: -1\r\n", hidden)),
        ("7 another coding last", post("transfer-encoding: chunked, identity\r\n", &chunks)),
        ("8 an unknown coding", post("transfer-encoding: xchunked\r\n", &chunks)),
        ("9 chunks without a length", post("transfer-encoding: chunked\r\n", &format!("x\r\n\r\n{hidden}"))),
        (
            "10 a chunk that is too long",
            post("transfer-encoding: chunked\r\n", &format!("fffffffffffffffff\r\n{hidden}")),
        ),
        (
            "11 chunks in HTTP/1.0",
            post("transfer-encoding: chunked\r\n", &chunks).replace("HTTP/1.1\r\nhost", "HTTP/1.0\r\nhost"),
        ),
    ] {
        let mut client = Raw::connect(&plane).await;
        client.send(bytes).await;
        let heard = String::from_utf8_lossy(&client.until_closed().await).into_owned();
        assert!(!heard.contains("gitVersion"), "{case}: the hidden request was answered: {heard}");
        assert!(!heard.starts_with("HTTP/1.1 2"), "{case}: {heard}");
        is_well(&plane, case).await;
    }
}

/// Name, method, path, headers, body, code.
type BodyCase<'c> = (&'c str, &'c Method, &'c str, &'c [(&'c str, &'c str)], Vec<u8>, u16);

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let plane = server(&[]).await;
    let http = plane.http();
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "it"}})).await;
    let labels: String = (0..100_000).map(|number| format!("\"l{number}\":\"v\",")).collect();
    let million: String = (0..1_000_000).map(|_| "\"\":\"\",").collect();
    let metadata = |inner: &str| format!("{{\"metadata\":{{{inner}}}}}").into_bytes();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    let ops = format!("[{}]", vec!["{\"op\":\"test\",\"path\":\"/a\",\"value\":1}"; 10_001].join(","));
    let one = format!("{CONFIG_MAPS}/it");
    let (post, patch, put) = (Method::POST, Method::PATCH, Method::PUT);
    let cases: Vec<BodyCase<'_>> = vec![
        ("1 nothing", &post, CONFIG_MAPS, JSON, Vec::new(), 400),
        ("2 one byte too many", &post, CONFIG_MAPS, JSON, vec![b' '; (3 << 20) + 1], 413),
        ("3 the same in a patch", &patch, &one, MERGE, vec![b' '; (3 << 20) + 1], 413),
        ("4 as much as there may be, of nothing", &post, CONFIG_MAPS, JSON, vec![b' '; 3 << 20], 400),
        ("5 deep JSON", &post, CONFIG_MAPS, JSON, vec![b'['; 1 << 20], 400),
        ("6 deep objects", &post, CONFIG_MAPS, JSON, "{\"a\":".repeat(200_000).into(), 400),
        (
            "7 deep unknown fields",
            &post,
            CONFIG_MAPS,
            JSON,
            metadata(&format!("\"x\":{}", "[".repeat(500_000))),
            400,
        ),
        ("8 a deep patch", &patch, &one, MERGE, "{\"a\":".repeat(200_000).into(), 400),
        ("9 deep YAML", &post, CONFIG_MAPS, YAML, "[".repeat(1 << 20).into(), 400),
        ("10 a bomb", &post, CONFIG_MAPS, YAML, bomb.into(), 400),
        ("11 YAML that holds itself", &post, CONFIG_MAPS, YAML, "a: &a [*a]\n".into(), 400),
        (
            "12 a number beyond all",
            &post,
            CONFIG_MAPS,
            JSON,
            metadata("\"name\":\"n\",\"generation\":1e999999"),
            400,
        ),
        (
            "13 many digits",
            &post,
            CONFIG_MAPS,
            JSON,
            metadata(&format!("\"generation\":{}", "9".repeat(1 << 20))),
            400,
        ),
        ("14 no UTF-8", &post, CONFIG_MAPS, JSON, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec(), 422),
        ("15 no UTF-8 in YAML", &post, CONFIG_MAPS, YAML, b"metadata: {name: \"\xff\xfe\"}".to_vec(), 400),
        ("16 half of a pair", &post, CONFIG_MAPS, JSON, metadata("\"name\":\"\\ud800\""), 422),
        ("17 endless labels", &post, CONFIG_MAPS, JSON, metadata(&format!("\"labels\":{{{labels}")), 400),
        (
            "18 a million labels",
            &post,
            CONFIG_MAPS,
            JSON,
            metadata(&format!("\"labels\":{{{million}\"\":\"\"}}")),
            413,
        ),
        (
            "19 protobuf that is none",
            &post,
            CONFIG_MAPS,
            &[("content-type", "application/vnd.kubernetes.protobuf")],
            vec![0xff; 1 << 20],
            400,
        ),
        (
            "20 protobuf with a length beyond it",
            &post,
            CONFIG_MAPS,
            &[("content-type", "application/vnd.kubernetes.protobuf")],
            b"k8s\0\x0a\xff\xff\xff\xff\x0f".to_vec(),
            400,
        ),
        ("21 too many operations", &patch, &one, JSON_PATCH, ops.into(), 413),
        ("22 an unknown type", &post, CONFIG_MAPS, &[("content-type", "text/xml")], b"<x/>".to_vec(), 415),
        ("23 another object", &put, &one, JSON, b"[]".to_vec(), 400),
    ];
    for (case, method, path, headers, body, want) in cases {
        let answer = plane.http().send(method.clone(), path, headers, body).await;
        assert_eq!(answer.code, want, "{case}: {}", shown(&answer));
        assert_eq!(answer.json()["kind"], "Status", "{case}");
        if want == 413 && case != "21 too many operations" {
            assert_eq!(answer.json()["message"], "Request entity too large: limit is 3145728", "{case}");
        }
        is_well(&plane, case).await;
    }
}

fn shown(answer: &Answer) -> String {
    answer.text().chars().take(500).collect()
}

/// A body that is declared too large is rejected without reading it, and one without a declared length is cut off
/// at the limit.
#[tokio::test]
async fn endless_bodies_are_cut_off() {
    let plane = server(&[]).await;
    let head = |length: &str| {
        format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        )
    };
    let heard = say(&plane, head("content-length: 9000000000000000000")).await;
    assert_eq!(heard.code, 413, "{}", heard.text);
    let mut client = Raw::connect(&plane).await;
    assert!(client.send(head("transfer-encoding: chunked")).await);
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    while client.send(&chunk).await {
        sent += 1;
        assert!(sent < 4000, "250 MiB, and it still takes more");
    }
    is_well(&plane, "a body without end").await;
}

#[tokio::test]
async fn invalid_queries_and_paths_are_rejected() {
    let plane = server(&[]).await;
    let http = plane.http();
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "it"}})).await;
    for (case, path, want) in [
        ("1 a limit below zero", "/api/v1/pods?limit=-5", 200),
        ("2 a limit beyond 64 bits", "/api/v1/pods?limit=99999999999999999999", 400),
        ("3 no number", "/api/v1/pods?limit=many", 400),
        ("4 the largest limit", "/api/v1/pods?limit=9223372036854775807", 200),
        ("5 a continue that is none", "/api/v1/pods?limit=1&continue=x%00y", 400),
        ("6 a continue of other bytes", "/api/v1/pods?limit=1&continue=////", 400),
        ("7 a revision from the future", "/api/v1/pods?resourceVersion=99999999", 504),
        ("8 the same for one", &format!("{CONFIG_MAPS}/it?resourceVersion=99999999"), 504),
        ("9 a revision beyond 64 bits", "/api/v1/pods?resourceVersion=99999999999999999999", 400),
        ("10 a revision below zero", "/api/v1/pods?resourceVersion=-1", 400),
        ("11 a selector that is none", "/api/v1/pods?labelSelector=%28%28%28", 400),
        ("12 no UTF-8", "/api/v1/namespaces/%ff%fe/pods", 200),
        ("13 zero bytes", "/api/v1/namespaces/%00/pods/%00", 404),
        ("14 out of the tree", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("15 out of the page's tree", "/ui/%2e%2e/%2e%2e/etc/passwd", 404),
        ("16 slashes", "//////api//v1//pods", 404),
        ("17 percent alone", "/api/v1/namespaces/%/pods/%zz", 404),
        ("18 a long name", &format!("{CONFIG_MAPS}/{}", "x".repeat(10_000)), 404),
        ("19 a timeout of another age", "/api/v1/pods?timeout=99999999999h", 400),
    ] {
        let heard = get(&plane, path).await;
        assert_eq!(heard.code, want, "{case}: {}", heard.text);
        is_well(&plane, case).await;
    }
}

/// A watch from a future revision: upstream waits; the stream must not stay silent forever.
#[tokio::test]
async fn watch_from_a_future_revision_is_not_silent_forever() {
    let plane = server(&[]).await;
    let http = plane.http();
    let mut watch = http.watch("/api/v1/pods?watch=1&resourceVersion=99999999&timeoutSeconds=1").await;
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "ERROR", "{event}");
    }
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = http.watch(&format!("/api/v1/pods?watch=1&{initial}&resourceVersion=99999999")).await;
    let event = watch.next().await.expect("an error");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(504)), "{event}");
    assert!(watch.next().await.is_none());
}
