//! Real objects, patches, texts and requests, which mutation begins with.

use serde_json::{Value, json};

use super::{choice, kinds};
use crate::decode::{FieldValidation, Media, decode_object};
use crate::encode::{protobuf, shape};
use crate::object::Object;
use crate::registry::Kind;

/// What all objects of these seeds have in common.
fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": "0c1f9f4c-5ad6-4f6c-9c63-3bfe3a1a6a11", "generation": 1,
        "resourceVersion": "7", "creationTimestamp": "2026-01-01T12:00:00Z",
        "labels": {"app": "a", "example.com/tier": "b"}, "annotations": {"a.example/b": "c"},
        "finalizers": ["kubernetes.io/pvc-protection"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true,
            "blockOwnerDeletion": true,
        }],
        "managedFields": [{
            "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T12:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a/b\"": {}}}},
        }],
    })
}

/// The members of an object of a kind besides its metadata; nothing for kinds that have no seed.
fn members(group: &str, plural: &str) -> Value {
    match (group, plural) {
        ("", "configmaps") => json!({
            "data": {"a": "1", "b.txt": "two\nlines", "c": ""}, "binaryData": {"d": "AAEC/w=="}, "immutable": false,
        }),
        ("", "secrets") => json!({"type": "Opaque", "data": {"a": "c2VjcmV0", "b": ""}}),
        ("", "namespaces") => json!({
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        }),
        ("", "events") => json!({
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "r",
            "message": "m", "source": {"component": "c"}, "firstTimestamp": "2026-01-01T12:00:00Z",
            "lastTimestamp": "2026-01-01T12:00:00Z", "count": 2, "type": "Normal",
            "eventTime": "2026-01-01T12:00:00.123456Z", "reportingComponent": "", "reportingInstance": "",
        }),
        ("", "nodes") => json!({
            "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        }),
        ("", "persistentvolumeclaims") => json!({
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeName": "v", "storageClassName": "s",
                "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2G"}},
                "volumeMode": "Filesystem", "selector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
                },
            },
            "status": {
                "phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "conditions": [{"type": "Resizing", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}],
            },
        }),
        ("", "persistentvolumes") => json!({
            "spec": {
                "capacity": {"storage": "1.5Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "claimRef": {"namespace": "default", "name": "it", "uid": "u"},
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "s", "mountOptions": ["ro"],
                "csi": {"driver": "d.example", "volumeHandle": "h", "volumeAttributes": {"a": "b"}},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}],
                }]}},
            },
            "status": {"phase": "Bound"},
        }),
        ("", "pods") => pod(),
        ("storage.k8s.io", "storageclasses") => json!({
            "provisioner": "d.example", "parameters": {"type": "fast"}, "reclaimPolicy": "Delete",
            "mountOptions": ["debug"], "allowVolumeExpansion": true, "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a", "b"]}]}],
        }),
        ("storage.k8s.io", "csidrivers") => json!({
            "spec": {
                "attachRequired": true, "podInfoOnMount": true, "volumeLifecycleModes": ["Persistent"],
                "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}],
            },
        }),
        ("storage.k8s.io", "csinodes") => json!({
            "spec": {"drivers": [{
                "name": "d.example", "nodeID": "n", "topologyKeys": ["z"], "allocatable": {"count": 5},
            }]},
        }),
        ("storage.k8s.io", "volumeattachments") => json!({
            "spec": {"attacher": "d.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": true, "attachmentMetadata": {"a": "b"}},
        }),
        ("storage.k8s.io", "csistoragecapacities") => json!({
            "storageClassName": "s", "capacity": "10Gi", "maximumVolumeSize": "1Gi",
            "nodeTopology": {"matchLabels": {"z": "a"}},
        }),
        ("coordination.k8s.io", "leases") => json!({
            "spec": {
                "holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T12:00:00.000001Z",
                "leaseTransitions": 3,
            },
        }),
        _ => json!({}),
    }
}

