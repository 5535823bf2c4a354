//! A valid object of each kind, with the fields by which controllers decide.

use serde_json::{Value, json};

/// A valid object.
pub(super) struct Sample {
    /// The path of its collection.
    pub(super) path: &'static str,
    /// Its API version.
    pub(super) group_version: &'static str,
    /// Its kind.
    pub(super) kind: &'static str,
    /// The object, without a name.
    pub(super) object: Value,
}

/// A CustomResourceDefinition with rules, defaults and columns.
pub(super) fn definitions() -> Vec<Value> {
    vec![definition("widgets", "Widget")]
}

fn definition(plural: &str, kind: &str) -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "minimum": 0},
        "parts": {"type": "array", "maxItems": 50, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "maxLength": 50}, "weight": {"x-kubernetes-int-or-string": true}}}},
        "rest": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "x-kubernetes-validations": [{"rule": "self.size < 10000", "message": "too large"}]});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object",
        "properties": {"phase": {"type": "string"}}}}});
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}]}})
}

/// One object of each kind; of the storage kinds, one of each important variant.
pub(super) fn samples() -> Vec<Sample> {
    let mut all = storage();
    all.extend(group_snapshots());
    all.extend(workloads());
    all.extend(jobs());
    all.extend(devices());
    all.extend(networking());
    all.extend(cluster());
    all
}

macro_rules! sample {
    ($path:literal, $version:literal, $kind:literal, $object:tt) => {{
        let mut object = json!($object);
        object["apiVersion"] = $version.into();
        object["kind"] = $kind.into();
        Sample { path: $path, group_version: $version, kind: $kind, object }
    }};
}

fn volume(source: &Value, policy: &str) -> Sample {
    let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
        "persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "default", "name": "m0"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["virtual-1", "virtual-2"]}]}]}}});
    for (name, value) in source.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    sample!("/api/v1/persistentvolumes", "v1", "PersistentVolume", {"metadata": {"labels": {"tier": "one"}}, "spec": spec})
}

fn storage() -> Vec<Sample> {
    vec![
        volume(&json!({"hostPath": {"path": "/tmp/orlop-mutated/data"}}), "Delete"),
        volume(&json!({"hostPath": {"path": "/tmp/orlop-mutated/data/inner"}}), "Recycle"),
        volume(&json!({"local": {"path": "/tmp/orlop-mutated/local"}}), "Retain"),
        volume(&json!({"nfs": {"server": "127.0.0.1", "path": "/none"}}), "Recycle"),
        volume(
            &json!({"csi": {"driver": "d.test", "volumeHandle": "h", "volumeAttributes": {"a": "b"}}}),
            "Delete",
        ),
        volume(
            &json!({"iscsi": {"targetPortal": "127.0.0.1", "iqn": "iqn.2026-01.a:b", "lun": 0}}),
            "Retain",
        ),
        sample!("/api/v1/namespaces/default/persistentvolumeclaims", "v1", "PersistentVolumeClaim", {"metadata": {}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"tier": "one"}}}}),
        sample!("/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass", {"metadata": {}, "provisioner": "d.test",
            "parameters": {"a": "b"}, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]}),
        sample!("/apis/storage.k8s.io/v1/volumeattributesclasses", "storage.k8s.io/v1", "VolumeAttributesClass",
            {"metadata": {}, "driverName": "d.test", "parameters": {"iops": "100"}}),
        sample!("/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment",
            {"metadata": {}, "spec": {"attacher": "d.test", "nodeName": "virtual-1", "source": {"persistentVolumeName": "m0"}}}),
        sample!("/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver", {"metadata": {}, "spec": {"attachRequired": true,
            "podInfoOnMount": true, "storageCapacity": true, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
        sample!("/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode", {"metadata": {}, "spec": {"drivers": [
            {"name": "d.test", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 2}}]}}),
        sample!("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity",
            {"metadata": {}, "storageClassName": "slow", "capacity": "5Gi", "maximumVolumeSize": "1Gi",
            "nodeTopology": {"matchLabels": {"zone": "a"}}}),
        sample!("/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots", "snapshot.storage.k8s.io/v1", "VolumeSnapshot",
            {"metadata": {}, "spec": {"volumeSnapshotClassName": "m0", "source": {"persistentVolumeClaimName": "m0"}}}),
        sample!("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents", "snapshot.storage.k8s.io/v1", "VolumeSnapshotContent",
            {"metadata": {}, "spec": {"driver": "d.test", "deletionPolicy": "Delete", "source": {"snapshotHandle": "h"},
            "volumeSnapshotRef": {"namespace": "default", "name": "m0"}}}),
        sample!("/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses", "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass",
            {"metadata": {}, "driver": "d.test", "deletionPolicy": "Delete", "parameters": {"a": "b"}}),
    ]
}

