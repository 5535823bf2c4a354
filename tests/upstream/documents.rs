//! Details of discovery, OpenAPI documents, health checks and the version, as kube-apiserver 1.36.2 returns them.

use axum::http::Method;
use serde_json::{Value, json};

use super::rows::{self, compare, content_type, get, get_as, message};
use super::server;
use crate::harness::http::Http;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const AGGREGATED: &str = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const ONLY: &str = "only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";
const ROUTED: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                      application/vnd.kubernetes.protobuf";
const GROUP: &str = "documents.example.com";

#[tokio::test]
async fn documents_have_upstream_forms() {
    let (_plane, http) = server().await;
    discovery(&http).await;
    health_and_version(&http).await;
    openapi(&http).await;
    custom_kinds(&http).await;
}

/// Upstream: recorded answers (discovery in protobuf, which form discovery answers in), and apiserver
/// `endpoints/discovery` and `endpoints/discovery/aggregated/wrapper.go`.
async fn discovery(http: &Http) {
    let json = format!("application/json;{AGGREGATED}");
    let protobuf = format!("{PROTOBUF};{AGGREGATED}");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let both = format!("application/json,{json}");
    let any = format!("*/*;{AGGREGATED}");
    let rows = [
        ("/api", PROTOBUF, json!([200, PROTOBUF])),
        ("/apis", PROTOBUF, json!([200, PROTOBUF])),
        ("/apis/", "application/json", json!([200, "application/json"])),
        ("/api/v1", PROTOBUF, json!([200, PROTOBUF])),
        ("/apis/apps", PROTOBUF, json!([200, PROTOBUF])),
        ("/apis/apps/v1", PROTOBUF, json!([200, PROTOBUF])),
        ("/api/v9", PROTOBUF, json!([404, PROTOBUF])),
        ("/apis/nope.example.com", PROTOBUF, json!([404, "text/plain; charset=utf-8"])),
        ("/api", &json, json!([200, json])),
        ("/apis", &json, json!([200, json])),
        ("/apis", &protobuf, json!([200, protobuf])),
        // The plain form does not compete with the aggregated one.
        ("/apis", &both, json!([200, json])),
        ("/apis", &any, json!([200, json])),
        ("/apis/apps/v1", &both, json!([200, "application/json"])),
        ("/apis/apps", "application/yaml", json!([200, "application/yaml"])),
    ];
    compare(http, content_type, rows.map(|(path, accept, want)| (get_as(path, accept), want))).await;
    let refused = [
        ("/apis/apps/v1", json.as_str(), ONLY),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", ONLY),
        ("/apis", table, ONLY),
        ("/api/v1", table, ONLY),
        // Upstream's router rejects unknown types itself; the aggregator serves /apis without it.
        ("/api", "text/html", ROUTED),
        ("/apis/apps/v1", "text/html", ROUTED),
        ("/apis", "text/html", ONLY),
        ("/apis/apps", "text/html", ONLY),
        (
            "/version",
            "application/yaml",
            "406: Not Acceptable\n\nAvailable representations: application/json",
        ),
    ];
    let status = |answer: &crate::harness::http::Answer| {
        let text = answer.text();
        // An error may be YAML, in which the text is folded.
        let found = message(answer)[1].as_str().map(|text| text.trim().to_owned()).unwrap_or(text);
        json!([answer.code, if found.contains("kind: Status") { "YAML".to_owned() } else { found }])
    };
    let rows = refused.map(|(path, accept, why)| {
        let why = if accept == "application/yaml" { "YAML" } else { why };
        (get_as(path, accept), json!([406, why]))
    });
    compare(http, status, rows).await;
}

/// Upstream: recorded answers (health), apiserver `server/healthz/healthz.go`, `server/routes/version.go` and
/// `endpoints/filters/request_deadline.go`.
async fn health_and_version(http: &Http) {
    let checks = "[+]ping ok\n[+]log ok\n[+]etcd ok\n";
    let ready = "[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\n";
    let warning =
        |names: &str| format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    let bad_timeout = "invalid timeout specified in the request URL - time: invalid duration \"x\"";
    let rows = [
        ("/healthz", json!([200, "ok"])),
        ("/healthz?verbose=1", json!([200, format!("{checks}healthz check passed\n")])),
        ("/livez?verbose", json!([200, format!("{checks}livez check passed\n")])),
        ("/readyz?verbose=false", json!([200, format!("{checks}{ready}readyz check passed\n")])),
        ("/livez/ping", json!([200, "ok"])),
        ("/readyz/etcd", json!([200, "ok"])),
        ("/readyz?exclude=", json!([200, "ok"])),
        ("/livez?exclude=&verbose", json!([200, format!("{checks}{}livez check passed\n", warning("\"\""))])),
        (
            "/livez?exclude=z&exclude=etcd&exclude=b&exclude=z&verbose",
            json!([
                200,
                format!(
                    "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n{}livez check passed\n",
                    warning("\"b\",\"z\"")
                )
            ]),
        ),
        ("/healthz/", json!([404, "404 page not found\n"])),
        ("/livez/nope", json!([404, "404 page not found\n"])),
        ("/livez/etcd-readiness", json!([404, "404 page not found\n"])),
        // The deadline of a request comes before its path.
        ("/healthz?timeout=x", json!([400, bad_timeout])),
        ("/apis?timeout=x", json!([400, bad_timeout])),
        ("/nope?timeout=x", json!([400, bad_timeout])),
        ("/healthz?timeout=", json!([200, "ok"])),
        ("/healthz?timeout=-1s", json!([200, "ok"])),
    ];
    compare(http, message, rows.map(|(path, want)| (get(path), want))).await;
    let version = http.get("/version/").await.expect(200);
    let fields = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let mut names: Vec<&String> = version.as_object().unwrap().keys().collect();
    let mut fields = fields.to_vec();
    names.sort();
    fields.sort_unstable();
    assert_eq!(names, fields);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert_eq!(http.post("/version", &json!({})).await.code, 405);
}

