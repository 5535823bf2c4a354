//! The one-line notation of objects, for the tables:
//!
//! ```text
//! pv  NAME SIZE MODES PHASE [policy= class= mode= vac= ref=NS/NAME[:UID] label=K:V fin= src= affinity= terminating @MARK[=V] msg=REST]
//! pvc NS/NAME UID SIZE MODES PHASE [volume= class= mode= vac= has=MODES/SIZE[/VAC] selector= data-source= fin= terminating @MARK[=V]]
//! sc  NAME PROVISIONER [mode= policy= created= @MARK[=V]]
//! pod NS/NAME PHASE [claims=A,B node=]
//! node NAME
//! ```
//!
//! `-` is empty. A mark is an annotation by its short name, `yes` if it has no value. [`render`] is the inverse
//! of [`parse`] and writes a fixed order, so objects are compared as lines; versions and times are omitted.

use orlop_volume::modes;
use serde_json::{Map, Value, json};

use crate::testing::notation::{access_modes, key};

/// Short names of annotations. Others are written in full.
const MARKS: [(&str, &str); 11] = [
    ("by-controller", "pv.kubernetes.io/bound-by-controller"),
    ("completed", "pv.kubernetes.io/bind-completed"),
    ("provisioned-by", "pv.kubernetes.io/provisioned-by"),
    ("migrated-to", "pv.kubernetes.io/migrated-to"),
    ("pre-resize", "volume.alpha.kubernetes.io/pre-resize-capacity"),
    ("provisioner", "volume.kubernetes.io/storage-provisioner"),
    ("beta-provisioner", "volume.beta.kubernetes.io/storage-provisioner"),
    ("beta-class", "volume.beta.kubernetes.io/storage-class"),
    ("default", "storageclass.kubernetes.io/is-default-class"),
    ("beta-default", "storageclass.beta.kubernetes.io/is-default-class"),
    ("selected-node", "volume.kubernetes.io/selected-node"),
];

fn modes_or_none(text: &str) -> Value {
    if text == "-" { json!([]) } else { access_modes(text) }
}

fn short_modes(value: &Value) -> String {
    let short = |long: &str| modes::short(long).unwrap_or(long).to_owned();
    let list: Vec<String> =
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(short).collect();
    if list.is_empty() { "-".to_owned() } else { list.join(",") }
}

fn phase(text: &str) -> &str {
    if text == "-" { "" } else { text }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The tokens after the fixed ones: `key=value`, flags, marks.
struct Extras<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Extras<'a> {
    fn new(line: &'a str) -> (Vec<&'a str>, Self) {
        let (line, message) = match line.split_once(" msg=") {
            Some((line, message)) => (line, Some(message)),
            None => (line, None),
        };
        let is_extra = |token: &str| token.starts_with('@') || token.contains('=') || token == "terminating";
        let (extras, fixed): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|token| is_extra(token));
        let mut pairs: Vec<(&str, &str)> =
            extras.into_iter().map(|token| token.split_once('=').unwrap_or((token, "yes"))).collect();
        pairs.extend(message.map(|message| ("msg", message)));
        (fixed, Self { pairs })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn all(&self, key: &str) -> Vec<&'a str> {
        self.pairs.iter().filter(|(k, _)| *k == key).map(|(_, v)| *v).collect()
    }

    fn metadata(&self, namespace: Option<&str>, name: &str, uid: Option<&str>) -> Value {
        let mut meta = Map::new();
        meta.insert("name".into(), json!(name));
        if let Some(namespace) = namespace {
            meta.insert("namespace".into(), json!(namespace));
        }
        if let Some(uid) = uid {
            meta.insert("uid".into(), json!(uid));
        }
        let mut annotations = Map::new();
        for (key, value) in &self.pairs {
            if let Some(mark) = key.strip_prefix('@') {
                let full = MARKS.iter().find(|(short, _)| *short == mark).map_or(mark, |(_, full)| full);
                annotations.insert(full.to_owned(), json!(value));
            }
        }
        if !annotations.is_empty() {
            meta.insert("annotations".into(), Value::Object(annotations));
        }
        let labels: Map<String, Value> = self
            .all("label")
            .iter()
            .filter_map(|label| label.split_once(':'))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        if !labels.is_empty() {
            meta.insert("labels".into(), Value::Object(labels));
        }
        let finalizers = self.all("fin");
        if !finalizers.is_empty() {
            meta.insert("finalizers".into(), json!(finalizers));
        }
        if self.get("terminating").is_some() {
            meta.insert("deletionTimestamp".into(), json!("2026-01-01T00:00:00Z"));
        }
        if let Some(created) = self.get("created") {
            meta.insert("creationTimestamp".into(), json!(format!("2025-01-01T00:00:{created:0>2}Z")));
        }
        Value::Object(meta)
    }
}

