//! Changes objects at random, with values of the types that their schemas name.

use std::collections::BTreeMap;

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Map, Value, json};

use crate::harness::http::Http;

/// Texts that parsers, paths and comparisons may handle badly.
const TEXTS: &[&str] = &[
    "",
    "a",
    "m0",
    "m1",
    "default",
    ".",
    "..",
    "../../etc",
    "/",
    "/tmp/x",
    "/tmp/x/../y",
    "/tmp/x/./y",
    "a/b",
    "-1",
    "0",
    "1",
    "1Gi",
    "9223372036854775807",
    "-9223372036854775808",
    "1e300",
    "0.000000001n",
    "99999999999999999999Ei",
    "-5Gi",
    "true",
    "null",
    "*",
    "%s",
    "$(A)",
    "$(A",
    "{}",
    "[",
    "\u{0}",
    "\n",
    "é\u{301}",
    "💥",
    "ReadWriteOnce",
    "ReadWriteMany",
    "ReadWriteOncePod",
    "Block",
    "Filesystem",
    "Delete",
    "Retain",
    "Recycle",
    "Bound",
    "Pending",
    "Failed",
    "Released",
    "Available",
    "Always",
    "Never",
    "OnFailure",
    "RollingUpdate",
    "Recreate",
    "OnDelete",
    "Parallel",
    "NoExecute",
    "NoSchedule",
    "Exists",
    "In",
    "Gt",
    "Lt",
    "virtual-1",
    "virtual-2",
    "0%",
    "100%",
    "1000000000%",
    "255.255.255.255",
    "::1",
    "10.0.0.1/33",
    "2026-02-30T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "kubernetes.io/pv-protection",
    "orphan",
    "foregroundDeletion",
    "WaitForFirstConsumer",
    "Immediate",
    "kubernetes.io/no-provisioner",
    "kubernetes.io/host-path",
    "hostpath.csi.orlop.dev",
    "PT1S",
    "1h",
    "-1h",
    "system-node-critical",
];
/// Times that the server accepts, and that decoders may handle badly.
const TIMES: &[&str] = &[
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00.000000Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999Z",
    "0000-01-01T00:00:00+14:00",
    "0000-01-01T00:00:00.000000+14:00",
    "2026-01-02T3:04:05.5+24:00",
    "2026-01-02T03:04:05.123456-12:00",
];
const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    100,
    255,
    1000,
    65_535,
    65_536,
    2_147_483_647,
    -2_147_483_648,
    i64::MAX,
    i64::MIN,
];
/// Maximum number of items and members that are generated.
const MAX_ITEMS: usize = 3;
/// Maximum depth of generated values.
const MAX_DEPTH: usize = 6;

/// The schemas that a server publishes.
pub(super) struct Schemas {
    components: BTreeMap<String, Value>,
    /// By API version and kind.
    kinds: BTreeMap<(String, String), Value>,
}