/// Upstream: recorded answers (OpenAPI in protobuf and other forms, schemas of pods).
async fn openapi(http: &Http) {
    let v2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let v3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let rows = [
        ("/openapi/v2", "", json!([200, "application/json"])),
        ("/openapi/v2", v2, json!([200, v2])),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", json!([200, v2])),
        ("/openapi/v2", "text/html", json!([406, ""])),
        ("/openapi/v3", "", json!([200, "text/plain; charset=utf-8"])),
        ("/openapi/v3/apis/batch/v1", "*/*", json!([200, "application/json"])),
        ("/openapi/v3/apis/batch/v1", v3, json!([200, v3])),
        ("/openapi/v3/apis/batch/v1", "application/yaml", json!([406, ""])),
        ("/openapi/v3/version", v3, json!([200, v3])),
    ];
    compare(http, content_type, rows.map(|(path, accept, want)| (get_as(path, accept), want))).await;
    let document = http.get("/openapi/v3/api/v1").await.expect(200);
    let schemas = &document["components"]["schemas"];
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
    assert_eq!((&port["default"], &port["enum"]), (&json!("TCP"), &json!(["SCTP", "TCP", "UDP"])), "{port}");
    let pod = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert_eq!(pod["restartPolicy"]["enum"], json!(["Always", "Never", "OnFailure"]));
    assert_eq!(
        schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "Pod", "version": "v1"}])
    );
}

fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

/// Upstream: apiextensions-apiserver `controller/openapi/builder` and
/// `apiserver/customresource_discovery_controller.go`.
async fn custom_kinds(http: &Http) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let closed = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    for (plural, kind, schema) in [("opens", "Open", &open), ("closeds", "Closed", &closed)] {
        http.create(definitions, &definition(plural, kind, schema)).await;
        let path = format!("{definitions}/{plural}.{GROUP}");
        http.until(&path, "established", |object| {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        })
        .await;
    }
    // Every version has the hash of the version in which objects are stored.
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/{GROUP}/{version}");
        let list = http
            .until(&path, "two kinds", |list| list["resources"].as_array().map(Vec::len) == Some(2))
            .await;
        let hashes: Vec<&Value> =
            list["resources"].as_array().unwrap().iter().map(|one| &one["storageVersionHash"]).collect();
        assert_eq!(hashes, [CLOSED_HASH, OPEN_HASH], "{version}");
    }
    let refused = format!("/apis/{GROUP}/v1");
    compare(http, message, [(get_as(&refused, "text/html"), json!([406, ONLY]))]).await;
    let gvk = |kind: &str| json!([{"group": GROUP, "kind": kind, "version": "v1"}]);
    let name = |kind: &str| format!("com.example.documents.v1.{kind}");
    let document = http.get(&format!("/openapi/v3/apis/{GROUP}/v1")).await.expect(200);
    let v3 = |kind: &str| &document["components"]["schemas"][name(kind)];
    let keys = |schema: &Value| -> Vec<String> {
        schema["properties"].as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    assert_eq!(keys(v3("Open")), ["apiVersion", "kind", "metadata"]);
    assert_eq!(v3("Open")["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(v3("Open")["x-kubernetes-group-version-kind"], gvk("Open"));
    assert_eq!(keys(v3("Closed")), ["apiVersion", "kind", "metadata", "size"]);
    let document = http.get("/openapi/v2").await.expect(200);
    // In version 2, unknown fields of a kind cannot be described, so nothing is.
    let open = json!({"type": "object", "x-kubernetes-group-version-kind": gvk("Open")});
    assert_eq!(document["definitions"][name("Open")], open);
    assert_eq!(keys(&document["definitions"][name("Closed")]), ["apiVersion", "kind", "metadata", "size"]);
    let post = rows::send(Method::POST, &format!("/apis/{GROUP}/v1"), "application/json", "{}");
    compare(http, rows::code, [(post, 405)]).await;
}

/// Base64 of the first 8 bytes of SHA-256 of the group, the storage version and the kind.
const OPEN_HASH: &str = "izpNztqLXGQ=";
const CLOSED_HASH: &str = "DiPjYaPPRqU=";
