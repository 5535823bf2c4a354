//! Real objects, patches, texts and requests as starting points for mutation.

pub(super) use orlop_codec::samples::object;
use serde_json::{Value, json};

use super::fixture::HIDDEN;
use super::{choice, kinds};
use crate::encode::{protobuf, shape};

/// The objects that a server stores before the requests of an input, with their collections.
pub(super) fn stored() -> Vec<(&'static str, Value)> {
    let pod = json!({
        "metadata": {"name": "it", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": HIDDEN}]}]},
    });
    let claim = json!({
        "metadata": {"name": "it", "annotations": {"a": HIDDEN}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volume = json!({
        "metadata": {"name": "it"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}},
    });
    let map = json!({"metadata": {"name": "it", "finalizers": ["a.example/b"]}, "data": {"a": "1"}});
    let secret = json!({"metadata": {"name": "it", "annotations": {"a": HIDDEN}}, "data": {"a": "MQ=="}});
    vec![
        ("/api/v1/namespaces/default/configmaps", map),
        ("/api/v1/namespaces/default/secrets", secret),
        ("/api/v1/namespaces/default/pods", pod),
        ("/api/v1/namespaces/default/persistentvolumeclaims", claim),
        ("/api/v1/persistentvolumes", volume),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "it"}, "provisioner": "a.example"}),
        ),
    ]
}

/// Patches of one object: JSON, merge, strategic.
pub(super) const PATCHES: [&[&str]; 3] = [
    &[
        r#"[{"op":"add","path":"/metadata/labels/a~1b","value":"c"},{"op":"test","path":"/metadata/name","value":"it"}]"#,
        r#"[{"op":"move","from":"/spec/containers/0","path":"/spec/containers/-"},{"op":"remove","path":"/metadata/labels"}]"#,
        r#"[{"op":"copy","from":"/metadata","path":"/spec/x"},{"op":"replace","path":"","value":{}}]"#,
    ],
    &[
        r#"{"metadata":{"labels":{"app":null,"new":"x"},"annotations":null},"data":{"a":null,"z":"1"}}"#,
        r#"{"spec":{"containers":[{"name":"main","image":"other"}],"nodeName":null},"status":{"phase":"Failed"}}"#,
    ],
    &[
        r#"{"spec":{"containers":[{"name":"main","image":"other"},{"name":"side","$patch":"delete"}],"$setElementOrder/containers":[{"name":"main"}]}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pvc-protection"],"finalizers":["a/b"],"labels":{"$patch":"replace","x":"y"}}}"#,
        r#"{"spec":{"$retainKeys":["containers"],"volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}}"#,
        r#"{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"u"}],"ownerReferences":[{"uid":"u","name":"n"}]}}"#,
    ],
];

/// Documents of two managers.
pub(super) const APPLIES: &[(&str, &str, &str)] = &[
    (
        "",
        "configmaps",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: it, labels: {a: b}}, data: {a: \"1\", b: x}}\n%%\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: it}\ndata:\n  b: y\n  c: |\n    z\n",
    ),
    (
        "",
        "pods",
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"it\",\"finalizers\":[\"a/b\"]},\"spec\":\
         {\"containers\":[{\"name\":\"a\",\"image\":\"i\",\"ports\":[{\"containerPort\":80,\"protocol\":\"TCP\"}]}]}}\
         \n%%\napiVersion: v1\nkind: Pod\nmetadata: {name: it}\nspec:\n  containers:\n  - name: a\n    image: j\n  \
         - {name: b, image: k, env: [{name: A, value: x}]}\n",
    ),
    (
        "",
        "persistentvolumeclaims",
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: it}, spec: {accessModes: [ReadWriteOnce], \
         resources: {requests: {storage: 1Gi}}}}\n%%\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: \
         {name: it}, spec: {accessModes: null, resources: {requests: {storage: 2Gi}}}}",
    ),
];

