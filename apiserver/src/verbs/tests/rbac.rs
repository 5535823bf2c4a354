//! Role-based access control, as users meet it. Requests of users impersonate them.

use axum::body::Body;
use http_body_util::BodyExt as _;
use orlop_auth::UserInfo;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rig::{Answer, Rig};
use crate::authorization::AuthorizationMode;

pub(super) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
pub(super) const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
pub(super) const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

pub(super) async fn rig() -> Rig {
    Rig::with(|config| config.authorization = vec![AuthorizationMode::Rbac]).await
}

/// A request of a user.
async fn by(rig: &Rig, user: &str, method: &str, target: &str, body: Value) -> Answer {
    let headers = [("impersonate-user", user), ("content-type", "application/json")];
    rig.send(method, target, &headers, Body::from(body.to_string())).await
}

async fn get(rig: &Rig, user: &str, target: &str) -> u16 {
    by(rig, user, "GET", target, json!({})).await.code
}

/// Creates a role and binds it to a user.
async fn grant(rig: &Rig, name: &str, user: &str, rules: Value) {
    rig.post(ROLES, json!({"metadata": {"name": name}, "rules": rules})).await.expect(201);
    bind(rig, name, "Role", user).await;
}

async fn bind(rig: &Rig, name: &str, kind: &str, user: &str) {
    rig.post(ROLE_BINDINGS, binding(name, kind, name, user)).await.expect(201);
}

pub(super) fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]})
}

#[tokio::test]
async fn next_request_sees_a_changed_role() {
    let rig = rig().await;
    rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a");
    let refused = by(&rig, "ann", "GET", &target, json!({})).await.expect(403).json();
    assert_eq!(
        refused["message"],
        r#"configmaps "a" is forbidden: User "ann" cannot get resource "configmaps" in API group "" in the namespace "default""#
    );
    grant(&rig, "r", "ann", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]))
        .await;
    assert_eq!(get(&rig, "ann", &target).await, 200);
    assert_eq!(get(&rig, "bob", &target).await, 403);
    assert_eq!(get(&rig, "ann", CONFIG_MAPS).await, 403, "not list");
    let list = json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    rig.patch(&format!("{ROLES}/r"), "merge", list).await.expect(200);
    assert_eq!((get(&rig, "ann", &target).await, get(&rig, "ann", CONFIG_MAPS).await), (403, 200));
    rig.delete(&format!("{ROLES}/r"), Value::Null).await.expect(200);
    let refused = by(&rig, "ann", "GET", CONFIG_MAPS, json!({})).await.expect(403).json();
    let why = refused["message"].as_str().unwrap_or_default();
    assert!(why.ends_with(r#": RBAC: role.rbac.authorization.k8s.io "r" not found"#), "{why}");
    rig.delete(&format!("{ROLE_BINDINGS}/r"), Value::Null).await.expect(200);
    assert_eq!(get(&rig, "ann", CONFIG_MAPS).await, 403);
}

#[tokio::test]
async fn put_and_apply_of_a_missing_object_need_create() {
    let rig = rig().await;
    grant(&rig, "r", "ann", json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": ["update", "patch"]}])).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let body = json!({"metadata": {"name": "a"}, "spec": {}});
    let refused = by(&rig, "ann", "PUT", lease, body.clone()).await.expect(403).json();
    assert!(
        refused["message"].as_str().is_some_and(|why| why.contains("cannot create resource \"leases\"")),
        "{refused}"
    );
    let headers = [("impersonate-user", "ann"), ("content-type", "application/apply-patch+yaml")];
    let target = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let applied = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
    rig.send("PATCH", &target, &headers, Body::from(applied)).await.expect(403);
    grant(&rig, "c", "ann", json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": ["create"]}])).await;
    by(&rig, "ann", "PUT", lease, body).await.expect(201);
    rig.send("PATCH", &target, &headers, Body::from(applied)).await.expect(201);
}

#[tokio::test]
async fn users_grant_only_what_they_have() {
    let rig = rig().await;
    grant(
        &rig,
        "own",
        "ann",
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "update"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]),
    )
    .await;
    let role = |name: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]});
    by(&rig, "ann", "POST", ROLES, role("a", "get")).await.expect(201);
    let refused = by(&rig, "ann", "POST", ROLES, role("b", "delete")).await.expect(403).json();
    let why = refused["message"].as_str().unwrap_or_default();
    assert!(
        why.contains(
            "not currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}"
        ),
        "{why}"
    );
    by(&rig, "ann", "PUT", &format!("{ROLES}/a"), role("a", "delete")).await.expect(403);
    by(&rig, "ann", "POST", ROLE_BINDINGS, binding("a", "Role", "a", "bob")).await.expect(201);
    by(&rig, "ann", "POST", ROLE_BINDINGS, binding("b", "ClusterRole", "cluster-admin", "ann"))
        .await
        .expect(403);
    by(&rig, "ann", "POST", ROLE_BINDINGS, binding("b", "Role", "nope", "ann")).await.expect(404);
    grant(&rig, "binder", "ann", json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind", "escalate"]}])).await;
    by(&rig, "ann", "POST", ROLES, role("b", "delete")).await.expect(201);
    by(&rig, "ann", "POST", ROLE_BINDINGS, binding("b", "Role", "b", "ann")).await.expect(201);
}

