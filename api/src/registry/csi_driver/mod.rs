//! The `CSIDriver` kind.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::volume_rules::{IMMUTABLE, text};
use crate::kind::{Column, DeleteAnswer, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `CSIDriver` kind.
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

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const TOKEN_IN_SECRETS: &str = "serviceAccountTokenInSecrets";
const TOKENS_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true \
                              to prevent possible logging of tokens in volume attributes";

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

    fn validate(&self, driver: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let policy = driver.str_at(&["spec", "fsGroupPolicy"]);
        if driver.at(&["spec", "fsGroupPolicy"]).is_some() && !GROUP_POLICIES.contains(&policy) {
            errors.not_supported(&path.child("fsGroupPolicy"), policy, &GROUP_POLICIES);
        }
        let requests = list(driver, "tokenRequests");
        token_requests(requests, &path.child("tokenRequests"), errors);
        for mode in list(driver, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
            if !MODES.contains(&mode) {
                errors.not_supported(&path.child("volumeLifecycleModes"), mode, &MODES);
            }
        }
        let period = driver.at(&["spec", "nodeAllocatableUpdatePeriodSeconds"]).and_then(Value::as_i64);
        if let Some(period) = period.filter(|period| *period < 10) {
            let path = path.child("nodeAllocatableUpdatePeriodSeconds");
            errors.invalid(&path, period, "must be greater than or equal to 10 seconds");
        }
        if driver.at(&["spec", TOKEN_IN_SECRETS]) == Some(&Value::Bool(true)) && requests.is_empty() {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.invalid(&path.child(TOKEN_IN_SECRETS), true, detail);
        }
    }

    fn validate_update(&self, driver: &Object, old: &Object, errors: &mut FieldErrors) {
        // Upstream's path of the first field differs from the field's name.
        for (field, shown) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            let (new, old) = (driver.at(&["spec", field]), old.at(&["spec", field]));
            if new != old {
                let path = Path::new("spec").child(shown);
                errors.invalid(&path, new.cloned().unwrap_or_default(), IMMUTABLE);
            }
        }
    }

    fn warnings(&self, driver: &Object, old: Option<&Object>) -> Vec<String> {
        let requests = list(driver, "tokenRequests");
        let is_news = old.is_none_or(|old| list(old, "tokenRequests") != requests);
        let is_unset = driver.at(&["spec", TOKEN_IN_SECRETS]).is_none_or(Value::is_null);
        if is_news && is_unset && !requests.is_empty() { vec![TOKENS_WARNING.to_owned()] } else { Vec::new() }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("AttachRequired", "boolean", "Whether volumes must be attached before use."),
            cells::typed(
                "PodInfoOnMount",
                "boolean",
                "Whether the driver receives information about the pod.",
            ),
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

/// A list of the spec; empty if absent.
fn list<'a>(driver: &'a Object, name: &str) -> &'a [Value] {
    driver.at(&["spec", name]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn token_requests(requests: &[Value], path: &Path, errors: &mut FieldErrors) {
    let mut audiences = BTreeSet::new();
    for (i, request) in requests.iter().enumerate() {
        let path = path.index(i);
        if !audiences.insert(text(request, "audience")) {
            errors.duplicate(&path.child("audience"), text(request, "audience"));
            continue;
        }
        let Some(seconds) = request.get("expirationSeconds").and_then(Value::as_i64) else { continue };
        let path = path.child("expirationSeconds");
        if seconds < 600 {
            errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}
