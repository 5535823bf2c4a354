//! Bodies, paths and methods that are rejected, with the texts of kube-apiserver 1.36.2.

mod types;

use axum::http::Method;
use serde_json::{Value, json};

use super::rows::{Row, compare, get, message, post, put, send};
use super::{MAPS, PODS, server};
use crate::harness::http::Http;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCHEME: &str = "in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"";

#[tokio::test]
async fn rejections_have_upstream_texts() {
    let (_plane, http) = server().await;
    http.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    kinds(&http).await;
    types::misfits(&http).await;
    strictness(&http).await;
    names_and_versions(&http).await;
    paths_and_media(&http).await;
}

fn bad(why: impl Into<String>) -> Value {
    json!([400, why.into()])
}

/// Upstream: recorded answers (errors of kinds2 and events), apiserver `handlers/create.go` and `handlers/rest.go`, and the
/// `register.go` of each package of API types.
async fn kinds(http: &Http) {
    let body = |version: &str, kind: &str| format!(r#"{{"apiVersion":"{version}","kind":"{kind}"}}"#);
    let cannot = |version: &str, kind: &str, wanted: &str, why: &str| {
        bad(format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}"))
    };
    let converting = |from: &str, to: &str| format!("converting ({from}) to ({to}): unknown conversion");
    let unknown = |kind: &str, version: &str| {
        format!("no kind \"{kind}\" is registered for version \"{version}\" {SCHEME}")
    };
    let version = |given: &str, expected: &str| {
        bad(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        ))
    };
    let map = |from: &str| converting(from, "core.ConfigMap");
    let rows = [
        // A list instead of an object.
        (MAPS, "v1", "ConfigMapList", cannot("v1", "ConfigMapList", "ConfigMap", &map("v1.ConfigMapList"))),
        (MAPS, "v1", "List", cannot("v1", "List", "ConfigMap", &map("v1.List"))),
        (
            DEPLOYMENTS,
            "apps/v1",
            "DeploymentList",
            cannot("v1", "DeploymentList", "Deployment", &converting("v1.DeploymentList", "apps.Deployment")),
        ),
        // Another kind.
        (MAPS, "v1", "Secret", cannot("v1", "Secret", "ConfigMap", &map("v1.Secret"))),
        (MAPS, "v1", "Status", cannot("v1", "Status", "ConfigMap", &map("v1.Status"))),
        (
            MAPS,
            "apps/v1beta1",
            "DeleteOptions",
            cannot("v1beta1", "DeleteOptions", "ConfigMap", &map("v1.DeleteOptions")),
        ),
        (
            MAPS,
            "batch/v1beta1",
            "CronJob",
            cannot("v1beta1", "CronJob", "ConfigMap", &map("v1beta1.CronJob")),
        ),
        (MAPS, "v1", "Nope", cannot("v1", "Nope", "ConfigMap", &unknown("Nope", "v1"))),
        (MAPS, "v2", "ConfigMap", cannot("v2", "ConfigMap", "ConfigMap", &unknown("ConfigMap", "v2"))),
        (MAPS, "v1", "configmap", cannot("v1", "configmap", "ConfigMap", &unknown("configmap", "v1"))),
        (
            MAPS,
            "apps/v1",
            "ConfigMap",
            cannot("v1", "ConfigMap", "ConfigMap", &unknown("ConfigMap", "apps/v1")),
        ),
        // Another version of the kind, served or not.
        (
            CLASSES,
            "storage.k8s.io/v1beta1",
            "StorageClass",
            version("storage.k8s.io/v1beta1", "storage.k8s.io/v1"),
        ),
        (DEPLOYMENTS, "apps/v1beta1", "Deployment", version("apps/v1beta1", "apps/v1")),
        (DEPLOYMENTS, "extensions/v1beta1", "Deployment", version("extensions/v1beta1", "apps/v1")),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            "networking.k8s.io/v1beta1",
            "Ingress",
            version("networking.k8s.io/v1beta1", "networking.k8s.io/v1"),
        ),
        ("/api/v1/namespaces/default/events", "events.k8s.io/v1", "Event", version("events.k8s.io/v1", "v1")),
        (
            DEFINITIONS,
            "apiextensions.k8s.io/v1beta1",
            "CustomResourceDefinition",
            version("apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1"),
        ),
        (
            DEFINITIONS,
            "v1",
            "ConfigMap",
            cannot(
                "v1",
                "ConfigMap",
                "CustomResourceDefinition",
                "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \
                 \"k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55\"",
            ),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "v1",
            "Pod",
            cannot(
                "v1",
                "Pod",
                "ValidatingWebhookConfiguration",
                &converting("v1.Pod", "admissionregistration.ValidatingWebhookConfiguration"),
            ),
        ),
    ];
    let rows = rows.map(|(path, version, kind, want)| (post(path, &body(version, kind)), want));
    compare(http, message, rows).await;
    // A PUT compares kinds before names.
    let rows = [(
        put(&format!("{MAPS}/a"), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}"#),
        cannot("v1", "Pod", "ConfigMap", &map("v1.Pod")),
    )];
    compare(http, message, rows).await;
    // A missing kind or version is the one of the path.
    let rows = [r#"{"kind":"ConfigMap"}"#, r#"{"apiVersion":"v1"}"#, "{}"].map(|body| {
        let want =
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
        (post(MAPS, body), json!([422, want]))
    });
    compare(http, message, rows).await;
    let rows = [
        (r#"{"kind":5}"#, "json: cannot unmarshal number into Go struct field .kind of type string"),
        (
            r#"{"apiVersion":[]}"#,
            "json: cannot unmarshal array into Go struct field .apiVersion of type string",
        ),
        ("nul", "unexpected end of JSON input"),
    ];
    let rows = rows.map(|(body, why)| {
        let shown = if body.starts_with('{') { body.to_owned() } else { "6e756c".to_owned() };
        let why = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse \
             error: {why} ({shown})"
        );
        (post(MAPS, body), bad(why))
    });
    compare(http, message, rows).await;
}

