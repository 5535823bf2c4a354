//! The objects of the fake API server and its rules for writes: versions, no-op updates, deletion timestamps and
//! finalizers, preconditions. Pure state without HTTP.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A resource that the fake API server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FakeResource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Whether it has a status subresource. Only that subresource writes the status.
    pub(super) status: bool,
}

impl FakeResource {
    /// Whether every change of the spec increments the generation.
    fn has_generation(&self) -> bool {
        matches!(self.group, "apps" | "batch")
            || matches!(self.kind, "ReplicationController" | "EndpointSlice")
    }

    /// Whether the change increments the generation. An EndpointSlice has no spec: its labels and endpoints count.
    fn is_next_generation(&self, old: &Value, new: &Value) -> bool {
        ["spec", "endpoints", "ports"].iter().any(|field| new[field] != old[field])
            || self.kind == "EndpointSlice" && new["metadata"]["labels"] != old["metadata"]["labels"]
    }
}

const fn kind(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    status: bool,
) -> FakeResource {
    FakeResource { group, version: "v1", plural, kind, namespaced, status }
}

/// All resources that the fake API server serves.
pub(super) const KINDS: [FakeResource; 36] = [
    kind("", "pods", "Pod", true, true),
    kind("", "persistentvolumes", "PersistentVolume", false, true),
    kind("", "persistentvolumeclaims", "PersistentVolumeClaim", true, true),
    kind("", "nodes", "Node", false, true),
    kind("", "namespaces", "Namespace", false, true),
    kind("", "events", "Event", true, false),
    kind("", "configmaps", "ConfigMap", true, false),
    kind("", "secrets", "Secret", true, false),
    kind("", "replicationcontrollers", "ReplicationController", true, true),
    kind("apps", "replicasets", "ReplicaSet", true, true),
    kind("apps", "deployments", "Deployment", true, true),
    kind("apps", "statefulsets", "StatefulSet", true, true),
    kind("apps", "daemonsets", "DaemonSet", true, true),
    kind("apps", "controllerrevisions", "ControllerRevision", true, false),
    kind("batch", "jobs", "Job", true, true),
    kind("batch", "cronjobs", "CronJob", true, true),
    kind("", "serviceaccounts", "ServiceAccount", true, false),
    kind("", "services", "Service", true, true),
    kind("", "endpoints", "Endpoints", true, false),
    kind("discovery.k8s.io", "endpointslices", "EndpointSlice", true, false),
    kind("", "resourcequotas", "ResourceQuota", true, true),
    kind("storage.k8s.io", "storageclasses", "StorageClass", false, false),
    kind("storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass", false, false),
    kind("storage.k8s.io", "volumeattachments", "VolumeAttachment", false, true),
    kind("storage.k8s.io", "csidrivers", "CSIDriver", false, false),
    kind("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot", true, true),
    kind("snapshot.storage.k8s.io", "volumesnapshotcontents", "VolumeSnapshotContent", false, true),
    kind("snapshot.storage.k8s.io", "volumesnapshotclasses", "VolumeSnapshotClass", false, false),
    kind("storage.k8s.io", "csinodes", "CSINode", false, false),
    kind("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity", true, false),
    kind("coordination.k8s.io", "leases", "Lease", true, false),
    kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", true, true),
    kind("networking.k8s.io", "servicecidrs", "ServiceCIDR", false, true),
    kind("networking.k8s.io", "ipaddresses", "IPAddress", false, false),
    kind("resource.k8s.io", "resourceclaims", "ResourceClaim", true, true),
    kind("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", true, false),
];

/// The directive of a strategic merge patch that removes finalizers, the only one that the fake API server supports.
const REMOVED_FINALIZERS: &str = "$deleteFromPrimitiveList/finalizers";

/// An error Status: code, reason, message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorStatus(pub(crate) u16, pub(crate) &'static str, pub(crate) String);

pub(super) type Answer = Result<Value, ErrorStatus>;