/// Both versions of the group snapshots.
fn group_snapshots() -> Vec<Sample> {
    let snapshot = json!({"volumeGroupSnapshotClassName": "m0", "source": {"selector": {"matchLabels": {"app": "m"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["one"]}]}}});
    let content = json!({"driver": "d.test", "deletionPolicy": "Delete", "source": {"volumeHandles": ["h"]},
        "volumeGroupSnapshotRef": {"namespace": "default", "name": "m0"}});
    vec![
        sample!("/apis/groupsnapshot.storage.k8s.io/v1/namespaces/default/volumegroupsnapshots", "groupsnapshot.storage.k8s.io/v1",
            "VolumeGroupSnapshot", {"metadata": {}, "spec": snapshot}),
        sample!("/apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotcontents", "groupsnapshot.storage.k8s.io/v1",
            "VolumeGroupSnapshotContent", {"metadata": {}, "spec": content}),
        sample!("/apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotclasses", "groupsnapshot.storage.k8s.io/v1",
            "VolumeGroupSnapshotClass", {"metadata": {}, "driver": "d.test", "deletionPolicy": "Delete", "parameters": {"a": "b"}}),
        sample!("/apis/groupsnapshot.storage.k8s.io/v1beta2/namespaces/default/volumegroupsnapshots",
            "groupsnapshot.storage.k8s.io/v1beta2", "VolumeGroupSnapshot", {"metadata": {}, "spec": snapshot}),
        sample!("/apis/groupsnapshot.storage.k8s.io/v1beta2/volumegroupsnapshotcontents",
            "groupsnapshot.storage.k8s.io/v1beta2", "VolumeGroupSnapshotContent", {"metadata": {}, "spec": content}),
        sample!("/apis/groupsnapshot.storage.k8s.io/v1beta2/volumegroupsnapshotclasses",
            "groupsnapshot.storage.k8s.io/v1beta2", "VolumeGroupSnapshotClass",
            {"metadata": {}, "driver": "d.test", "deletionPolicy": "Delete", "parameters": {"a": "b"}}),
    ]
}

fn template() -> Value {
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"metadata": {"labels": {"app": "m"}}, "spec": {
        "containers": [{"name": "c", "image": "none", "env": [{"name": "A", "value": "$(B)"}],
            "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}, "ports": [{"containerPort": 80, "hostPort": 8080}],
            "volumeMounts": [{"name": "d", "mountPath": "/d", "subPath": "s"}]}],
        "initContainers": [{"name": "i", "image": "none", "restartPolicy": "Always"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "m0"}}, {"name": "e", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "m", "configMap": {"name": "m0", "items": [{"key": "a", "path": "b"}], "optional": true}},
            {"name": "g", "ephemeral": {"volumeClaimTemplate": claim}},
            {"name": "p", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}],
        "tolerations": [{"operator": "Exists"}], "nodeSelector": {}, "securityContext": {"fsGroup": 5},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}})
}