#[tokio::test]
async fn reviews_answer_as_requests() {
    let rig = rig().await;
    grant(&rig, "r", "ann", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]))
        .await;
    let review = |verb: &str| json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": "configmaps"}}});
    let status = |answer: Answer| answer.expect(201).json()["status"].clone();
    assert_eq!(
        status(by(&rig, "ann", "POST", REVIEWS, review("list")).await),
        json!({"allowed": true, "reason": "RBAC: allowed by RoleBinding \"r/default\" of Role \"r\" to User \"ann\""})
    );
    assert_eq!(status(by(&rig, "ann", "POST", REVIEWS, review("get")).await), json!({"allowed": false}));
    let of_ann = json!({"spec": {"user": "ann", "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "configmaps"}}});
    let all = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(rig.post(all, of_ann.clone()).await.expect(201).json()["status"]["allowed"], true);
    by(&rig, "ann", "POST", all, of_ann).await.expect(403);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let found = status(by(&rig, "ann", "POST", rules, json!({"spec": {"namespace": "default"}})).await);
    let own = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]});
    assert!(found["resourceRules"].as_array().is_some_and(|rules| rules.contains(&own)), "{found}");
}

#[tokio::test]
async fn impersonation_needs_rights() {
    let rig = rig().await;
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "ops")];
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let found = rig.send("POST", reviews, &headers, Body::from("{}")).await.expect(201).json();
    assert_eq!(
        found["status"]["userInfo"],
        json!({"username": "ann", "groups": ["ops", "system:authenticated"]})
    );
    rig.send("POST", reviews, &headers[1..], Body::from("{}")).await.expect(400);
}

