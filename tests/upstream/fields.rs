//! Unknown and duplicate fields (upstream: test/e2e/apimachinery/field_validation.go), and the formats of
//! request and response bodies (protocol.go).

use axum::http::Method;
use serde_json::{Value, json};

use super::{PODS, server};

const JSON: (&str, &str) = ("content-type", "application/json");
const YAML: (&str, &str) = ("content-type", "application/yaml");

/// "should detect unknown and duplicate fields of a typed object" and "should detect unknown metadata fields
/// of a typed object"
#[tokio::test]
async fn unknown_and_duplicate_fields_are_detected() {
    let (_plane, http) = server().await;
    let body = |metadata: &str, spec: &str| {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p"{metadata}}},"spec":{{{spec}"containers":[{{"name":"c","image":"i"}}]}}}}"#
        )
    };
    let spec = r#""unknownField":"foo","hostname":"a","hostname":"b","#;
    let both = r#"unknown field "spec.unknownField", duplicate field "spec.hostname""#;
    for (case, query, body, want) in [
        ("1 strict", "Strict", body("", spec), Err(format!("strict decoding error: {both}"))),
        (
            "2 strict, metadata",
            "Strict",
            body(r#","unknownMeta":"foo""#, ""),
            Err(r#"strict decoding error: unknown field "metadata.unknownMeta""#.to_owned()),
        ),
        ("3 a warning", "Warn", body("", spec), Ok(2)),
        ("4 nothing said is a warning", "", body("", spec), Ok(2)),
        ("5 silence", "Ignore", body("", spec), Ok(0)),
    ] {
        let path = format!("{PODS}?dryRun=All&fieldManager=m&fieldValidation={query}");
        let answer = http.send(Method::POST, &path, &[JSON], body.into_bytes()).await;
        match want {
            Err(text) => {
                let status = answer.expect(400);
                assert!(status["message"].as_str().unwrap().contains(&text), "{case}: {status}");
            }
            Ok(warnings) => {
                answer.expect(201);
                assert_eq!(answer.headers.get_all("warning").iter().count(), warnings, "{case}");
            }
        }
    }
    // An apply always validates against the schema, whatever the request asks for.
    let config = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nunknownField: unknown\n";
    let path = format!("{PODS}/p?fieldManager=m&fieldValidation=Strict");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = http.send(Method::PATCH, &path, &headers, config.into()).await;
    assert!(answer.text().contains(".unknownField: field not declared in schema"), "{}", answer.text());
}

/// protocol.go and the clients of field_validation.go: an object written in one format can be read in every other
#[tokio::test]
async fn object_is_the_same_in_every_format() {
    let (_plane, http) = server().await;
    let yaml =
        "kind: Pod\napiVersion: v1\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    image: i\n";
    let made = http.send(Method::POST, PODS, &[YAML, ("accept", "application/json")], yaml.into()).await;
    let made: Value = made.expect(201);
    let path = format!("{PODS}/p");
    let proto = [("accept", "application/vnd.kubernetes.protobuf")];
    let bytes = http.send(Method::GET, &path, &proto, Vec::new()).await;
    assert_eq!((bytes.code, bytes.body.get(..4)), (200, Some(&b"k8s\0"[..])));
    // The object read as protobuf is written back as protobuf: it is unchanged, so nothing is stored.
    let headers = [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", "application/json")];
    let put = http.send(Method::PUT, &path, &headers, bytes.body).await.expect(200);
    assert_eq!(put, made);
    let shown = http.send(Method::GET, &path, &[("accept", "application/yaml")], Vec::new()).await;
    assert_eq!((shown.code, shown.header("content-type")), (200, "application/yaml"));
    let put = http.send(Method::PUT, &path, &[YAML], shown.body).await.expect(200);
    assert_eq!(put, made);
    let other = http.send(Method::GET, &path, &[("accept", "application/cbor")], Vec::new()).await;
    assert_eq!(other.code, 406);
    let sent = http.send(Method::POST, PODS, &[("content-type", "text/plain")], b"x".to_vec()).await;
    assert_eq!(sent.json()["reason"], json!("UnsupportedMediaType"));
}