/// A change that watchers receive.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) plural: &'static str,
    pub(super) type_: &'static str,
    pub(super) object: Value,
}

#[derive(Default)]
pub(super) struct Store {
    pub(super) revision: u64,
    /// Objects by plural name, namespace and name.
    pub(super) objects: BTreeMap<(&'static str, String, String), Value>,
    pub(super) log: Vec<Change>,
    uids: u64,
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn set(object: &mut Value, field: &str, value: Value) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"][field] = value;
}

fn has_items(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

fn not_found(kind: &FakeResource, name: &str) -> ErrorStatus {
    let dot = if kind.group.is_empty() { "" } else { "." };
    ErrorStatus(404, "NotFound", format!("{}{dot}{} \"{name}\" not found", kind.plural, kind.group))
}

fn conflict(kind: &FakeResource, name: &str, why: &str) -> ErrorStatus {
    ErrorStatus(
        409,
        "Conflict",
        format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.plural),
    )
}

impl Store {
    fn key(kind: &FakeResource, namespace: &str, name: &str) -> (&'static str, String, String) {
        (kind.plural, if kind.namespaced { namespace.to_owned() } else { String::new() }, name.to_owned())
    }

    pub(super) fn get(&self, kind: &FakeResource, namespace: &str, name: &str) -> Answer {
        self.objects.get(&Self::key(kind, namespace, name)).cloned().ok_or_else(|| not_found(kind, name))
    }

    /// Objects of a kind; an empty namespace stands for all namespaces.
    pub(super) fn list(&self, kind: &FakeResource, namespace: &str) -> Vec<Value> {
        let wanted =
            |k: &(&str, String, String)| k.0 == kind.plural && (namespace.is_empty() || k.1 == namespace);
        self.objects.iter().filter(|(k, _)| wanted(k)).map(|(_, v)| v.clone()).collect()
    }

