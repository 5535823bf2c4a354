//! `StatefulSet`. The validation of its spec is in [`rules`].

mod rules;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::cells;
use super::persistent_volume_claim::fractional;
use super::workload::{self, collisions, spec, status_numbers, table, template};
use crate::kind::{
    Column, Generation, Kind, NameRule, Names, Policy, ScalePaths, Scope, StatusSubresource, Subresource,
};
use crate::object::Object;
use crate::registry::json_defaults;
use crate::validate::{FieldErrors, Path};

/// The `StatefulSet` kind.
pub(super) struct StatefulSet;

const NAMES: Names = Names {
    group: "apps",
    version: "v1",
    kind: "StatefulSet",
    plural: "statefulsets",
    singular: "statefulset",
    short: &["sts"],
    categories: &["all"],
    schema: "io.k8s.api.apps.v1.StatefulSet",
};

const CLAIMS: [&str; 2] = ["spec", "volumeClaimTemplates"];
const MAX_UNAVAILABLE: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];

/// The counters of a status, which must not be negative.
const COUNTED: &[&str] = &[
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
];

impl Kind for StatefulSet {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/statefulsets/"
    }

    fn policy(&self) -> Policy {
        Policy {
            // Its pods use their names as host names, which contain no dots.
            names: NameRule::Label,
            status: StatusSubresource::WithMetadata,
            generation: Generation::Spec,
            ..Policy::DEFAULT
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        workload::SCALE
    }

    fn scale(&self) -> Option<ScalePaths<'_>> {
        Some(workload::scale_paths())
    }

    fn defaults(&self, set: &mut Object) {
        set.set_default(&["spec", "replicas"], 1);
        set.set_default(&["spec", "revisionHistoryLimit"], 10);
        let spec = set.object_at(&["spec"]);
        json_defaults::text(spec, "podManagementPolicy", "OrderedReady");
        default_strategy(spec);
        json_defaults::value(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        if let Some(retention) = json_defaults::object(spec, "persistentVolumeClaimRetentionPolicy") {
            json_defaults::text(retention, "whenDeleted", "Retain");
            json_defaults::text(retention, "whenScaled", "Retain");
        }
        for claim in json_defaults::objects(json_defaults::list(spec, "volumeClaimTemplates")) {
            default_claim(claim);
        }
        template::fill(spec);
    }

    fn prepare_create(&self, set: &mut Object, _now: Timestamp) {
        set.set(&["status"], json!({"replicas": 0, "availableReplicas": 0}));
        set.remove(&MAX_UNAVAILABLE);
    }

    fn prepare_update(&self, set: &mut Object, old: &Object, _now: Timestamp) {
        // The feature gate of maxUnavailable is off; a set that already has the field retains it.
        if old.at(&MAX_UNAVAILABLE).is_none() {
            set.remove(&MAX_UNAVAILABLE);
        }
    }

    fn validate_create(&self, set: &Object, errors: &mut FieldErrors) {
        rules::new_spec(spec(set), &Path::new("spec"), errors);
    }

    fn validate_update(&self, set: &Object, old: &Object, errors: &mut FieldErrors) {
        rules::changed_spec(spec(set), spec(old), &Path::new("spec"), errors);
    }

    fn validate_status(&self, set: &Object, old: &Object, errors: &mut FieldErrors) {
        let status = set.at(&["status"]).unwrap_or(&Value::Null);
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        status_numbers(status, COUNTED, &parts, "status.readyReplicas", errors);
        collisions(set, old, errors);
    }

    fn warnings(&self, set: &Object, old: Option<&Object>) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none_or(|old| workload::has_new_generation(set, old)) {
            found.extend(template::warn(spec(set)));
        }
        for (i, claim) in set.at(&CLAIMS).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let path = Path::new("spec.volumeClaimTemplates").index(i);
            // Upstream's path depends on whether the set is new.
            let path = if old.is_none() { path } else { path.child("Spec") };
            found.extend(fractional(claim.get("spec").unwrap_or(&Value::Null), &path));
        }
        found
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Ready", "Pods that are ready, of those that there are to be."),
            cells::AGE,
            table::CONTAINERS,
            table::IMAGES,
        ];
        COLUMNS
    }

    fn cells(&self, set: &Object, now: Timestamp) -> Vec<Value> {
        let [containers, images] = table::containers(set);
        let ready = table::number(set, &["status", "readyReplicas"]);
        let desired = table::number(set, &["spec", "replicas"]);
        vec![cells::name(set), format!("{ready}/{desired}").into(), cells::age(set, now), containers, images]
    }
}

/// Without a type, defaults to rolling updates from ordinal 0. With the type `RollingUpdate`, an absent
/// `rollingUpdate` remains absent.
fn default_strategy(spec: &mut Map<String, Value>) {
    json_defaults::value(spec, "updateStrategy", json!({}));
    let Some(strategy) = json_defaults::object(spec, "updateStrategy") else { return };
    if workload::text(&Value::Object(strategy.clone()), "type").is_empty() {
        strategy.insert("type".to_owned(), rules::ROLLING_UPDATE.into());
        json_defaults::value(strategy, "rollingUpdate", json!({}));
    }
    if strategy.get("type").is_some_and(|kind| kind == rules::ROLLING_UPDATE)
        && let Some(rolling) = json_defaults::object(strategy, "rollingUpdate")
    {
        json_defaults::value(rolling, "partition", 0);
    }
}

/// A claim template is a complete claim, including its status.
fn default_claim(claim: &mut Map<String, Value>) {
    json_defaults::text(claim, "kind", "PersistentVolumeClaim");
    json_defaults::text(claim, "apiVersion", "v1");
    for member in ["metadata", "spec", "status"] {
        json_defaults::value(claim, member, json!({}));
    }
    if let Some(spec) = json_defaults::object(claim, "spec") {
        json_defaults::value(spec, "volumeMode", "Filesystem");
        json_defaults::value(spec, "resources", json!({}));
    }
    if let Some(status) = json_defaults::object(claim, "status") {
        json_defaults::text(status, "phase", "Pending");
    }
}