/// Upstream: recorded answers (unknown fields deep in a pod, field validation on PUT and PATCH).
async fn strictness(http: &Http) {
    let strict = |path: &str| format!("{path}?dryRun=All&fieldValidation=Strict");
    let refused = |kind: &str, why: &str| {
        bad(format!("{kind} in version \"v1\" cannot be handled as a {kind}: strict decoding error: {why}"))
    };
    let rows = [
        (
            post(&strict(MAPS), r#"{"metadata":{"name":"x","foo":1},"bar":1,"data":{"a":"1","a":"2"}}"#),
            refused(
                "ConfigMap",
                r#"unknown field "metadata.foo", unknown field "bar", duplicate field "data.a""#,
            ),
        ),
        (
            post(&strict(PODS), r#"{"spec":{"containers":[{"name":"a","Image":"x"}]}}"#),
            refused("Pod", r#"unknown field "spec.containers[0].Image""#),
        ),
        (
            put(&strict(&format!("{MAPS}/a")), r#"{"metadata":{"name":"a"},"Data":{}}"#),
            refused("ConfigMap", r#"unknown field "Data""#),
        ),
        (
            // A value that does not fit comes before unknown fields.
            post(&strict(MAPS), r#"{"bar":1,"data":5}"#),
            bad(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct \
                 field ConfigMap.data of type map[string]string",
            ),
        ),
    ];
    compare(http, message, rows).await;
}

/// Upstream: recorded answers (name in the body against the name in the path), apiserver `handlers/update.go` and `handlers/rest.go`.
async fn names_and_versions(http: &Http) {
    let map = format!("{MAPS}/a");
    let other = "the namespace of the provided object does not match the namespace sent on the request";
    let rows = [
        (
            put(&map, r#"{"metadata":{"name":"b"}}"#),
            bad("the name of the object (b) does not match the name on the URL (a)"),
        ),
        (
            put(&map, r#"{"metadata":{}}"#),
            bad("the name of the object (a based on URL) was undeterminable: name must be provided"),
        ),
        (put(&map, r#"{"metadata":{"name":"a","namespace":"other"}}"#), bad(other)),
        (post(MAPS, r#"{"metadata":{"name":"b","namespace":"other"}}"#), bad(other)),
        (
            post(MAPS, r#"{"metadata":{"name":"b","resourceVersion":"1"}}"#),
            json!([500, "resourceVersion should not be set on objects to be created"]),
        ),
        (
            put(&map, r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#),
            json!([
                409,
                "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
                 changes to the latest version and try again"
            ]),
        ),
        (
            put(&map, r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#),
            json!([500, "strconv.ParseUint: parsing \"x\": invalid syntax"]),
        ),
        (
            put(&format!("{MAPS}/z"), r#"{"metadata":{"name":"z"}}"#),
            json!([404, "configmaps \"z\" not found"]),
        ),
    ];
    compare(http, message, rows).await;
}

/// Upstream: recorded answers (methods a path does not have, content types that cannot be read, odd paths), and
/// apiextensions-apiserver `apiserver/customresource_handler.go` for custom kinds.
async fn paths_and_media(http: &Http) {
    let none = "the server could not find the requested resource";
    let method = "the server does not allow this method on the requested resource";
    let unread = "the body of the request was in an unknown format - accepted media types include: application/json, \
                  application/yaml, application/vnd.kubernetes.protobuf";
    let map = format!("{MAPS}/a");
    let with = |method: Method, path: &str, kind: &str| -> Row { send(method, path, kind, "{}") };
    let rows = [
        (get(&format!("{MAPS}/nope")), json!([404, "configmaps \"nope\" not found"])),
        (get(&format!("{map}/nope")), json!([404, none])),
        (get("/api/v1/nope"), json!([404, none])),
        (get("/api/v2/pods"), json!([404, none])),
        (get("/apis/apps/v9/deployments"), json!([404, none])),
        (get("/apis/nope/v1/x"), json!([404, "404 page not found\n"])),
        (get("/nope"), json!([404, "404 page not found\n"])),
        (with(Method::POST, &map, "application/json"), json!([405, method])),
        (with(Method::PUT, MAPS, "application/json"), json!([405, method])),
        (with(Method::POST, "/api/v1/configmaps", "application/json"), json!([405, method])),
        (with(Method::DELETE, "/api/v1/namespaces", "application/json"), json!([405, method])),
        (with(Method::POST, MAPS, "text/plain"), json!([415, unread])),
        (with(Method::PUT, &map, "application/merge-patch+json"), json!([415, unread])),
        (with(Method::DELETE, &map, "text/plain"), json!([415, unread])),
        (with(Method::PATCH, &map, "application/json"), json!([415, "415: Unsupported Media Type"])),
    ];
    compare(http, message, rows).await;
    custom(http).await;
}

async fn custom(http: &Http) {
    let group = "rejections.example.com";
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let definition = json!({
        "metadata": {"name": format!("boxes.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Box"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    http.create(DEFINITIONS, &definition).await;
    let boxes = format!("/apis/{group}/v1/namespaces/default/boxes");
    http.until(&boxes, "served", |list| list["kind"] == "BoxList").await;
    let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Box", "metadata": {"name": "a"}});
    http.create(&boxes, &body).await;
    let patches = "the body of the request was in an unknown format - accepted media types include: \
                   application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let item = format!("{boxes}/a");
    let patch = |kind: &str| send(Method::PATCH, &item, kind, "{}");
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let single = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let rows = [
        (patch("application/json"), json!([415, patches])),
        (patch("application/strategic-merge-patch+json"), json!([415, patches])),
        (get(&item).header("accept", list), json!([500, "content is not a list"])),
        (
            get(&boxes).header("accept", single),
            json!([
                406,
                "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)"
            ]),
        ),
        (get(&format!("{boxes}/nope")), json!([404, format!("boxes.{group} \"nope\" not found")])),
        (get(&format!("/apis/{group}/v2/boxes")), json!([404, "404 page not found\n"])),
        (
            post(&boxes, r#"{"metadata":{"name":"b"}}"#),
            bad("the object provided is unrecognized (must be of type Box): Object 'Kind' is missing in \
                 '{\"metadata\":{\"name\":\"b\"}}' ({\"metadata\":{\"name\":\"b\"}})"),
        ),
    ];
    compare(http, message, rows).await;
}
