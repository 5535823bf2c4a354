//! The threads of connections compile no expressions.

use serde_json::{Value, json};

use super::rig::Rig;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

#[tokio::test]
async fn changed_policies_are_unknown_until_a_decision_compiles_them() {
    let rig = Rig::new().await;
    let server = rig.server.inner();
    let policies =
        || server.policies.known(&server.store.head()).map(|policies| policies.covers("coordination.k8s.io"));
    assert_eq!(policies(), Some(false));
    let policy = |group: &str| {
        json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]},
            "validations": [{"expression": "object.metadata.name != 'no'"}]}})
    };
    rig.post(&format!("{ADMISSION}/validatingadmissionpolicies"), policy("")).await.expect(201);
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    rig.post(&format!("{ADMISSION}/validatingadmissionpolicybindings"), binding).await.expect(201);
    assert_eq!(policies(), None);
    let lease = |name: &str| json!({"metadata": {"name": name}});
    rig.post(LEASES, lease("no")).await.expect(201);
    assert_eq!(policies(), Some(false));
    let path = format!("{ADMISSION}/validatingadmissionpolicies/p");
    let status = json!({"status": {"observedGeneration": 1}});
    rig.patch(&format!("{path}/status"), "merge", status).await.expect(200);
    assert_eq!(policies(), None);

    rig.patch(&path, "merge", json!({"spec": policy("*")["spec"]})).await.expect(200);
    let refused = rig.post(LEASES, lease("no")).await.expect(422).json();
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("failed expression")), "{refused}");
    assert_eq!(policies(), Some(true));
    rig.delete(&path, Value::Null).await.expect(200);
    rig.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/b"), Value::Null).await.expect(200);
    assert_eq!(policies(), Some(false));
}

#[tokio::test]
async fn policies_beyond_the_limits_are_rejected() {
    let rig = Rig::new().await;
    let variables: Vec<_> = (0..1_000).map(|n| json!({"name": format!("v{n}"), "expression": "1"})).collect();
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]},
        "variables": variables, "validations": [{"expression": "true"}]}});
    let refused =
        rig.post(&format!("{ADMISSION}/validatingadmissionpolicies"), policy).await.expect(422).json();
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec", "{refused}");
    assert_eq!(cause["message"], "Too many: 1001: must have at most 1000 items");
}
