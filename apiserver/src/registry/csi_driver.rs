//! `CSIDriver`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::kind::{Column, DeleteAnswer, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;

/// The kind.
pub(super) struct CsiDriver;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSIDriver",
    plural: "csidrivers",
    singular: "csidriver",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSIDriver",
};

impl Kind for CsiDriver {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csidrivers/"
    }

    fn policy(&self) -> Policy {
        Policy {
            unconditional_update: false,
            delete_answer: DeleteAnswer::Object,
            generation: Generation::SpecFromZero,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, driver: &mut Object) {
        driver.set_default(&["spec", "attachRequired"], true);
        for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            driver.set_default(&["spec", flag], false);
        }
        driver.set_default(&["spec", "fsGroupPolicy"], "ReadWriteOnceWithFSType");
        if list(driver, "volumeLifecycleModes").is_empty() {
            driver.set(&["spec", "volumeLifecycleModes"], json!(["Persistent"]));
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("AttachRequired", "boolean", "Whether volumes must be attached before use."),
            cells::typed("PodInfoOnMount", "boolean", "Whether the driver is told about the pod."),
            cells::typed("StorageCapacity", "boolean", "Whether the driver publishes free capacity."),
            cells::text("TokenRequests", "Audiences of the tokens that the driver gets."),
            cells::typed("RequiresRepublish", "boolean", "Whether volumes are published again and again."),
            cells::text("Modes", "Kinds of volumes that the driver serves."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, driver: &Object, now: Timestamp) -> Vec<Value> {
        let flag =
            |name: &str| Value::from(driver.at(&["spec", name]).and_then(Value::as_bool).unwrap_or(false));
        let audiences: Vec<&str> = list(driver, "tokenRequests")
            .iter()
            .map(|request| request.get("audience").and_then(Value::as_str).unwrap_or_default())
            .collect();
        let requests = if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") };
        let modes: Vec<&str> =
            list(driver, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
        let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
        vec![
            cells::name(driver),
            flag("attachRequired"),
            flag("podInfoOnMount"),
            flag("storageCapacity"),
            requests.into(),
            flag("requiresRepublish"),
            modes.into(),
            cells::age(driver, now),
        ]
    }
}

/// A list of the spec; empty when there is none.
fn list<'a>(driver: &'a Object, name: &str) -> &'a [Value] {
    driver.at(&["spec", name]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
