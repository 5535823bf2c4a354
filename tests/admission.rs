//! Admission that objects configure: a policy and a webhook apply from the request after the one that created them.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::post;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::tls::file;

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// `[{"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}}]`, base64.
const PATCH: &str =
    "W3sib3AiOiAiYWRkIiwgInBhdGgiOiAiL21ldGFkYXRhL2xhYmVscyIsICJ2YWx1ZSI6IHsiYnkiOiAid2ViaG9vayJ9fV0=";

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"name": name}})
}

fn rules() -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}])
}

async fn policy(http: &Http, kind: &str, spec: Value, binding: Value) {
    let object = json!({"metadata": {"name": "p"}, "spec": spec});
    http.create(&format!("{REGISTRATION}/{kind}admissionpolicies"), &object).await;
    let object = json!({"metadata": {"name": "p"}, "spec": binding});
    http.create(&format!("{REGISTRATION}/{kind}admissionpolicybindings"), &object).await;
}

#[tokio::test]
async fn policies_apply_to_the_next_request() {
    let plane = Plane::of(Layout::OneProcess).start().await;
    let http = plane.http();
    for round in 0..10 {
        let validations = json!([{"expression": "object.metadata.name != 'no'", "message": "not this name"}]);
        let spec = json!({"matchConstraints": {"resourceRules": rules()}, "validations": validations});
        let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
        policy(&http, "validating", spec, binding).await;
        let refused = http.post(CONFIG_MAPS, &config_map("no")).await;
        assert_eq!(refused.code, 422, "round {round}: {}", refused.text());
        assert_eq!(
            refused.json()["message"],
            "configmaps \"no\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: not this name"
        );
        http.create(CONFIG_MAPS, &config_map(&format!("yes-{round}"))).await;
        http.delete(&format!("{REGISTRATION}/validatingadmissionpolicybindings/p")).await.expect(200);
        http.delete(&format!("{REGISTRATION}/validatingadmissionpolicies/p")).await.expect(200);
        http.create(CONFIG_MAPS, &config_map("no")).await;
        http.delete(&format!("{CONFIG_MAPS}/no")).await.expect(200);
    }
    let expression = "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}";
    let mutations =
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    let constraints = json!({"resourceRules": rules()});
    let spec =
        json!({"matchConstraints": constraints, "mutations": mutations, "reinvocationPolicy": "Never"});
    policy(&http, "mutating", spec, json!({"policyName": "p"})).await;
    let made = http.create(CONFIG_MAPS, &config_map("labelled")).await;
    assert_eq!(made["metadata"]["labels"]["by"], "policy");
}

/// Permits and labels everything but the name `no`.
async fn answer(body: String) -> String {
    let review: Value = serde_json::from_str(&body).unwrap();
    let request = &review["request"];
    let mut response =
        json!({"uid": request["uid"], "allowed": request["object"]["metadata"]["name"] != "no"});
    if response["allowed"] == true {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = PATCH.into();
        response["warnings"] = json!(["a webhook was here"]);
    } else {
        response["status"] = json!({"code": 403, "message": "not this name"});
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).to_string()
}

/// Starts a webhook, and returns its URL.
async fn webhook() -> String {
    let tls = RustlsConfig::from_pem_file(file("server.crt"), file("server.key")).await.unwrap();
    let handle = Handle::<SocketAddr>::new();
    let server = axum_server::bind_rustls(([127, 0, 0, 1], 0).into(), tls).handle(handle.clone());
    let app = Router::new().route("/review", post(answer));
    tokio::spawn(server.serve(app.into_make_service()));
    let address = handle.listening().await.unwrap();
    format!("https://{address}/review")
}

#[tokio::test]
async fn webhooks_change_and_reject_objects() {
    let plane = Plane::of(Layout::OneProcess).start().await;
    let http = plane.http();
    let url = webhook().await;
    let bundle = k8s_openapi::ByteString(std::fs::read(file("ca.crt")).unwrap());
    let configuration = json!({"metadata": {"name": "w"}, "webhooks": [{
        "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": rules(),
        "clientConfig": {"url": url, "caBundle": bundle}, "timeoutSeconds": 5,
    }]});
    http.create(&format!("{REGISTRATION}/mutatingwebhookconfigurations"), &configuration).await;
    let refused = http.post(CONFIG_MAPS, &config_map("no")).await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    let message = &refused.json()["message"];
    assert_eq!(message, "admission webhook \"w.example.com\" denied the request: not this name");
    let made = http.post(CONFIG_MAPS, &config_map("yes")).await;
    assert_eq!(made.expect(201)["metadata"]["labels"]["by"], "webhook");
    assert_eq!(made.header("warning"), "299 - \"a webhook was here\"");
}
