//! Objects that cannot be read, and that decisions or the server's own writers need: decisions fail, and writers do not replace them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use orlop_pki::authority::Authority;
use orlop_store::{Kv, Revision};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::rig::{Rig, text};
use super::unreadable::open_for;
use crate::authorization::{self, AuthorizationMode};
use crate::peer_certificates::ClientAuthorities;
use crate::projection::Projection;
use crate::server::Config;
use crate::state::ClusterInfo;
use crate::{background, cluster_info};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// The configuration of a server that writes all the objects of its own. `nth` changes what they contain.
fn with_own_objects(config: &mut Config, nth: u16) {
    config.authorization = vec![AuthorizationMode::Rbac];
    config.advertised = Some(([10, 0, 0, 1], 6443 + nth).into());
    config.cluster_info =
        Some(ClusterInfo { server: format!("https://host-{nth}:6443"), authority: "authority".to_owned() });
    let authority = Authority::create("2026-01-01T12:00:00Z".parse().unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    let current = Arc::new(ClientAuthorities::default());
    current.replace(vec![certificate], Vec::new()).unwrap();
    config.auth.client_authorities = Some(current);
}

/// The stored bytes of all records, and when they were written.
fn stored(store: &Arc<dyn Kv<Projection>>) -> BTreeMap<String, (Revision, Bytes)> {
    let head = store.head();
    let records = head.range("/registry/", None);
    records
        .map(|record| (record.key.as_str().to_owned(), (record.mod_revision, record.stored_bytes().clone())))
        .collect()
}

/// A server with the wrong encryption key starts, and its writers change no object.
#[tokio::test]
async fn servers_own_writers_replace_no_unreadable_object() {
    let dir = tempfile::tempdir().unwrap();
    let first = Rig::on_with(open_for(dir.path(), 1, &[]), |config| with_own_objects(config, 0)).await;
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"});
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin";
    first
        .patch(binding, "json", json!([{"op": "add", "path": "/subjects/-", "value": subject}]))
        .await
        .expect(200);
    let before = stored(&first.store);
    for key in [
        "/registry/clusterrolebindings/cluster-admin",
        "/registry/services/default/kubernetes",
        "/registry/endpointslices/default/kubernetes",
        "/registry/configmaps/kube-public/cluster-info",
        "/registry/configmaps/kube-system/extension-apiserver-authentication",
    ] {
        assert!(before.get(key).is_some_and(|(_, bytes)| bytes.starts_with(b"%")), "{key} is encrypted");
    }
    first.store.close().await;
    drop(first);

    let rig = Rig::on_with(open_for(dir.path(), 2, &[]), |config| with_own_objects(config, 1)).await;
    let inner = rig.server.inner();
    background::keep_kubernetes_service(&inner).await;
    background::keep_extension_authentication(&inner).await;
    authorization::bootstrap::write(&inner).await.unwrap();
    cluster_info::publish(&inner, inner.config.cluster_info.as_ref().unwrap()).await.unwrap();
    assert_eq!(stored(&rig.store), before);
    rig.store.close().await;
    drop((rig, inner));

    let again = Rig::on_with(open_for(dir.path(), 1, &[]), |config| with_own_objects(config, 1)).await;
    let bound = again.get(binding).await.expect(200).json();
    assert!(bound["subjects"].as_array().unwrap().iter().any(|subject| subject["name"] == "ann"), "{bound}");
    let map = again.get("/api/v1/namespaces/kube-public/configmaps/cluster-info").await.expect(200);
    assert!(map.text().contains("https://host-1:6443"), "with the key, it is corrected");
    again.store.close().await;
}

/// An object that a decision needs: the topic that is unreadable, the objects to create, and the request.
struct Case {
    topic: &'static str,
    objects: Vec<(String, Value)>,
    request: (String, Value),
    /// The unreadable object.
    unreadable: String,
}

fn map() -> (String, Value) {
    (MAPS.to_owned(), json!({"metadata": {"name": "m"}}))
}

fn claim() -> (String, Value) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    (CLAIMS.to_owned(), json!({"metadata": {"name": "c"}, "spec": spec}))
}

fn pod(name: &str) -> (String, Value) {
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    (PODS.to_owned(), json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}))
}

