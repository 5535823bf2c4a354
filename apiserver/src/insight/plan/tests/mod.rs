//! Tables per verb, random states, and verbs on a server.

#![allow(clippy::unwrap_used)]

mod impact;
mod random;
mod rules;
mod seen;
mod served;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_store::{Key, Record, Revision, Snapshot};
use serde_json::{Value, json};

use super::cluster_view::{ClusterView, kind};
use super::model::{Plan, PlanOptions, PlanRefusal};
use super::past::Version;
use super::stoppable::Stop;
use super::{Dependents, PlanContext, decide};
use crate::dispatch;
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::projection::Projection;
use crate::registry::{Kind, KindRef};
use orlop_api::object::Object;

/// Objects by plural; the revision of each is its position, counted from 1.
type Objects = Vec<(&'static str, Value)>;

fn kind_of(plural: &str) -> &'static dyn Kind {
    let group = match plural {
        "volumeattachments" | "csidrivers" | "csinodes" | "storageclasses" => "storage.k8s.io",
        "statefulsets" | "deployments" | "replicasets" => "apps",
        _ => "",
    };
    kind(group, plural)
}

fn snapshot(objects: &Objects) -> Snapshot<Projection> {
    let mut overlay = BTreeMap::new();
    for (at, (plural, value)) in objects.iter().enumerate() {
        let kind = kind_of(plural);
        let object = Object::from_value(value.clone());
        let key = Key::new(dispatch::key(kind, object.namespace(), object.name()));
        let (value, view) = stored::encode(kind, &object);
        let mod_revision = Revision(at as u64 + 1);
        let record = Record {
            key: key.clone(),
            value,
            stored: Default::default(),
            view,
            create_revision: mod_revision,
            mod_revision,
            time_ms: 0,
        };
        overlay.insert(key, Some(Arc::new(record)));
    }
    Snapshot::new(Revision(objects.len() as u64), Default::default(), overlay)
}

fn target(plural: &str, namespace: &str, name: &str) -> ObjectTarget {
    ObjectTarget {
        kind: KindRef::Builtin(kind_of(plural)),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    }
}

fn planned(
    objects: &Objects,
    target: &ObjectTarget,
    verb: &str,
    options: Value,
    past: &[Value],
) -> Result<Plan, PlanRefusal> {
    let snapshot = snapshot(objects);
    let view = ClusterView::new(&snapshot);
    let version = |(at, value): (usize, &Value)| Version {
        revision: 90 - at as u64,
        deleted: (at == 0).then_some(95),
        object: Object::from_value(value.clone()),
    };
    let known = PlanContext {
        versions: past.iter().enumerate().map(version).collect(),
        oldest: 1,
        dependents: Dependents::default(),
        uid: "new-uid".to_owned(),
    };
    decide(&view, target, verb, &PlanOptions::parse(options)?, &known)
}

fn merged(mut base: Value, patch: &Value) -> Value {
    json_patch::merge(&mut base, patch);
    base
}

fn volume(name: &str, phase: &str, claim: Value, patch: Value) -> Value {
    let base = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "",
            "csi": {"driver": "d.example.com", "volumeHandle": format!("handle-{name}")}, "claimRef": claim,
        },
        "status": {"phase": phase},
    });
    merged(merged(base, &patch), &json!({}))
}

fn points(namespace: &str, name: &str, uid: &str) -> Value {
    super::facts::reference_to(namespace, name, uid)
}

fn claim(namespace: &str, name: &str, uid: &str, phase: &str, volume: &str) -> Value {
    let mut claim = json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "", "volumeMode": "Filesystem",
        },
        "status": {"phase": phase},
    });
    if !volume.is_empty() {
        claim["spec"]["volumeName"] = volume.into();
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    claim
}

fn pod(namespace: &str, name: &str, claim: &str, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"),
            "creationTimestamp": "2026-01-01T00:00:30Z",
        },
        "spec": {
            "nodeName": "n1", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
        "status": {"phase": phase},
    })
}

fn attachment(name: &str, volume: &str, node: &str, patch: Value) -> Value {
    let base = json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["external-attacher/d-example-com"],
        },
        "spec": {
            "attacher": "d.example.com", "nodeName": node, "source": {"persistentVolumeName": volume},
        },
        "status": {"attached": true},
    });
    merged(base, &patch)
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z"}})
}