    fn commit(&mut self, kind: &FakeResource, type_: &'static str, mut object: Value) -> Value {
        self.revision += 1;
        set(&mut object, "resourceVersion", json!(self.revision.to_string()));
        let key = Self::key(kind, text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        if type_ == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        self.log.push(Change { revision: self.revision, plural: kind.plural, type_, object: object.clone() });
        object
    }

    /// Creates an object as a client would. `verbatim` preserves status, UID and deletion timestamp, for initial
    /// objects.
    pub(super) fn create(
        &mut self,
        kind: &FakeResource,
        namespace: &str,
        mut object: Value,
        verbatim: bool,
    ) -> Answer {
        object["apiVersion"] = json!(if kind.group.is_empty() {
            "v1".into()
        } else {
            format!("{}/{}", kind.group, kind.version)
        });
        object["kind"] = json!(kind.kind);
        if kind.namespaced && !namespace.is_empty() {
            set(&mut object, "namespace", json!(namespace));
        }
        let namespace = text(&object, "/metadata/namespace").to_owned();
        if text(&object, "/metadata/name").is_empty() {
            let prefix = text(&object, "/metadata/generateName").to_owned();
            set(&mut object, "name", json!(format!("{prefix}{:05}", self.uids + 1)));
        }
        if kind.has_generation() && object["metadata"].get("generation").is_none() {
            set(&mut object, "generation", json!(1));
        }
        let name = text(&object, "/metadata/name").to_owned();
        if self.objects.contains_key(&Self::key(kind, &namespace, &name)) {
            return Err(ErrorStatus(
                409,
                "AlreadyExists",
                format!("{} \"{name}\" already exists", kind.plural),
            ));
        }
        let home = self.objects.get(&("namespaces", String::new(), namespace.clone()));
        if !verbatim && home.is_some_and(|ns| ns["metadata"].get("deletionTimestamp").is_some()) {
            let why =
                format!("{} \"{name}\" is forbidden: namespace {namespace} is being terminated", kind.plural);
            return Err(ErrorStatus(403, "Forbidden", why));
        }
        if !verbatim && !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ErrorStatus(
                400,
                "BadRequest",
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        self.uids += 1;
        if !verbatim || text(&object, "/metadata/uid").is_empty() {
            set(&mut object, "uid", json!(format!("uid-{}-{}", self.uids, name)));
        }
        if text(&object, "/metadata/creationTimestamp").is_empty() {
            set(&mut object, "creationTimestamp", json!("2026-01-01T00:00:00Z"));
        }
        if kind.status && !verbatim {
            let Value::Object(map) = &mut object else {
                return Err(ErrorStatus(400, "BadRequest", "no object".into()));
            };
            map.remove("status");
        }
        if kind.status && object.get("status").is_none() {
            object["status"] = match kind.kind {
                "Namespace" => json!({"phase": "Active"}),
                "Pod" | "PersistentVolume" | "PersistentVolumeClaim" => json!({"phase": "Pending"}),
                "ReplicationController" | "ReplicaSet" | "StatefulSet" => json!({"replicas": 0}),
                _ => json!({}),
            };
        }
        if kind.kind == "Namespace" && object.get("spec").is_none() {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
        }
        Ok(self.commit(kind, "ADDED", object))
    }

    /// Replaces the object, or only the fields of the subresource (`status`, `finalize`).
    pub(super) fn replace(
        &mut self,
        kind: &FakeResource,
        namespace: &str,
        name: &str,
        sub: &str,
        new: &Value,
    ) -> Answer {
        let old = self.get(kind, namespace, name)?;
        let (version, uid) = (text(new, "/metadata/resourceVersion"), text(new, "/metadata/uid"));
        if !version.is_empty() && version != text(&old, "/metadata/resourceVersion") {
            return Err(conflict(
                kind,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        if !uid.is_empty() && uid != text(&old, "/metadata/uid") {
            return Err(conflict(kind, name, "Precondition failed: UID in precondition does not match"));
        }
        let mut next = match sub {
            "status" => {
                let mut next = old.clone();
                next["status"] = new["status"].clone();
                if let Some(annotations) = new["metadata"].get("annotations") {
                    set(&mut next, "annotations", annotations.clone());
                }
                next
            }
            "finalize" => {
                let mut next = old.clone();
                next["spec"]["finalizers"] = new["spec"]["finalizers"].clone();
                next
            }
            _ => {
                let mut next = new.clone();
                if kind.status {
                    next["status"] = old["status"].clone();
                }
                if kind.kind == "Namespace" {
                    next["spec"] = old["spec"].clone();
                }
                for field in [
                    "uid",
                    "creationTimestamp",
                    "deletionTimestamp",
                    "deletionGracePeriodSeconds",
                    "resourceVersion",
                    "namespace",
                ] {
                    match old["metadata"].get(field) {
                        Some(value) => set(&mut next, field, value.clone()),
                        None => {
                            if let Some(map) = next["metadata"].as_object_mut() {
                                map.remove(field);
                            }
                        }
                    }
                }
                next["apiVersion"] = old["apiVersion"].clone();
                next["kind"] = old["kind"].clone();
                if kind.has_generation() {
                    let more = i64::from(kind.is_next_generation(&old, &next));
                    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + more;
                    set(&mut next, "generation", json!(generation));
                }
                next
            }
        };
        prune(&mut next);
        let mut before = old.clone();
        prune(&mut before);
        if before == next {
            return Ok(old);
        }
        if Self::may_go(kind, &next) {
            // As upstream, the last event contains the object with its finalizers.
            return Ok(self.commit(kind, "DELETED", old));
        }
        Ok(self.commit(kind, "MODIFIED", next))
    }

    /// Assigns a pod to a node.
    pub(super) fn bind(
        &mut self,
        kind: &FakeResource,
        namespace: &str,
        name: &str,
        binding: &Value,
    ) -> Answer {
        let mut pod = self.get(kind, namespace, name)?;
        let uid = text(binding, "/metadata/uid");
        if !uid.is_empty() && uid != text(&pod, "/metadata/uid") {
            return Err(conflict(kind, name, "Precondition failed: UID in precondition does not match"));
        }
        let assigned = text(&pod, "/spec/nodeName");
        if !assigned.is_empty() || pod["metadata"].get("deletionTimestamp").is_some() {
            return Err(conflict(kind, name, "it has a node or is being deleted"));
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        self.commit(kind, "MODIFIED", pod);
        Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}))
    }

    fn may_go(kind: &FakeResource, object: &Value) -> bool {
        let marked = object["metadata"].get("deletionTimestamp").is_some();
        let held = kind.kind == "Namespace" && has_items(object, "/spec/finalizers");
        let grace =
            kind.kind == "Pod" && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        marked && !held && !grace && !has_items(object, "/metadata/finalizers")
    }

    pub(super) fn merge(
        &mut self,
        kind: &FakeResource,
        namespace: &str,
        name: &str,
        sub: &str,
        patch: &Value,
    ) -> Answer {
        let mut next = self.get(kind, namespace, name)?;
        let mut patch = patch.clone();
        // `get_mut` adds no member; a null would remove the metadata.
        let metadata = patch.get_mut("metadata").and_then(Value::as_object_mut);
        let removed = metadata.and_then(|metadata| metadata.remove(REMOVED_FINALIZERS));
        merge_into(&mut next, &patch);
        let removed = removed.as_ref().and_then(Value::as_array).into_iter().flatten();
        if let Some(finalizers) = next.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            removed.for_each(|gone| finalizers.retain(|finalizer| finalizer != gone));
        }
        if patch.pointer("/metadata/resourceVersion").is_none() {
            set(&mut next, "resourceVersion", json!(""));
        }
        self.replace(kind, namespace, name, sub, &next)
    }

    pub(super) fn delete(
        &mut self,
        kind: &FakeResource,
        namespace: &str,
        name: &str,
        options: &Value,
        now: &str,
    ) -> Answer {
        let mut object = self.get(kind, namespace, name)?;
        for (pointer, field) in [
            ("/preconditions/uid", "/metadata/uid"),
            ("/preconditions/resourceVersion", "/metadata/resourceVersion"),
        ] {
            let wanted = text(options, pointer);
            if !wanted.is_empty() && wanted != text(&object, field) {
                return Err(conflict(kind, name, "Precondition failed"));
            }
        }
        let before = object.clone();
        let mut finalizers: Vec<Value> =
            object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
            finalizers.retain(|f| options.get("propagationPolicy").is_none() || f != finalizer);
            if text(options, "/propagationPolicy") == policy {
                finalizers.push(json!(finalizer));
            }
        }
        set(&mut object, "finalizers", Value::Array(finalizers));
        if object["metadata"].get("deletionTimestamp").is_none() {
            set(&mut object, "deletionTimestamp", json!(now));
        }
        if kind.kind == "Pod" {
            let idle = text(&object, "/spec/nodeName").is_empty()
                || matches!(text(&object, "/status/phase"), "Succeeded" | "Failed");
            let default =
                if idle { 0 } else { object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30) };
            let asked = options["gracePeriodSeconds"].as_i64().unwrap_or(default);
            let known = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(asked);
            set(&mut object, "deletionGracePeriodSeconds", json!(asked.min(known)));
        }
        if kind.kind == "Namespace" {
            object["status"]["phase"] = json!("Terminating");
        }
        prune(&mut object);
        if Self::may_go(kind, &object) {
            return Ok(self.commit(kind, "DELETED", object));
        }
        if object == before {
            return Ok(before);
        }
        Ok(self.commit(kind, "MODIFIED", object))
    }
}

/// Applies a merge patch (RFC 7386).
pub fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_into(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Removes nulls, and empty lists and maps in the metadata, as a typed server does.
fn prune(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        });
    }
}
