//! Policies apply to reviews, as to objects.

use serde_json::{Value, json};

use super::rig::Rig;

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Rejects the creation of a resource of a group if its `spec.user` or `spec.token` is `no`.
async fn policy(rig: &Rig, group: &str, resource: &str, field: &str) {
    let rules = json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]);
    let expression = format!("object.spec.{field} != 'no'");
    let policy = json!({"metadata": {"name": resource}, "spec": {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "message": "not this one"}]}});
    rig.post(&format!("{REGISTRATION}/validatingadmissionpolicies"), policy).await.expect(201);
    let spec = json!({"policyName": resource, "validationActions": ["Deny"]});
    let binding = json!({"metadata": {"name": resource}, "spec": spec});
    rig.post(&format!("{REGISTRATION}/validatingadmissionpolicybindings"), binding).await.expect(201);
}

#[tokio::test]
async fn policies_apply_to_reviews() {
    let rig = Rig::new().await;
    let access = |user: &str| json!({"spec": {"user": user, "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let token = |token: &str| json!({"spec": {"token": token}});
    let local = |user: &str| {
        let mut review = access(user);
        review["metadata"]["namespace"] = "default".into();
        review["spec"]["resourceAttributes"]["namespace"] = "default".into();
        review
    };
    type Body<'a> = &'a dyn Fn(&str) -> Value;
    let cases: [(&str, &str, &str, &str, Body<'_>); 3] = [
        ("authorization.k8s.io", "subjectaccessreviews", "", "user", &access),
        ("authorization.k8s.io", "localsubjectaccessreviews", "/namespaces/default", "user", &local),
        ("authentication.k8s.io", "tokenreviews", "", "token", &token),
    ];
    for (group, resource, inside, field, body) in cases {
        let url = format!("/apis/{group}/v1{inside}/{resource}");
        rig.post(&url, body("no")).await.expect(201);
        policy(&rig, group, resource, field).await;
        let refused = rig.post(&url, body("no")).await.expect(422).json();
        assert!(refused["message"].as_str().is_some_and(|why| why.ends_with("not this one")), "{refused}");
        rig.post(&url, body("yes")).await.expect(201);
    }
}