fn set(object: &mut Value, pointer: [&str; 2], value: Option<Value>) {
    if let Some(value) = value {
        object[pointer[0]][pointer[1]] = value;
    }
}

/// The object that a line describes, as the server would return it.
pub(super) fn parse(line: &str) -> Value {
    let (fixed, extras) = Extras::new(line);
    let text = |key: &str| extras.get(key).map(|value| json!(value));
    match fixed.as_slice() {
        ["pv", name, size, offered, phase_] => {
            let mut pv = json!({
                "kind": "PersistentVolume",
                "metadata": extras.metadata(None, name, Some(&format!("uid-of-{name}"))),
                "spec": {"capacity": {"storage": size}, "accessModes": modes_or_none(offered),
                    "persistentVolumeReclaimPolicy": extras.get("policy").unwrap_or("Retain"),
                    "volumeMode": extras.get("mode").unwrap_or("Filesystem")},
                "status": {"phase": phase(phase_)},
            });
            set(&mut pv, ["spec", "storageClassName"], text("class"));
            set(&mut pv, ["spec", "volumeAttributesClassName"], text("vac"));
            set(&mut pv, ["spec", "nodeAffinity"], extras.get("affinity").map(json_of));
            set(&mut pv, ["status", "message"], text("msg"));
            if let Some(reference) = extras.get("ref") {
                let (reference, uid) = reference.split_once(':').unwrap_or((reference, ""));
                let (namespace, name) = key(reference);
                pv["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name});
                if !uid.is_empty() {
                    pv["spec"]["claimRef"]["uid"] = json!(uid);
                }
            }
            let source = extras.get("src").map_or_else(|| default_source(name), json_of);
            for (kind, source) in source.as_object().into_iter().flatten() {
                pv["spec"][kind] = source.clone();
            }
            pv
        }
        ["pvc", claim, uid, size, wanted, phase_] => {
            let (namespace, name) = key(claim);
            let mut pvc = json!({
                "kind": "PersistentVolumeClaim",
                "metadata": extras.metadata(Some(namespace), name, Some(uid)),
                "spec": {"resources": {"requests": {"storage": size}}, "accessModes": modes_or_none(wanted),
                    "volumeMode": extras.get("mode").unwrap_or("Filesystem")},
                "status": {"phase": phase(phase_)},
            });
            set(&mut pvc, ["spec", "volumeName"], text("volume"));
            set(&mut pvc, ["spec", "storageClassName"], text("class"));
            set(&mut pvc, ["spec", "volumeAttributesClassName"], text("vac"));
            set(&mut pvc, ["spec", "selector"], extras.get("selector").map(json_of));
            set(&mut pvc, ["spec", "dataSource"], extras.get("data-source").map(json_of));
            if let Some(has) = extras.get("has") {
                let mut parts = has.split('/');
                let (offered, size, vac) = (parts.next(), parts.next(), parts.next());
                set(&mut pvc, ["status", "accessModes"], offered.filter(|m| *m != "-").map(modes_or_none));
                set(
                    &mut pvc,
                    ["status", "capacity"],
                    size.filter(|s| *s != "-").map(|s| json!({"storage": s})),
                );
                set(&mut pvc, ["status", "currentVolumeAttributesClassName"], vac.map(|vac| json!(vac)));
            }
            pvc
        }
        ["sc", name, provisioner] => {
            let mut class = json!({
                "kind": "StorageClass",
                "metadata": extras.metadata(None, name, None),
                "provisioner": provisioner,
                "reclaimPolicy": extras.get("policy").unwrap_or("Delete"),
            });
            match extras.get("mode").unwrap_or("Immediate") {
                "-" => {}
                mode => class["volumeBindingMode"] = json!(mode),
            }
            if let Some(options) = extras.get("mount") {
                class["mountOptions"] = options.split(',').collect();
            }
            class
        }
        ["pod", pod, phase_] => {
            let (namespace, name) = key(pod);
            let claims = extras.get("claims").unwrap_or("").split(',').filter(|claim| !claim.is_empty());
            let volumes: Vec<Value> = claims
                .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
                .collect();
            let mut pod = json!({
                "kind": "Pod",
                "metadata": extras.metadata(Some(namespace), name, None),
                "spec": {"containers": [], "volumes": volumes},
                "status": {"phase": phase(phase_)},
            });
            set(&mut pod, ["spec", "nodeName"], text("node"));
            pod
        }
        ["node", name] => json!({"kind": "Node", "metadata": extras.metadata(None, name, None), "spec": {}}),
        _ => panic!("no object: {line}"),
    }
}

fn default_source(name: &str) -> Value {
    json!({"hostPath": {"path": format!("/tmp/pv-cases/{name}")}})
}

/// Spec fields that are not a volume source.
const NO_SOURCE: [&str; 9] = [
    "capacity",
    "accessModes",
    "persistentVolumeReclaimPolicy",
    "volumeMode",
    "storageClassName",
    "volumeAttributesClassName",
    "nodeAffinity",
    "claimRef",
    "mountOptions",
];

struct Line(Vec<String>);

impl Line {
    fn pair(&mut self, key: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::String(text) => self.0.push(format!("{key}={text}")),
            other => self.0.push(format!("{key}={other}")),
        }
    }

    fn metadata(&mut self, object: &Value) {
        let meta = &object["metadata"];
        for (key, value) in meta["labels"].as_object().into_iter().flatten() {
            self.0.push(format!("label={key}:{}", value.as_str().unwrap_or("")));
        }
        for finalizer in meta["finalizers"].as_array().into_iter().flatten() {
            self.pair("fin", finalizer);
        }
        if !meta["deletionTimestamp"].is_null() {
            self.0.push("terminating".to_owned());
        }
        for (key, value) in meta["annotations"].as_object().into_iter().flatten() {
            let short =
                MARKS.iter().find(|(_, full)| *full == key.as_str()).map_or(key.as_str(), |(short, _)| short);
            match value.as_str() {
                Some("yes") => self.0.push(format!("@{short}")),
                _ => self.pair(&format!("@{short}"), value),
            }
        }
    }
}