fn cases() -> Vec<Case> {
    let rules = |resource: &str| json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}]);
    let webhook = json!({"name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore", "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": rules("configmaps")});
    let policy = |params: Value| {
        json!({"metadata": {"name": "o"}, "spec": {"failurePolicy": "Ignore", "paramKind": params,
            "matchConstraints": {"resourceRules": rules("secrets")}, "validations": [{"expression": "true"}]}})
    };
    let case = |topic, plural: &str, body: Value, request| {
        let path = plural.to_owned();
        Case { topic, objects: vec![(path.clone(), body)], request, unreadable: format!("{path}/o") }
    };
    let named = |rest: Value| {
        let mut body = json!({"metadata": {"name": "o"}});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body
    };
    let namespaced = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    vec![
        case(
            "/registry/validatingwebhookconfigurations/",
            &format!("{ADMISSION}/validatingwebhookconfigurations"),
            named(json!({"webhooks": [webhook.clone()]})),
            map(),
        ),
        case(
            "/registry/mutatingwebhookconfigurations/",
            &format!("{ADMISSION}/mutatingwebhookconfigurations"),
            named(json!({"webhooks": [webhook]})),
            map(),
        ),
        case(
            "/registry/validatingadmissionpolicies/",
            &format!("{ADMISSION}/validatingadmissionpolicies"),
            policy(Value::Null),
            map(),
        ),
        case(
            "/registry/resourcequotas/",
            &namespaced("resourcequotas"),
            named(json!({"spec": {"hard": {"persistentvolumeclaims": "0"}}})),
            claim(),
        ),
        case(
            "/registry/limitranges/",
            &namespaced("limitranges"),
            named(
                json!({"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Mi"}}]}}),
            ),
            claim(),
        ),
        case(
            "/registry/storageclasses/",
            "/apis/storage.k8s.io/v1/storageclasses",
            named(json!({"provisioner": "p"})),
            claim(),
        ),
        case(
            "/registry/priorityclasses/",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            named(json!({"value": 1})),
            pod("p"),
        ),
        Case {
            topic: "/registry/poddisruptionbudgets/",
            objects: vec![
                pod("p"),
                (
                    "/apis/policy/v1/namespaces/default/poddisruptionbudgets".to_owned(),
                    named(json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}})),
                ),
            ],
            request: (format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}})),
            unreadable: "/apis/policy/v1/namespaces/default/poddisruptionbudgets/o".to_owned(),
        },
        Case {
            topic: "/registry/configmaps/",
            objects: vec![
                (MAPS.to_owned(), json!({"metadata": {"name": "o"}})),
                (
                    format!("{ADMISSION}/validatingadmissionpolicies"),
                    policy(json!({"apiVersion": "v1", "kind": "ConfigMap"})),
                ),
                (
                    format!("{ADMISSION}/validatingadmissionpolicybindings"),
                    json!({"metadata": {"name": "b"}, "spec": {"policyName": "o", "validationActions": ["Deny"],
                        "paramRef": {"name": "o", "namespace": "default", "parameterNotFoundAction": "Allow"}}}),
                ),
            ],
            request: ("/api/v1/namespaces/default/secrets".to_owned(), json!({"metadata": {"name": "s"}})),
            unreadable: format!("{MAPS}/o"),
        },
    ]
}

#[tokio::test]
async fn decisions_fail_without_the_objects_that_they_need() {
    for Case { topic, objects, request: (target, body), unreadable } in cases() {
        let dir = tempfile::tempdir().unwrap();
        let first = Rig::on(open_for(dir.path(), 1, &[topic])).await;
        for (path, object) in objects {
            first.post(&path, object).await.expect(201);
        }
        if target.ends_with("eviction") {
            let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            first.patch(&format!("{PODS}/p/status"), "merge", json!({"status": status})).await.expect(200);
        }
        first.store.close().await;
        drop(first);

        let rig = Rig::on(open_for(dir.path(), 2, &[topic])).await;
        let refused = rig.post(&target, body.clone()).await.expect(500).json();
        assert_eq!(text(&refused, "/reason"), "InternalError", "{topic}: {refused}");
        let message = text(&refused, "/message");
        let start = format!("Internal error occurred: unable to transform key \"{topic}");
        assert!(message.starts_with(&start), "{topic}: {message}");
        // The cluster is repaired by deleting the object.
        let options = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
        for system in ["system-cluster-critical", "system-node-critical"] {
            if topic == "/registry/priorityclasses/" {
                let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{system}");
                rig.delete(&path, options.clone()).await.expect(200);
            }
        }
        rig.delete(&unreadable, options).await.expect(200);
        rig.post(&target, body).await.expect(201);
        rig.store.close().await;
    }
}

/// A pod is not admitted into a namespace whose level of Pod Security is unknown.
#[tokio::test]
async fn nothing_is_created_in_an_unreadable_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let topic = "/registry/namespaces/";
    let first = Rig::on(open_for(dir.path(), 1, &[topic])).await;
    first.store.close().await;
    drop(first);
    let rig = Rig::on(open_for(dir.path(), 2, &[topic])).await;
    for (target, body) in [map(), pod("p")] {
        let refused = rig.post(&target, body).await.expect(500).json();
        assert_eq!(text(&refused, "/reason"), "InternalError", "{refused}");
    }
    rig.store.close().await;
}