fn workloads() -> Vec<Sample> {
    let selector = json!({"matchLabels": {"app": "m"}});
    let pod = template();
    let claim = json!({"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    vec![
        sample!("/api/v1/namespaces/default/pods", "v1", "Pod", {"metadata": pod["metadata"], "spec": pod["spec"]}),
        sample!("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment", {"metadata": {}, "spec": {"replicas": 2,
            "selector": selector, "template": pod, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}}),
        sample!("/apis/apps/v1/namespaces/default/replicasets", "apps/v1", "ReplicaSet",
            {"metadata": {}, "spec": {"replicas": 2, "selector": selector, "template": pod}}),
        sample!("/apis/apps/v1/namespaces/default/statefulsets", "apps/v1", "StatefulSet", {"metadata": {}, "spec": {"replicas": 2,
            "serviceName": "m", "podManagementPolicy": "Parallel", "selector": selector, "template": pod, "ordinals": {"start": 1},
            "volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}}),
        sample!("/apis/apps/v1/namespaces/default/daemonsets", "apps/v1", "DaemonSet",
            {"metadata": {}, "spec": {"selector": selector, "template": pod}}),
        sample!("/api/v1/namespaces/default/replicationcontrollers", "v1", "ReplicationController",
            {"metadata": {}, "spec": {"replicas": 2, "selector": {"app": "m"}, "template": pod}}),
        sample!("/apis/apps/v1/namespaces/default/controllerrevisions", "apps/v1", "ControllerRevision",
            {"metadata": {"labels": {"app": "m"}}, "revision": 1, "data": {"spec": {"template": pod}}}),
        sample!("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget",
            {"metadata": {}, "spec": {"minAvailable": "50%", "selector": selector}}),
    ]
}

fn jobs() -> Vec<Sample> {
    let mut pod = template();
    let always = pod.clone();
    pod["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 4, "template": pod,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}});
    vec![
        sample!("/api/v1/namespaces/default/podtemplates", "v1", "PodTemplate", {"metadata": {}, "template": always}),
        sample!("/apis/batch/v1/namespaces/default/jobs", "batch/v1", "Job", {"metadata": {}, "spec": job}),
        sample!("/apis/batch/v1/namespaces/default/cronjobs", "batch/v1", "CronJob", {"metadata": {}, "spec": {
            "schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}}),
        sample!("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass", {"metadata": {}, "handler": "h",
            "overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"zone": "a"}}}),
    ]
}

fn devices() -> Vec<Sample> {
    let selectors = json!([{"cel": {"expression": "device.driver == 'd.example.com'"}}]);
    let claim = json!({"devices": {"requests": [{"name": "r", "exactly": {
        "deviceClassName": "m0", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}}]}});
    vec![
        sample!("/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass",
            {"metadata": {}, "spec": {"selectors": selectors}}),
        sample!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "resource.k8s.io/v1", "ResourceClaim",
            {"metadata": {}, "spec": claim}),
        sample!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", "resource.k8s.io/v1",
            "ResourceClaimTemplate", {"metadata": {}, "spec": {"spec": claim}}),
        sample!("/apis/resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1", "ResourceSlice", {"metadata": {}, "spec": {
            "driver": "d.example.com", "nodeName": "virtual-1", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}}]}}),
    ]
}

fn networking() -> Vec<Sample> {
    let backend = json!({"service": {"name": "m0", "port": {"number": 80}}});
    vec![
        sample!("/apis/networking.k8s.io/v1/ingressclasses", "networking.k8s.io/v1", "IngressClass",
            {"metadata": {}, "spec": {"controller": "example.com/ingress"}}),
        sample!("/apis/networking.k8s.io/v1/namespaces/default/ingresses", "networking.k8s.io/v1", "Ingress", {"metadata": {}, "spec": {
            "rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}}),
        sample!("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy",
            {"metadata": {}, "spec": {"podSelector": {"matchLabels": {"app": "m"}}, "policyTypes": ["Ingress"], "ingress": [
                {"ports": [{"port": 80, "protocol": "TCP"}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}}),
        sample!("/apis/networking.k8s.io/v1/servicecidrs", "networking.k8s.io/v1", "ServiceCIDR",
            {"metadata": {}, "spec": {"cidrs": ["198.18.0.0/24", "2001:db8::/64"]}}),
        sample!("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "autoscaling/v1", "HorizontalPodAutoscaler",
            {"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/behavior": "{}"}}, "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}}),
        sample!("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler",
            {"metadata": {}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 5, "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1k"}}}],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}}),
        sample!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "flowcontrol.apiserver.k8s.io/v1", "FlowSchema",
            {"metadata": {}, "spec": {"priorityLevelConfiguration": {"name": "global-default"}, "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "u"}}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}]}]}}),
        sample!("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1",
            "PriorityLevelConfiguration", {"metadata": {}, "spec": {"type": "Limited", "limited": {
                "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 2}}}}}),
        sample!("/apis/networking.k8s.io/v1/ipaddresses", "networking.k8s.io/v1", "IPAddress",
            {"metadata": {}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "m"}}}),
        sample!("/apis/apiregistration.k8s.io/v1/apiservices", "apiregistration.k8s.io/v1", "APIService",
            {"metadata": {}, "spec": {"group": "m.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "m"}}}),
    ]
}

fn cluster() -> Vec<Sample> {
    vec![
        sample!("/api/v1/namespaces", "v1", "Namespace", {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}}),
        sample!("/api/v1/nodes", "v1", "Node", {"metadata": {"labels": {"zone": "a"}}, "spec": {"taints": [
            {"key": "k", "value": "v", "effect": "NoExecute"}]}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}}}),
        sample!("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", {"metadata": {}, "data": {"a": "b"}}),
        sample!("/api/v1/namespaces/default/secrets", "v1", "Secret", {"metadata": {}, "stringData": {"a": "b"}}),
        sample!("/api/v1/namespaces/default/serviceaccounts", "v1", "ServiceAccount", {"metadata": {}}),
        sample!("/api/v1/namespaces/default/services", "v1", "Service",
            {"metadata": {}, "spec": {"selector": {"app": "m"}, "ports": [{"name": "a", "port": 80, "targetPort": "c"}]}}),
        sample!("/api/v1/namespaces/default/endpoints", "v1", "Endpoints",
            {"metadata": {}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        sample!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "discovery.k8s.io/v1", "EndpointSlice",
            {"metadata": {}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
        sample!("/api/v1/namespaces/default/events", "v1", "Event", {"metadata": {}, "reason": "R", "message": "m", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "m0"}, "count": 1}),
        sample!("/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1", "Event", {"metadata": {}, "reason": "R", "note": "n",
            "type": "Normal", "action": "A", "reportingController": "a/b", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "m0"}}),
        sample!("/apis/certificates.k8s.io/v1/certificatesigningrequests", "certificates.k8s.io/v1", "CertificateSigningRequest",
            {"metadata": {}, "spec": {"signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 3600, "request":
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1Id0NBUUF3SFRFTk1Bc0dBMVVFQ2d3RVpHVjJjekVNTUFvR0ExVUVBd3dEWVc1dU1Db3dCUVlESzJWdwpBeUVBMHE3cFJmUFI2Nzc3TzJ5TlBOdWZNWWlhZjYvZ3VvaW1KMXMzcFo0RGY3K2dMREFxQmdrcWhraUc5dzBCCkNRNHhIVEFiTUJrR0ExVWRFUVFTTUJDQ0RtNHhMbVY0WVcxd2JHVXViM0puTUFVR0F5dGxjQU5CQUw4UXhqUHoKTEV5bWtWZ0tDZVVUbnZ0Sk8zdlRJaExPaVBiU0lCam5UeVhUdkZtamF3Vk50WUpIelp4VXZyTkZLcDBDV3o4cAo5eWUyQzA4aG9jODcvd2s9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="}}),
        sample!("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1", "Lease",
            {"metadata": {}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 10, "leaseTransitions": 1}}),
        // Its own names, so that it limits nothing that the samples request.
        sample!("/api/v1/namespaces/default/limitranges", "v1", "LimitRange", {"metadata": {}, "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1m"}, "max": {"cpu": "9000"}}]}}),
        sample!("/api/v1/namespaces/default/resourcequotas", "v1", "ResourceQuota",
            {"metadata": {}, "spec": {"hard": {"pods": "100000", "requests.storage": "1Ei", "count/widgets.example.com": "9999"}}}),
        sample!("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass",
            {"metadata": {}, "value": 5, "description": "d", "preemptionPolicy": "PreemptLowerPriority"}),
        sample!("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole",
            {"metadata": {}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        sample!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
            {"metadata": {}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m0"},
            "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]}),
        sample!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", "rbac.authorization.k8s.io/v1", "Role",
            {"metadata": {}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        sample!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
            {"metadata": {}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "m0"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]}),
        sample!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition",
            {"metadata": {}, "spec": definition("gadgets", "Gadget")["spec"]}),
        sample!("/apis/example.com/v1/namespaces/default/widgets", "example.com/v1", "Widget",
            {"metadata": {}, "spec": {"size": 3, "parts": [{"name": "a", "weight": 1}], "rest": {"x": [1, {"y": null}]}}}),
    ]
}
