//! Parameters of lists, watches, writes and deletes, and the formats that clients accept, as kube-apiserver 1.36.2 reads them.

mod formats;

use axum::http::Method;
use serde_json::{Value, json};

use super::rows::{compare, delete, get, get_as, message, post, send};
use super::{MAPS, PODS, pod, server};
use crate::harness::http::{Answer, Http};

const ONLY: &str = "only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";

#[tokio::test]
async fn parameters_are_read_as_upstream_reads_them() {
    let (_plane, http) = server().await;
    for name in ["a", "b"] {
        let labels = json!({"app": name});
        http.create(MAPS, &json!({"metadata": {"name": name, "labels": labels}})).await;
    }
    http.create(PODS, &pod("p")).await;
    queries(&http).await;
    lists(&http).await;
    watches(&http).await;
    writes(&http).await;
    deletes(&http).await;
    formats::media_types(&http).await;
    formats::tables(&http).await;
}

/// The names of a list; the code and the message of an error.
fn names(answer: &Answer) -> Value {
    match answer.code {
        200 => answer.json()["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["metadata"]["name"].clone())
            .collect(),
        _ => message(answer),
    }
}

/// Upstream: Go's `url.ParseQuery`, whose errors the server ignores, and apimachinery `runtime/conversion.go`, which takes the
/// first of repeated values.
async fn queries(http: &Http) {
    let rows = [
        ("labelSelector=app%3Da", json!(["a"])),
        ("labelSelector=app+in+(a)", json!(["a"])),
        ("labelSelector=%zz", json!(["a", "b"])),
        ("labelSelector=%zz&labelSelector=app%3Da", json!(["a"])),
        ("labelSelector=app%3Da%", json!(["a", "b"])),
        ("labelSelector=app%3Da;limit=1", json!(["a", "b"])),
        ("labelSelector=app%3Da;limit=1&fieldSelector=metadata.name%3Db", json!(["b"])),
        ("labelSelector=app%3Da&labelSelector=app%3Db", json!(["a"])),
        ("limit=1&limit=x", json!(["a"])),
        ("&&limit=1&", json!(["a"])),
        ("watch=0&watch=1", json!(["a", "b"])),
        ("limit=-1", json!(["a", "b"])),
    ];
    compare(http, names, rows.map(|(query, want)| (get(&format!("{MAPS}?{query}")), want))).await;
    // A field that pods have as a selector but never as a value (upstream: pkg/registry/core/pod/strategy.go).
    let rows = [
        ("status.podIPs%3D10.0.0.1", json!([])),
        ("status.podIPs%21%3D10.0.0.1", json!(["p"])),
        ("status.podIPs%3D", json!(["p"])),
        ("status.nope%3D1", json!([400, "field label not supported: status.nope"])),
    ];
    compare(http, names, rows.map(|(fields, want)| (get(&format!("{PODS}?fieldSelector={fields}")), want)))
        .await;
    // Nodes and namespaces have no such field (upstream: pkg/apis/core/v1/conversion.go); other cluster-scoped kinds do.
    let refused = json!([400, "field label not supported: metadata.namespace"]);
    let rows = [
        ("/api/v1/nodes", refused.clone()),
        ("/api/v1/namespaces", refused),
        ("/api/v1/persistentvolumes", json!([])),
    ];
    let rows = rows.map(|(path, want)| (get(&format!("{path}?fieldSelector=metadata.namespace%3D")), want));
    compare(http, names, rows).await;
}

/// Upstream: recorded answers (resourceVersion and resourceVersionMatch on lists), apimachinery
/// `apis/meta/internalversion/validation`, and apiserver `endpoints/filters/request_deadline.go`.
async fn lists(http: &Http) {
    let number = |text: &str, why: &str| json!([400, format!("strconv.ParseInt: parsing \"{text}\": {why}")]);
    let options = |why: &str| json!([422, format!("ListOptions.meta.k8s.io \"\" is invalid: {why}")]);
    let matched = |why: &str| options(&format!("resourceVersionMatch: {why}"));
    let timeout = |why: &str| json!([400, format!("invalid timeout specified in the request URL - {why}")]);
    let only_with = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let ok = json!([200, null]);
    let rows = [
        ("limit=", number("", "invalid syntax")),
        ("limit=1.5", number("1.5", "invalid syntax")),
        ("limit=9223372036854775808", number("9223372036854775808", "value out of range")),
        ("limit=y&timeoutSeconds=x", number("x", "invalid syntax")),
        ("timeoutSeconds=", number("", "invalid syntax")),
        ("timeout=5", timeout("time: missing unit in duration \"5\"")),
        ("timeout=-5", timeout("time: missing unit in duration \"-5\"")),
        ("timeout=5x", timeout("time: unknown unit \"x\" in duration \"5x\"")),
        ("timeout=", ok.clone()),
        ("timeout=5s&timeout=x", ok.clone()),
        ("resourceVersionMatch=", ok.clone()),
        ("resourceVersionMatch=Exact", matched(only_with)),
        (
            "resourceVersionMatch=exact",
            options(&format!(
                "[resourceVersionMatch: {only_with}, resourceVersionMatch: Unsupported value: \"exact\": supported \
                 values: \"Exact\", \"NotOlderThan\", \"\"]"
            )),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            matched("Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=0&continue=x",
            matched("Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "sendInitialEvents=",
            options("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ),
        (
            "sendInitialEvents=0",
            options("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ),
        // The options are validated after the syntax of selectors, and before their fields.
        ("resourceVersionMatch=Exact&fieldSelector=nope%3D1", matched(only_with)),
        (
            "resourceVersionMatch=Exact&fieldSelector=nope",
            json!([400, "invalid selector: 'nope'; can't understand 'nope'"]),
        ),
    ];
    compare(http, message, rows.map(|(query, want)| (get(&format!("{MAPS}?{query}")), want))).await;
}

/// Upstream: apimachinery `apis/meta/internalversion` (defaults and validation) and apiserver `endpoints/handlers/get.go`.
async fn watches(http: &Http) {
    let matched = |why: &str| {
        json!([422, format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {why}")])
    };
    let continued = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
    let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let without =
        "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let old = MAPS.replace("/v1/", "/v1/watch/");
    let rows = [
        // A watch from the beginning becomes one with a match.
        (format!("{MAPS}?watch=1&continue=x"), matched(continued)),
        (format!("{MAPS}?watch=1&continue=x&resourceVersion=0"), matched(continued)),
        (format!("{MAPS}?watch=1&sendInitialEvents=1"), matched(requires)),
        (format!("{MAPS}?watch=1&resourceVersionMatch=NotOlderThan"), matched(without)),
        (
            format!("{MAPS}?watch=1&sendInitialEvents=1&resourceVersionMatch=Exact"),
            json!([
                422,
                format!(
                    "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: {requires}, \
                     resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]"
                )
            ]),
        ),
        (
            format!("{MAPS}?watch=1&timeoutSeconds="),
            json!([400, "strconv.ParseInt: parsing \"\": invalid syntax"]),
        ),
        // The old paths have the options of lists.
        (
            format!("{old}?sendInitialEvents=1"),
            json!([
                422,
                "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                 for list"
            ]),
        ),
        (
            format!("{old}/a?fieldSelector=metadata.name%3Db"),
            json!([400, "fieldSelector metadata.name doesn't match requested name"]),
        ),
    ];
    compare(http, message, rows.map(|(path, want)| (get(&path), want))).await;
    let streams = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    let rows = [
        ("application/json;v=v1;g=meta.k8s.io", ONLY),
        ("application/json;as=Nope;v=v1;g=meta.k8s.io", ONLY),
        // The first acceptable clause decides, and YAML has no streams.
        ("application/yaml, application/json", streams),
    ];
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let folded = |answer: &Answer| match answer.text().contains("kind: Status") {
        true => json!([answer.code, streams]),
        false => message(answer),
    };
    compare(http, folded, rows.map(|(accept, why)| (get_as(&watch, accept), json!([406, why])))).await;
}

/// Upstream: recorded answers (dry runs, field validation), apimachinery `apis/meta/v1/validation`.
async fn writes(http: &Http) {
    let options = |kind: &str, why: &str| json!([422, format!("{kind}.meta.k8s.io \"\" is invalid: {why}")]);
    let create = |why: &str| options("CreateOptions", why);
    let not_all = "dryRun: Unsupported value: [\"\"]: supported values: \"All\"";
    let map = json!({"metadata": {"name": "c"}}).to_string();
    let rows = [
        ("dryRun=", create(not_all)),
        ("dryRun", create(not_all)),
        (
            "dryRun=All&dryRun=",
            create("dryRun: Unsupported value: [\"All\",\"\"]: supported values: \"All\""),
        ),
        ("dryRun=all", create("dryRun: Unsupported value: [\"all\"]: supported values: \"All\"")),
        ("dryRun=All&fieldValidation=", json!([201, null])),
        ("dryRun=All&fieldValidation=Ignore", json!([201, null])),
        (
            "dryRun=All&fieldValidation=strict",
            create(
                "fieldValidation: Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
        ),
        (
            "dryRun=All&fieldManager=a%07%09",
            create(
                "[fieldManager: Invalid value: \"a\\a\\t\": invalid character U+0007 (at position 1), fieldManager: \
                 Invalid value: \"a\\a\\t\": invalid character U+0009 (at position 2)]",
            ),
        ),
    ];
    compare(http, message, rows.map(|(query, want)| (post(&format!("{MAPS}?{query}"), &map), want))).await;
    let path = format!("{MAPS}/a?force=");
    let patch = send(Method::PATCH, &path, "application/merge-patch+json", "{}");
    let why = options("PatchOptions", "force: Forbidden: may not be specified for non-apply patch");
    compare(http, message, [(patch, why)]).await;
}

/// Upstream: recorded answers (bad bodies for DELETE), apimachinery `Convert_url_Values_To_v1_DeleteOptions` and
/// `apis/meta/v1/validation`.
async fn deletes(http: &Http) {
    let map = http.get(&format!("{MAPS}/a")).await.expect(200);
    let (uid, version) =
        (map["metadata"]["uid"].as_str().unwrap(), map["metadata"]["resourceVersion"].as_str().unwrap());
    let options = |why: &str| json!([422, format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}")]);
    let policy = "propagationPolicy: Unsupported value: \"\": supported values: \"Foreground\", \"Background\", \
                  \"Orphan\", \"nil\"";
    let conflict =
        |why: String| json!([409, format!("Operation cannot be fulfilled on ConfigMap \"a\": {why}")]);
    let other_uid = conflict(format!(
        "the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and \
         then recreated"
    ));
    let other_version = conflict(format!(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object \
         might have been modified"
    ));
    let rows = [
        (
            "gracePeriodSeconds=".to_owned(),
            "",
            json!([400, "strconv.ParseInt: parsing \"\": invalid syntax"]),
        ),
        ("propagationPolicy=".to_owned(), "", options(policy)),
        ("dryRun=".to_owned(), "", options("dryRun: Unsupported value: [\"\"]: supported values: \"All\"")),
        // Without a body, the query has the preconditions, too.
        ("uid=x".to_owned(), "", other_uid.clone()),
        ("resourceVersion=1".to_owned(), "", other_version.clone()),
        (format!("dryRun=All&uid={uid}&resourceVersion={version}"), "", json!([200, null])),
        ("dryRun=All&uid=&resourceVersion=".to_owned(), "", json!([200, null])),
        ("uid=x&dryRun=x".to_owned(), r#"{"dryRun":["All"]}"#, json!([200, null])),
        (String::new(), r#"{"preconditions":{"uid":"x"}}"#, other_uid),
        (String::new(), r#"{"preconditions":{"resourceVersion":"1"}}"#, other_version),
        (String::new(), r#"{"propagationPolicy":""}"#, options(policy)),
        (
            String::new(),
            " ",
            json!([400, "couldn't get version/kind; json parse error: unexpected end of JSON input"]),
        ),
    ];
    let rows = rows.map(|(query, body, want)| (delete(&format!("{MAPS}/a?{query}"), body), want));
    compare(http, message, rows).await;
}