impl Schemas {
    /// Reads the OpenAPI documents of all groups.
    pub(super) async fn read(http: &Http) -> Self {
        let index = http.get("/openapi/v3").await.expect(200);
        let mut this = Self { components: BTreeMap::new(), kinds: BTreeMap::new() };
        for place in index["paths"].as_object().unwrap().values() {
            // Without the hash: a definition that is accepted meanwhile changes it, and the old one redirects.
            let path = place["serverRelativeURL"].as_str().unwrap().split('?').next().unwrap();
            let document = http.get(path).await.expect(200);
            let Some(components) = document.pointer("/components/schemas").and_then(Value::as_object) else {
                continue;
            };
            for (name, schema) in components {
                for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                    let text = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
                    let version = match text("group").as_str() {
                        "" => text("version"),
                        group => format!("{group}/{}", text("version")),
                    };
                    this.kinds.insert((version, text("kind")), schema.clone());
                }
                this.components.insert(name.clone(), schema.clone());
            }
        }
        this
    }

    /// The schema of a kind.
    pub(super) fn of(&self, group_version: &str, kind: &str) -> Value {
        let key = (group_version.to_owned(), kind.to_owned());
        self.kinds.get(&key).unwrap_or_else(|| panic!("no schema of {group_version} {kind}")).clone()
    }

    /// The schema of a member.
    pub(super) fn member(&self, schema: &Value, name: &str) -> Option<Value> {
        Some(self.resolve(self.resolve(schema)["properties"].get(name)?).clone())
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.components.get(name)).unwrap_or(schema)
    }

    /// Changes one place of a value: descends at random, replaces what it finds, or adds a member that the schema has.
    pub(super) fn mutate(&self, random: &mut StdRng, schema: &Value, value: &mut Value) {
        let schema = self.resolve(schema);
        match value {
            Value::Object(members) if random.random_bool(0.85) => {
                self.mutate_members(random, schema, members)
            }
            Value::Array(items) if !items.is_empty() && random.random_bool(0.7) => {
                let at = random.random_range(0..items.len());
                match random.random_range(0..4) {
                    0 => items.push(items[at].clone()),
                    1 => drop(items.remove(at)),
                    _ => self.mutate(random, &schema["items"], &mut items[at]),
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {
                *value = self.generate(random, schema, 0);
            }
        }
    }

    fn mutate_members(&self, random: &mut StdRng, schema: &Value, members: &mut Map<String, Value>) {
        let known: Vec<&String> = schema["properties"].as_object().into_iter().flat_map(Map::keys).collect();
        let present: Vec<String> = members.keys().cloned().collect();
        let Some(name) = present.choose(random).filter(|_| random.random_bool(0.6)) else {
            match known.choose(random) {
                Some(name) => {
                    let member = self.generate(random, &schema["properties"][name.as_str()], 0);
                    members.insert((*name).clone(), member);
                }
                None => {
                    let member = self.generate(random, &schema["additionalProperties"], 0);
                    members.insert(text(random), member);
                }
            }
            return;
        };
        let of_name = match &schema["properties"][name.as_str()] {
            Value::Null => &schema["additionalProperties"],
            found => found,
        };
        if random.random_bool(0.1) {
            members.remove(name);
        } else if let Some(member) = members.get_mut(name) {
            self.mutate(random, of_name, member);
        }
    }

    /// A random value of a schema.
    fn generate(&self, random: &mut StdRng, schema: &Value, depth: usize) -> Value {
        let schema = self.resolve(schema);
        if let Some(values) = schema["enum"].as_array() {
            return values.choose(random).cloned().unwrap_or_default();
        }
        if random.random_bool(0.02) {
            return Value::Null;
        }
        match schema["type"].as_str() {
            Some("string") if schema["format"] == "date-time" => {
                TIMES.choose(random).map_or(Value::Null, |time| (*time).into())
            }
            Some("string") => text(random).into(),
            Some("integer") => NUMBERS.choose(random).copied().unwrap_or_default().into(),
            Some("number") => json!(random.random::<f64>()),
            Some("boolean") => random.random::<bool>().into(),
            Some("array") if depth < MAX_DEPTH => {
                let count = random.random_range(0..=MAX_ITEMS);
                (0..count).map(|_| self.generate(random, &schema["items"], depth + 1)).collect()
            }
            Some("object") if depth < MAX_DEPTH => self.generate_members(random, schema, depth),
            Some(_) => json!({}),
            // A quantity, a number or percentage, or anything.
            None if random.random_bool(0.5) => NUMBERS.choose(random).copied().unwrap_or_default().into(),
            None => text(random).into(),
        }
    }

    fn generate_members(&self, random: &mut StdRng, schema: &Value, depth: usize) -> Value {
        let mut members = Map::new();
        let required = schema["required"].as_array();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let needed = required.is_some_and(|names| names.iter().any(|one| one == name));
            if needed || random.random_bool(0.25) {
                members.insert(name.clone(), self.generate(random, member, depth + 1));
            }
        }
        if schema["additionalProperties"].is_object() {
            for _ in 0..random.random_range(0..=MAX_ITEMS) {
                let member = self.generate(random, &schema["additionalProperties"], depth + 1);
                members.insert(text(random), member);
            }
        }
        Value::Object(members)
    }
}

fn text(random: &mut StdRng) -> String {
    let text = TEXTS.choose(random).copied().unwrap_or_default();
    match random.random_range(0..40) {
        0 => text.repeat(300),
        1 => format!("{text}{}", "x".repeat(5000)),
        _ => text.to_owned(),
    }
}
