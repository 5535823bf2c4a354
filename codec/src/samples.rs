//! Provides a sample object of every kind, for tests and as seeds of the fuzz targets.

use orlop_api::object::Object;
#[cfg(test)]
use orlop_api::registry::BUILTIN_KINDS;
use orlop_api::registry::Kind;
use serde_json::{Value, json};

use crate::decode::{FieldValidation, Media, decode_object};

/// The metadata of every sample.
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

/// The members of a kind's sample apart from its metadata; empty for kinds without a sample.
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
        ("certificates.k8s.io", "certificatesigningrequests") => json!({
            "spec": {
                "request": "AAEC/w==", "signerName": "example.com/signer", "usages": ["client auth"],
                "expirationSeconds": 3600, "username": "u", "groups": ["g"], "extra": {"k": ["v"]},
            },
            "status": {
                "conditions": [{
                    "type": "Approved", "status": "True", "reason": "r", "message": "m",
                    "lastUpdateTime": "2026-01-01T12:00:00Z", "lastTransitionTime": "2026-01-01T12:00:00Z",
                }],
                "certificate": "AAEC/w==",
            },
        }),
        ("batch", "jobs") => json!({
            "spec": {
                "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "suspend": false,
                "podFailurePolicy": {"rules": [{
                    "action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2], "containerName": "c"},
                }]},
                "successPolicy": {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]},
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
            "status": {
                "active": 1, "ready": 0, "startTime": "2026-01-01T12:00:00Z", "completedIndexes": "0",
                "uncountedTerminatedPods": {"succeeded": ["u"]},
                "conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}],
            },
        }),
        ("autoscaling", "horizontalpodautoscalers") => json!({
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "minReplicas": 2, "maxReplicas": 5,
            },
            "status": {"currentReplicas": 2, "desiredReplicas": 3, "lastScaleTime": "2026-01-01T12:00:00Z"},
        }),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => json!({
            "spec": {
                "priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 1000,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{
                    "subjects": [{"kind": "User", "user": {"name": "u"}}],
                    "resourceRules": [{
                        "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"],
                        "clusterScope": true,
                    }],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/x"]}],
                }],
            },
        }),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => json!({
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 0, "lendablePercent": 5, "borrowingLimitPercent": 10,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}},
            }},
        }),
        ("networking.k8s.io", "ipaddresses") => json!({
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}},
        }),
        ("networking.k8s.io", "servicecidrs") => json!({"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}),
        ("apiregistration.k8s.io", "apiservices") => json!({
            "spec": {
                "group": "a.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "service": {"namespace": "default", "name": "s", "port": 443}, "caBundle": "AAEC/w==",
            },
        }),
        ("node.k8s.io", "runtimeclasses") => json!({
            "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
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

/// The sample of a kind as sent by a client, without kind and apiVersion.
pub fn sent(kind: &dyn Kind) -> Value {
    let names = kind.names();
    let mut object = members(names.group, names.plural);
    object["metadata"] = metadata("it");
    object
}

/// The sample of a kind as stored.
pub fn object(kind: &dyn Kind) -> Object {
    let text = sent(kind).to_string();
    let decoded = decode_object(kind, Media::Json, text.as_bytes(), FieldValidation::Strict);
    decoded.unwrap_or_else(|error| panic!("the sample of {}: {error}", kind.names().plural)).object
}

/// A sample of every stored built-in kind, in the form that the API returns.
#[cfg(test)]
pub fn sample_objects() -> Vec<(&'static dyn Kind, Object)> {
    let kinds = BUILTIN_KINDS.iter().copied().filter(|kind| kind.is_stored());
    kinds.map(|kind| (kind, object(kind))).collect()
}