fn or_dash(value: &Value) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// The line for a volume or claim.
pub(super) fn render(object: &Value) -> String {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let name = meta["name"].as_str().unwrap_or("").to_owned();
    let modes = short_modes(&spec["accessModes"]);
    let unless = |value: &Value, default: &str| {
        if value.as_str() == Some(default) { Value::Null } else { value.clone() }
    };
    match object["kind"].as_str() {
        Some("PersistentVolume") => {
            let size = or_dash(&spec["capacity"]["storage"]);
            let mut line = Line(vec!["pv".into(), name.clone(), size, modes, or_dash(&status["phase"])]);
            line.pair("policy", &unless(&spec["persistentVolumeReclaimPolicy"], "Retain"));
            line.pair("class", &unless(&spec["storageClassName"], ""));
            line.pair("mode", &unless(&spec["volumeMode"], "Filesystem"));
            line.pair("vac", &spec["volumeAttributesClassName"]);
            if let Some(reference) = spec["claimRef"].as_object() {
                let part = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or("");
                let uid = part("uid");
                let colon = if uid.is_empty() { "" } else { ":" };
                line.0.push(format!("ref={}/{}{colon}{uid}", part("namespace"), part("name")));
            }
            line.metadata(object);
            let source: Map<String, Value> = spec
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(field, _)| !NO_SOURCE.contains(&field.as_str()))
                .map(|(field, value)| (field.clone(), value.clone()))
                .collect();
            if Value::Object(source.clone()) != default_source(&name) {
                line.pair("src", &Value::Object(source));
            }
            line.pair("affinity", &spec["nodeAffinity"]);
            line.pair("msg", &status["message"]);
            line.0.join(" ")
        }
        Some("PersistentVolumeClaim") => {
            let key = format!("{}/{name}", meta["namespace"].as_str().unwrap_or(""));
            let size = or_dash(&spec["resources"]["requests"]["storage"]);
            let mut line =
                Line(vec!["pvc".into(), key, or_dash(&meta["uid"]), size, modes, or_dash(&status["phase"])]);
            line.pair("volume", &unless(&spec["volumeName"], ""));
            line.pair("class", &spec["storageClassName"]);
            line.pair("mode", &unless(&spec["volumeMode"], "Filesystem"));
            line.pair("vac", &spec["volumeAttributesClassName"]);
            let (offered, capacity) =
                (short_modes(&status["accessModes"]), or_dash(&status["capacity"]["storage"]));
            let vac = status["currentVolumeAttributesClassName"].as_str().map(|vac| format!("/{vac}"));
            if offered != "-" || capacity != "-" || vac.is_some() {
                line.0.push(format!("has={offered}/{capacity}{}", vac.unwrap_or_default()));
            }
            line.pair("selector", &spec["selector"]);
            line.pair("data-source", &spec["dataSource"]);
            line.metadata(object);
            line.0.join(" ")
        }
        other => panic!("no line for {other:?}"),
    }
}

/// A line in the form that [`render`] produces.
pub(super) fn canonical(line: &str) -> String {
    render(&parse(line))
}
