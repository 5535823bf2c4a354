//! `PriorityClass`, and the classes that exist in every cluster.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{cells, checks};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// A class that exists in every cluster (upstream: pkg/apis/scheduling/v1/helpers.go).
pub struct SystemClass {
    /// Its name.
    pub name: &'static str,
    value: i64,
    description: &'static str,
}

/// The classes that exist in every cluster.
pub const SYSTEM_CLASSES: [SystemClass; 2] = [
    SystemClass {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
    SystemClass {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another \
                      node if necessary.",
    },
];

impl SystemClass {
    /// The class as an object, without the metadata that the server sets.
    pub fn object(&self) -> Object {
        Object::from_value(json!({
            "metadata": {"name": self.name}, "value": self.value, "description": self.description,
        }))
    }
}

/// The default preemption policy of a class.
pub const PREEMPT: &str = "PreemptLowerPriority";

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_OF_USERS: i64 = 1_000_000_000;

/// The priority value of a class.
pub fn value_of(class: &Object) -> i64 {
    class.at(&["value"]).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether the class is the default for pods without one.
pub fn is_default(class: &Object) -> bool {
    class.at(&["globalDefault"]).and_then(Value::as_bool).unwrap_or_default()
}

/// The default class for pods without one. If there are several (two concurrent writers), the lowest.
pub fn default_of(classes: Vec<Object>) -> Option<Object> {
    classes.into_iter().filter(is_default).min_by_key(value_of)
}

/// The `PriorityClass` kind.
pub(super) struct PriorityClass;

const NAMES: Names = Names {
    group: "scheduling.k8s.io",
    version: "v1",
    kind: "PriorityClass",
    plural: "priorityclasses",
    singular: "priorityclass",
    short: &["pc"],
    categories: &[],
    schema: "io.k8s.api.scheduling.v1.PriorityClass",
};

impl Kind for PriorityClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/priorityclasses/"
    }

    fn policy(&self) -> Policy {
        // There is no spec, so the generation stays 1.
        Policy { generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, class: &mut Object) {
        class.set_default(&["preemptionPolicy"], PREEMPT);
    }

    fn validate_create(&self, class: &Object, errors: &mut FieldErrors) {
        let (name, value) = (class.name(), value_of(class));
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(why) = not_of_the_system(class) {
                let text = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                );
                errors.forbidden(&Path::new("metadata.name"), &text);
            }
        } else if value > HIGHEST_OF_USERS {
            let text = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
            errors.forbidden(&Path::new("value"), &text);
        }
        let path = Path::new("preemptionPolicy");
        match class.str_at(&["preemptionPolicy"]) {
            "" => errors.required(&path, ""),
            policy => checks::one_of(errors, &path, Some(policy), &[PREEMPT, "Never"]),
        }
    }

    fn validate_update(&self, class: &Object, old: &Object, errors: &mut FieldErrors) {
        if value_of(class) != value_of(old) {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let policy = |class: &'_ Object| class.at(&["preemptionPolicy"]).cloned();
        let path = Path::new("preemptionPolicy");
        checks::immutable(errors, &path, policy(class).as_ref(), policy(old).as_ref());
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("Value", "integer", "The number that pods of this class get as their priority."),
            cells::typed("Global-Default", "boolean", "Whether pods that name no class are of this one."),
            cells::AGE,
            cells::text("PreemptionPolicy", "Whether pods of this class may displace others."),
        ];
        COLUMNS
    }

    fn cells(&self, class: &Object, now: Timestamp) -> Vec<Value> {
        vec![
            cells::name(class),
            value_of(class).into(),
            is_default(class).into(),
            cells::age(class, now),
            class.str_at(&["preemptionPolicy"]).into(),
        ]
    }
}

/// The reason why a class is not a system class.
fn not_of_the_system(class: &Object) -> Option<String> {
    let name = class.name();
    let Some(known) = SYSTEM_CLASSES.iter().find(|known| known.name == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value_of(class) != known.value {
        return Some(format!("value of {name} PriorityClass must be {}", known.value));
    }
    is_default(class).then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