/// A user with every right of constrained impersonation becomes no administrator.
#[tokio::test]
async fn constrained_impersonation_excludes_administrators() {
    let rig = rig().await;
    let modes = ["serviceaccount", "arbitrary-node", "user-info"];
    let on: Vec<String> = modes.iter().map(|mode| format!("impersonate-on:{mode}:list")).collect();
    let verbs: Vec<String> = modes.iter().map(|mode| format!("impersonate:{mode}")).collect();
    let rules = json!([{"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": on}]);
    rig.post(CLUSTER_ROLES, json!({"metadata": {"name": "actor"}, "rules": rules})).await.expect(201);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    rig.post(bindings, binding("actor", "ClusterRole", "actor", "ann")).await.expect(201);
    let account = ("impersonate-user", "system:serviceaccount:default:default");
    let masters = ("impersonate-group", "system:masters");
    let node = ("impersonate-user", "system:node:x");
    for (case, headers, want) in [
        ("1 an account", vec![account], "User \"system:serviceaccount:default:default\" cannot list"),
        ("2 a node", vec![node], "User \"system:node:x\" cannot list"),
        ("3 a user", vec![("impersonate-user", "bob")], "User \"bob\" cannot list"),
        (
            "4 an account in masters",
            vec![account, masters],
            "User \"ann\" cannot impersonate resource \"serviceaccounts\"",
        ),
        ("5 a node in masters", vec![node, masters], "User \"ann\" cannot impersonate resource \"users\""),
        ("6 an account with a UID", vec![account, ("impersonate-uid", "u")], "cannot impersonate resource"),
        (
            "7 a node with extra",
            vec![node, ("impersonate-extra-a.b%2fc", "d")],
            "cannot impersonate resource",
        ),
        (
            "8 a user in masters",
            vec![("impersonate-user", "bob"), masters],
            "impersonating the system:masters group is not allowed",
        ),
        (
            "9 no node's name",
            vec![("impersonate-user", "system:node:BAD_"), masters],
            "impersonating the system:masters group is not allowed",
        ),
    ] {
        let mut request = http::Request::get("/api/v1/namespaces/default/secrets");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.extension(UserInfo::new("ann", [])).body(Body::empty()).unwrap();
        let response = rig.server.service().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 403, "{case}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let found: Value = serde_json::from_slice(&bytes).unwrap();
        let message = found["message"].as_str().unwrap_or_default();
        assert!(message.contains(want), "{case}: {message}");
    }
}

#[tokio::test]
async fn request_without_a_user_fails() {
    for modes in [vec![AuthorizationMode::Rbac], vec![AuthorizationMode::AlwaysAllow]] {
        let rig = Rig::with(|config| config.authorization = modes).await;
        for path in ["/api/v1/namespaces/default/secrets", "/apis/orlop.dev/v1/revisions", "/version"] {
            let request = http::Request::get(path).body(Body::empty()).unwrap();
            let response = rig.server.service().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 500, "{path}");
        }
    }
}

#[tokio::test]
async fn bootstrap_objects_are_restored_at_start() {
    let first = rig().await;
    let view = format!("{CLUSTER_ROLES}/view");
    let admin = format!("{CLUSTER_ROLES}/cluster-admin");
    let node = format!("{CLUSTER_ROLES}/system:node");
    first.delete(&view, Value::Null).await.expect(200);
    first.patch(&admin, "merge", json!({"rules": []})).await.expect(200);
    let own = json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    first.patch(&node, "merge", own).await.expect(200);
    let second =
        Rig::on_with(first.store.clone(), |config| config.authorization = vec![AuthorizationMode::Rbac])
            .await;
    second.get(&view).await.expect(200);
    assert_eq!(second.get(&admin).await.expect(200).json()["rules"].as_array().map(Vec::len), Some(2));
    assert_eq!(second.get(&node).await.expect(200).json()["rules"], Value::Null);
}

/// The health of the server is visible without a name, and nothing else is.
#[tokio::test]
async fn anonymous_user_sees_public_paths() {
    let rig = rig().await;
    for (target, code) in
        [("/livez", 200), ("/version", 200), ("/livez/ping", 403), ("/api", 403), (CONFIG_MAPS, 403)]
    {
        assert_eq!(get(&rig, "system:anonymous", target).await, code, "{target}");
    }
    for target in ["/metrics", "/orlop/snapshot", "/apis/orlop.dev/v1/stream", "/apis/orlop.dev/v1/capture"] {
        assert_eq!(get(&rig, "ann", target).await, 403, "{target}");
    }
}

/// AlwaysAllow permits every request of an authenticated user, and an anonymous user is none.
#[tokio::test]
async fn anonymous_user_is_rejected_where_roles_do_not_decide_alone() {
    let rig = Rig::with(|config| {
        config.authorization = vec![AuthorizationMode::AlwaysAllow, AuthorizationMode::Rbac];
        config.auth.client_authorities = Some(std::sync::Arc::default());
    })
    .await;
    for (target, code) in [("/livez", 200), ("/api", 401), ("/orlop/snapshot", 401), (CONFIG_MAPS, 401)] {
        let request = http::Request::get(target).body(Body::empty()).unwrap();
        let response = rig.server.protect(rig.server.service()).oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), code, "{target}");
    }
}

