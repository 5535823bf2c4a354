//! The objects that clients and watchers use: a few of three kinds, with their paths and bodies. The server itself writes no
//! objects of these kinds.

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::history::{COLOR, Selector, VALUE};

/// Few, so that clients compete for them.
pub(crate) const KEYS: [&str; 8] = [
    "secrets/hot/a",
    "secrets/hot/b",
    "secrets/hot/c",
    "secrets/warm/a",
    "persistentvolumeclaims/hot/c",
    "persistentvolumeclaims/hot/d",
    "persistentvolumes/v",
    "persistentvolumes/w",
];
/// The prefixes of lists and watches.
pub(crate) const PREFIXES: [&str; 5] =
    ["secrets/", "secrets/hot/", "secrets/warm/", "persistentvolumeclaims/hot/", "persistentvolumes/"];
pub(crate) const COLORS: [&str; 3] = ["red", "green", "blue"];

/// A random choice.
pub(crate) fn one<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of[random.random_range(0..of.len())]
}

/// A selector; most of them select everything.
pub(crate) fn selector(random: &mut StdRng) -> Selector {
    match random.random_range(0..10) {
        0 | 1 => Selector::Color(one(random, &COLORS).to_owned()),
        2 => Selector::NotColor(one(random, &COLORS).to_owned()),
        3 => Selector::Name(one(random, &["a", "c", "v"]).to_owned()),
        4 => Selector::NotName(one(random, &["a", "c", "v"]).to_owned()),
        _ => Selector::Everything,
    }
}

/// The path of a collection, and its resource.
pub(crate) fn collection(prefix: &str) -> (String, &str) {
    match prefix.trim_end_matches('/').split_once('/') {
        Some((resource, namespace)) => (format!("/api/v1/namespaces/{namespace}/{resource}"), resource),
        None => (format!("/api/v1/{}", prefix.trim_end_matches('/')), prefix.trim_end_matches('/')),
    }
}

/// The path of an object, that of its collection, and its resource.
pub(crate) fn path(key: &str) -> (String, String, &str) {
    let (parent, name) = key.rsplit_once('/').unwrap_or_default();
    let (collection, resource) = collection(parent);
    (format!("{collection}/{name}"), collection, resource)
}

/// The finalizer of a kind. The server itself adds it to claims and volumes.
pub(crate) fn finalizer(resource: &str) -> &'static str {
    match resource {
        "persistentvolumeclaims" => "kubernetes.io/pvc-protection",
        "persistentvolumes" => "kubernetes.io/pv-protection",
        _ => "example.com/hold",
    }
}

pub(crate) fn body(key: &str, value: &str, color: &str, hold: bool, padding: usize) -> Value {
    let (_, _, resource) = path(key);
    let name = key.rsplit('/').next().unwrap_or_default();
    let mut object =
        json!({"metadata": {"name": name, "annotations": {VALUE: value}, "labels": {COLOR: color}}});
    if hold {
        object["metadata"]["finalizers"] = json!([finalizer(resource)]);
    }
    match resource {
        "persistentvolumeclaims" => {
            object["spec"] =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        }
        "persistentvolumes" => {
            object["spec"] = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/tmp/v"}});
        }
        _ => object["stringData"] = json!({"value": value, "padding": "x".repeat(padding)}),
    }
    object
}