fn pod() -> Value {
    json!({
        "spec": {
            "restartPolicy": "Always", "nodeName": "n", "terminationGracePeriodSeconds": 30,
            "nodeSelector": {"a": "b"}, "serviceAccountName": "default",
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "it"}},
                {"name": "c", "configMap": {"name": "it", "items": [{"key": "a", "path": "p"}], "defaultMode": 420}},
                {"name": "p", "projected": {"sources": [{"downwardAPI": {"items": [
                    {"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}},
                ]}}]}},
            ],
            "containers": [{
                "name": "main", "image": "i:1", "command": ["sh", "-c"], "args": ["sleep"],
                "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "it", "key": "a"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}, {"name": "c", "mountPath": "/c"}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                "securityContext": {"runAsUser": 1, "capabilities": {"add": ["X"]}},
            }, {"name": "side", "image": "j"}],
            "initContainers": [{"name": "init", "image": "k"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}},
            }]}},
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}],
            "containerStatuses": [{
                "name": "main", "ready": true, "restartCount": 2, "image": "i:1", "imageID": "x",
                "state": {"running": {"startedAt": "2026-01-01T12:00:00Z"}},
            }],
        },
    })
}

/// The seed of a kind, as it is sent, without kind and apiVersion.
pub(super) fn sent(kind: &dyn Kind) -> Value {
    let names = kind.names();
    let mut object = members(names.group, names.plural);
    object["metadata"] = metadata("it");
    object
}

/// The seed of a kind, as it is stored.
pub(super) fn object(kind: &dyn Kind) -> Object {
    let text = sent(kind).to_string();
    let decoded = decode_object(kind, Media::Json, text.as_bytes(), FieldValidation::Strict);
    decoded.unwrap_or_else(|error| panic!("the seed of {}: {error}", kind.names().plural)).object
}

/// What a server holds before bad requests come: collections and objects.
pub(super) fn stored() -> Vec<(&'static str, Value)> {
    let pod = json!({
        "metadata": {"name": "it", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]},
    });
    let claim = json!({
        "metadata": {"name": "it"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volume = json!({
        "metadata": {"name": "it"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}},
    });
    let map = json!({"metadata": {"name": "it", "finalizers": ["a.example/b"]}, "data": {"a": "1"}});
    vec![
        ("/api/v1/namespaces/default/configmaps", map),
        ("/api/v1/namespaces/default/pods", pod),
        ("/api/v1/namespaces/default/persistentvolumeclaims", claim),
        ("/api/v1/persistentvolumes", volume),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "it"}, "provisioner": "a.example"}),
        ),
    ]
}

/// Patches of the object of one kind: JSON, merge, strategic.
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
pub(super) const REQUESTS: &[&str] = &[
    "POST /api/v1/namespaces/default/configmaps?fieldManager=a\ncontent-type: application/json\n\n{\"metadata\":{\"name\":\"b\",\"labels\":{\"a\":\"b\"}},\"data\":{\"k\":\"v\"}}\n%%\nGET /api/v1/configmaps?limit=1&labelSelector=a\naccept: application/yaml\n\n",
    "PATCH /api/v1/namespaces/default/pods/it\ncontent-type: application/strategic-merge-patch+json\n\n{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"j\"}]}}\n%%\nGET /api/v1/namespaces/default/pods/it\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n",
    "PATCH /api/v1/namespaces/default/configmaps/it?fieldManager=a&force=1\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: it}\ndata: {a: b}\n%%\nPATCH /api/v1/namespaces/default/configmaps/it?fieldManager=b\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\ndata: {a: c}\n",
    "DELETE /api/v1/namespaces/default/pods/it?gracePeriodSeconds=5\n\n{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"x\"}}\n%%\nDELETE /api/v1/namespaces/default/configmaps?labelSelector=a\n\n",
    "PUT /api/v1/persistentvolumes/it/status\ncontent-type: application/yaml\n\nmetadata: {name: it}\nstatus: {phase: Bound}\nspec: {}\n%%\nGET /api/v1/persistentvolumes?watch=1&resourceVersion=1&allowWatchBookmarks=true\n\n",
    "PATCH /api/v1/namespaces/default/persistentvolumeclaims/it/status\ncontent-type: application/json-patch+json\n\n[{\"op\":\"add\",\"path\":\"/status/capacity\",\"value\":{\"storage\":\"1Gi\"}}]\n%%\nPOST /api/v1/namespaces/default/pods/it/binding\n\n{\"target\":{\"kind\":\"Node\",\"name\":\"n\"}}",
    "GET /apis\naccept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n\n\n%%\nGET /openapi/v3/api/v1?hash=1\n\n\n%%\nGET /readyz?verbose&exclude=ping\n\n\n%%\nGET /metrics\n\n\n%%\nPUT /api/v1/namespaces/default/finalize\n\n{\"spec\":{\"finalizers\":[]}}",
];

/// First inputs of a target, by its name; what fuzzing begins with.
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
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
        "requests" => texts(REQUESTS),
        _ => Vec::new(),
    }
}
