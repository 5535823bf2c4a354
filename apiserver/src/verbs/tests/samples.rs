//! Minimal objects of every kind, which a create accepts without warnings.

use serde_json::{Value, json};

use crate::registry::{Kind, Scope};

/// A request with an Ed25519 key, in PEM and base64.
pub(super) const CERTIFICATE_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1Id0NBUUF3SFRFTk1Bc0dBMVVFQ2d3RVpHVjJjekVNTUFvR0ExVUVBd3dEWVc1dU1Db3dCUVlESzJWdwpBeUVBMHE3cFJmUFI2Nzc3TzJ5TlBOdWZNWWlhZjYvZ3VvaW1KMXMzcFo0RGY3K2dMREFxQmdrcWhraUc5dzBCCkNRNHhIVEFiTUJrR0ExVWRFUVFTTUJDQ0RtNHhMbVY0WVcxd2JHVXViM0puTUFVR0F5dGxjQU5CQUw4UXhqUHoKTEV5bWtWZ0tDZVVUbnZ0Sk8zdlRJaExPaVBiU0lCam5UeVhUdkZtamF3Vk50WUpIelp4VXZyTkZLcDBDV3o4cAo5eWUyQzA4aG9jODcvd2s9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

/// The collection path of a kind, in the namespace `default` if the kind is namespaced.
pub(super) fn collection(kind: &dyn Kind) -> String {
    let names = kind.names();
    let root = if names.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", names.group) };
    let namespace = match kind.scope() {
        Scope::Cluster => "",
        Scope::Namespaced => "namespaces/default/",
    };
    format!("{root}/{}/{namespace}{}", names.version, names.plural)
}

/// A minimal object of a kind with this name.
pub(super) fn sample(kind: &dyn Kind, name: &str) -> Value {
    let names = kind.names();
    let mut object = members(names.group, names.plural);
    object["metadata"] = json!({"name": name, "labels": {"walk": "yes"}});
    object
}

fn members(group: &str, plural: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "a"}});
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let job = json!({
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    });
    let devices = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "a.example"}}]});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    match (group, plural) {
        (
            "",
            "configmaps" | "limitranges" | "namespaces" | "nodes" | "resourcequotas" | "secrets"
            | "serviceaccounts",
        ) => json!({}),
        ("", "events") => json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}),
        ("events.k8s.io", "events") => json!({
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.example/c",
            "reportingInstance": "i", "action": "Act", "reason": "Why", "type": "Normal",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        }),
        ("", "services") => json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}}),
        ("", "endpoints") => {
            json!({"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]})
        }
        ("discovery.k8s.io", "endpointslices") => json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}],
        }),
        ("", "pods") => json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ("", "persistentvolumeclaims") => json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        ("", "persistentvolumes") => json!({
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"},
            },
        }),
        ("", "replicationcontrollers") => json!({"spec": {"selector": {"app": "a"}, "template": template}}),
        ("apps", "deployments" | "replicasets" | "daemonsets") => {
            json!({"spec": {"selector": selector, "template": template}})
        }
        ("apps", "statefulsets") => {
            json!({"spec": {"selector": selector, "template": template, "serviceName": "s"}})
        }
        ("", "podtemplates") => json!({"template": template}),
        ("batch", "jobs") => json!({"spec": job}),
        ("batch", "cronjobs") => json!({"spec": {"schedule": "@hourly", "jobTemplate": {"spec": job}}}),
        ("networking.k8s.io", "ingresses") => {
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        }
        ("networking.k8s.io", "ingressclasses") => json!({"spec": {"controller": "a.example/c"}}),
        ("networking.k8s.io", "networkpolicies") => json!({"spec": {"podSelector": selector}}),
        ("networking.k8s.io", "servicecidrs") => json!({"spec": {"cidrs": ["198.18.0.0/24"]}}),
        ("autoscaling", "horizontalpodautoscalers") => json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3,
        }}),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => {
            json!({"spec": {"priorityLevelConfiguration": {"name": "global-default"}}})
        }
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}})
        }
        ("node.k8s.io", "runtimeclasses") => json!({"handler": "h"}),
        ("resource.k8s.io", "deviceclasses") => json!({"spec": {}}),
        ("resource.k8s.io", "resourceclaims") => json!({"spec": {"devices": devices}}),
        ("resource.k8s.io", "resourceclaimtemplates") => json!({"spec": {"spec": {"devices": devices}}}),
        ("resource.k8s.io", "resourceslices") => json!({"spec": {
            "driver": "a.example", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }}),
        ("apps", "controllerrevisions") => json!({"data": {"spec": {}}, "revision": 1}),
        ("storage.k8s.io", "storageclasses") => json!({"provisioner": "a.example"}),
        ("storage.k8s.io", "csidrivers" | "csinodes") => json!({"spec": {}}),
        ("storage.k8s.io", "csistoragecapacities") => json!({"storageClassName": "c"}),
        ("storage.k8s.io", "volumeattachments") => json!({
            "spec": {"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        }),
        ("storage.k8s.io", "volumeattributesclasses") => {
            json!({"driverName": "a.example", "parameters": {"a": "b"}})
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => json!({
            "spec": {"matchConstraints": unserved_kinds(), "validations": [{"expression": "true"}]},
        }),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => json!({
            "spec": {
                "matchConstraints": unserved_kinds(), "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
                    "expression": "[JSONPatch{op: 'remove', path: '/spec'}]",
                }}],
            },
        }),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}})
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => {
            json!({"spec": {"policyName": "p"}})
        }
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => json!({"webhooks": []}),
        ("certificates.k8s.io", "certificatesigningrequests") => json!({"spec": {
            "request": CERTIFICATE_REQUEST, "signerName": "example.com/signer", "usages": ["client auth"],
        }}),
        ("coordination.k8s.io", "leases") => json!({"spec": {}}),
        ("scheduling.k8s.io", "priorityclasses") => json!({"value": 5}),
        ("policy", "poddisruptionbudgets") => json!({"spec": {"minAvailable": 1, "selector": selector}}),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => json!({"rules": []}),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => json!({"roleRef": role}),
        _ => panic!("give {plural} of {group:?} a sample here, so that the walk can try it"),
    }
}

/// The constraints of a policy that applies to no kind which this server has.
fn unserved_kinds() -> Value {
    json!({"resourceRules": [{
        "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["things"],
        "operations": ["CREATE"],
    }]})
}