/// The objects that a plan writes need the same rights as ordinary writes.
#[tokio::test]
async fn safe_verbs_need_the_rights_of_their_writes() {
    let rig = rig().await;
    rig.config_map("a", json!({})).await;
    rig.delete(&format!("{CONFIG_MAPS}/a"), Value::Null).await.expect(200);
    grant(
        &rig,
        "r",
        "ann",
        json!([{"apiGroups": ["orlop.dev"], "resources": ["configmaps/undelete"], "verbs": ["create"]}]),
    )
    .await;
    grant(&rig, "g", "ann", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]))
        .await;
    let undelete = "/apis/orlop.dev/v1/namespaces/default/configmaps/a/undelete";
    let refused = by(&rig, "ann", "POST", undelete, json!({})).await.expect(403).json();
    assert!(
        refused["message"].as_str().is_some_and(|why| why.contains("cannot create resource \"configmaps\"")),
        "{refused}"
    );
    grant(&rig, "c", "ann", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]))
        .await;
    by(&rig, "ann", "POST", undelete, json!({})).await.expect(200);
}

pub(super) const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy with parameters, and a binding to it.
fn with_parameters(kind: &str) -> (Value, Value) {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": kind}, "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "messageExpression": "string(params.data.k)"}]}});
    let reference = json!({"name": "s", "namespace": "default", "parameterNotFoundAction": "Allow"});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference,
        "validationActions": ["Deny"]}});
    (policy, binding)
}

/// The message of a policy could otherwise show its author any Secret.
#[tokio::test]
async fn authors_of_policies_need_the_right_to_read_the_parameters() {
    let rig = rig().await;
    let policies = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    let [of_policies, of_bindings] = policies.map(|plural| format!("{POLICIES}/{plural}"));
    let all = json!([{"apiGroups": ["admissionregistration.k8s.io", "orlop.dev"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let cluster = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    rig.post(CLUSTER_ROLES, cluster("author", all)).await.expect(201);
    rig.post(CLUSTER_ROLE_BINDINGS, binding("author", "ClusterRole", "author", "ann")).await.expect(201);
    let (policy, binding) = with_parameters("Secret");
    let (harmless, _) = with_parameters("ConfigMap");

    let refused = by(&rig, "ann", "POST", &of_policies, policy.clone()).await.expect(422).json();
    assert_eq!(
        refused["message"],
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.paramKind: Forbidden: user &{ann  \
         [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind \
         (kind=Secret, apiVersion=v1)"
    );
    by(&rig, "ann", "POST", &of_policies, harmless).await.expect(201);
    let change = json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}});
    let headers = [("impersonate-user", "ann"), ("content-type", "application/merge-patch+json")];
    let one = format!("{of_policies}/p");
    rig.send("PATCH", &one, &headers, Body::from(change.to_string())).await.expect(422);
    rig.delete(&one, Value::Null).await.expect(200);

    // A binding to the policy of an administrator, and a plan that restores a policy.
    rig.post(&of_policies, policy).await.expect(201);
    let refused = by(&rig, "ann", "POST", &of_bindings, binding.clone()).await.expect(422).json();
    let want = "spec.paramRef: Forbidden: user &{ann  [system:authenticated] map[]} does not have \"get\" permission on the \
                object referenced by paramRef";
    assert!(refused["message"].as_str().is_some_and(|why| why.ends_with(want)), "{refused}");
    rig.delete(&one, Value::Null).await.expect(200);
    let undelete = "/apis/orlop.dev/v1/validatingadmissionpolicies.admissionregistration.k8s.io/p/undelete";
    by(&rig, "ann", "POST", undelete, json!({})).await.expect(422);
    rig.post(undelete, json!({})).await.expect(200);

    // With the right to the object, the binding is permitted.
    let named =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]}]);
    grant(&rig, "named", "ann", named).await;
    by(&rig, "ann", "POST", &of_bindings, binding).await.expect(201);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    rig.send("PATCH", &one, &headers, Body::from(label.to_string())).await.expect(200);
}