/// Selectors, continue tokens, targets and headers.
pub(super) const SELECTORS: &[&str] = &[
    "a=b,c!=d,e==f",
    "a in (b, c),d notin (e),f,!g",
    "n>5,m<3",
    "metadata.name=it,metadata.namespace!=a,status.phase=Bound",
    "spec.volumeName=a\\,b\\=c\\\\",
    "example.com/a=b",
];
pub(super) const TOKENS: &[&str] = &[
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NywgInN0YXJ0IjoiL2RlZmF1bHQvaXRcdTAwMDAifQ",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
    "",
];
pub(super) const TARGETS: &[&str] = &[
    "/api/v1/namespaces/default/pods/it/status?dryRun=All&fieldManager=m&force=true&fieldValidation=Strict",
    "/api/v1/pods?limit=1&continue=abc&resourceVersion=5&resourceVersionMatch=Exact&labelSelector=a%3Db",
    "/api/v1/watch/namespaces/default/configmaps/it?timeoutSeconds=1&allowWatchBookmarks=1&sendInitialEvents=true",
    "/apis/storage.k8s.io/v1/storageclasses/it?pretty=1&timeout=1h2m3.5s&includeObject=None",
    "/api/v1/namespaces/a/bindings?gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=true",
    "/api/v1/namespaces/%2e%2e/pods/%00?watch=false",
];
pub(super) const ACCEPTS: &[&str] = &[
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5",
    "application/vnd.kubernetes.protobuf;stream=watch, application/yaml;q=0.9, */*;q=nan",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=\"meta.k8s.io\";pretty=1",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];
pub(super) const JSON_PATHS: &[&str] = &[
    ".spec.a\n{\"spec\":{\"a\":\"b\"}}",
    ".status.conditions[?(@.type==\"Ready\")].status\n{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
    "{..a['b\\.c'][-1:]}\n{\"spec\":{\"a\":{\"b.c\":[1,2]}}}",
    "[?(@.n>=1.5)].*\n[]",
];
pub(super) const REQUESTS: &[&str] = &[
    "POST /api/v1/namespaces/default/configmaps?fieldManager=a\ncontent-type: application/json\n\n{\"metadata\":{\"name\":\"b\",\"labels\":{\"a\":\"b\"}},\"data\":{\"k\":\"v\"}}\n%%\nGET /api/v1/configmaps?limit=1&labelSelector=a\naccept: application/yaml\n\n",
    "PATCH /api/v1/namespaces/default/pods/it\ncontent-type: application/strategic-merge-patch+json\n\n{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"j\"}]}}\n%%\nGET /api/v1/namespaces/default/pods/it\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n",
    "PATCH /api/v1/namespaces/default/configmaps/it?fieldManager=a&force=1\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: it}\ndata: {a: b}\n%%\nPATCH /api/v1/namespaces/default/configmaps/it?fieldManager=b\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\ndata: {a: c}\n",
    "DELETE /api/v1/namespaces/default/pods/it?gracePeriodSeconds=5\n\n{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"x\"}}\n%%\nDELETE /api/v1/namespaces/default/configmaps?labelSelector=a\n\n",
    "PUT /api/v1/persistentvolumes/it/status\ncontent-type: application/yaml\n\nmetadata: {name: it}\nstatus: {phase: Bound}\nspec: {}\n%%\nGET /api/v1/persistentvolumes?watch=1&resourceVersion=1&allowWatchBookmarks=true\n\n",
    "PATCH /api/v1/namespaces/default/persistentvolumeclaims/it/status\ncontent-type: application/json-patch+json\n\n[{\"op\":\"add\",\"path\":\"/status/capacity\",\"value\":{\"storage\":\"1Gi\"}}]\n%%\nPOST /api/v1/namespaces/default/pods/it/binding\n\n{\"target\":{\"kind\":\"Node\",\"name\":\"n\"}}",
    "GET /apis\naccept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n\n\n%%\nGET /openapi/v3/api/v1?hash=1\n\n\n%%\nGET /readyz?verbose&exclude=ping\n\n\n%%\nGET /metrics\n\n\n%%\nPUT /api/v1/namespaces/default/finalize\n\n{\"spec\":{\"finalizers\":[]}}",
    "GET /api/v1/namespaces/default/secrets/it\nauthorization: Bearer e30.e30.e30\nimpersonate-user: system:admin\nimpersonate-group: system:masters\n\n\n%%\nGET /api/v1/namespaces/default/configmaps/it\nimpersonate-user: system:serviceaccount:default:limited\nimpersonate-uid: u\nimpersonate-extra-a%2fb: c\n\n",
    "GET /api/v1/pods\nx-remote-user: system:admin\nx-remote-group: system:masters\nx-remote-extra-a%2fb: c\n\n\n%%\nGET /api/v1/secrets?watch=1\nauthorization: Basic YTpi\n\n\n%%\nGET /apis/orlop.dev/v1/stream?resource=secrets\nauthorization: bearer  x\n\n",
    "POST /apis/authentication.k8s.io/v1/tokenreviews\n\n{\"spec\":{\"token\":\"abcdef.0123456789abcdef\"}}\n%%\nPOST /api/v1/namespaces/default/serviceaccounts/limited/token\n\n{\"spec\":{\"expirationSeconds\":600,\"boundObjectRef\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"name\":\"it\"}}}\n%%\nPOST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews\n\n{\"spec\":{\"namespace\":\"default\"}}",
    "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings\n\n{\"metadata\":{\"name\":\"b\"},\"roleRef\":{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"cluster-admin\"},\"subjects\":[{\"kind\":\"Group\",\"apiGroup\":\"rbac.authorization.k8s.io\",\"name\":\"system:unauthenticated\"}]}\n%%\nGET /api/v1/namespaces/default/pods/it/status\n\n\n%%\nPATCH /api/v1/namespaces/default/serviceaccounts/limited\ncontent-type: application/merge-patch+json\n\n{\"metadata\":{\"labels\":{\"a\":\"b\"}}}",
];

pub(super) const BEARER_TOKENS: &[&str] = &[
    "abcdef.0123456789abcdef",
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2kiLCJhdWQiOiJjIn0.AAAA",
    "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2kifQ.",
];
pub(super) const ISSUER_DOCUMENTS: &[&str] = &[
    r#"{"iss":"https://i","aud":["c"],"exp":60,"nbf":0.5,"sub":"ann","groups":["a","b"],"jti":"1"}"#,
    r#"{"iss":"https://i","aud":"c","exp":60,"sub":"ann","groups":"a"}"#,
    r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"},{"kty":"RSA","n":"AQ","e":"AQAB","kid":"k"}]}"#,
];
/// A key of an unsupported kind (RFC 8410), and damaged blocks.
pub(super) const CERTIFICATES: &[&str] = &[
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n",
    "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n",
    "0\u{3}0\u{1}\0",
];

/// Small inputs of a fuzz target: real objects and their like.
pub(super) fn inputs(target: &str) -> Vec<Vec<u8>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let led = |lead: &[u8], rest: &[u8]| [lead, rest].concat();
    let patches = |which: usize| {
        let lead = [choice("", "pods")];
        PATCHES[which].iter().map(|patch| led(&lead, patch.as_bytes())).collect()
    };
    match target {
        "json_body" | "yaml_body" | "protobuf_body" => kinds()
            .map(|kind| {
                let names = kind.names();
                let value = shape::with_kind(kind, object(kind));
                let body = match target {
                    "protobuf_body" => {
                        protobuf::encode(&value).expect("every stored kind has a protobuf form")
                    }
                    _ => value.to_string().into_bytes(),
                };
                led(&[choice(names.group, names.plural), 2], &body)
            })
            .collect(),
        "json_patch" => patches(0),
        "merge_patch" => patches(1),
        "strategic_patch" => patches(2),
        "apply" => APPLIES
            .iter()
            .map(|(group, plural, text)| led(&[choice(group, plural), 1], text.as_bytes()))
            .collect(),
        "selectors" => texts(SELECTORS),
        "continue_token" => texts(TOKENS),
        "query" => texts(TARGETS),
        "accept" => texts(ACCEPTS),
        "json_path" => texts(JSON_PATHS),
        "bearer_token" => texts(BEARER_TOKENS),
        "issuer_document" => texts(ISSUER_DOCUMENTS),
        "certificate" => texts(CERTIFICATES),
        "requests" => texts(REQUESTS),
        _ => Vec::new(),
    }
}
