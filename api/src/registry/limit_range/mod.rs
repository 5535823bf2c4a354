//! `LimitRange`: the minimum and maximum size of a pod, a container or a claim in a namespace, and the default
//! requests and limits of containers.
//!
//! Admission enforces the limits; this module validates and defaults the object (upstream: ValidateLimitRange,
//! SetDefaults_LimitRangeItem).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use orlop_apimachinery::names;
use orlop_apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

use super::checks;
use super::pod_spec::resources::{container_name, may_overcommit, resource_name};
use super::volume_rules::{entries, items, text};
use crate::kind::{Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `LimitRange` kind.
pub(super) struct LimitRange;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "LimitRange",
    plural: "limitranges",
    singular: "limitrange",
    short: &["limits"],
    categories: &[],
    schema: "io.k8s.api.core.v1.LimitRange",
};

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

impl Kind for LimitRange {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/limitranges/"
    }

    fn policy(&self) -> Policy {
        Policy { create_on_update: true, ..Policy::DEFAULT }
    }

    fn defaults(&self, range: &mut Object) {
        range.set_default(&["spec"], Map::new());
        range.set_default(&["spec", "limits"], Value::Null);
        let limits = range.0.get_mut("spec").and_then(|spec| spec.get_mut("limits"));
        for limit in limits.and_then(Value::as_array_mut).into_iter().flatten() {
            if text(limit, "type") == "Container" {
                // Missing values are derived from the others: the limit from the maximum, the request from the limit or
                // from the minimum.
                fill(limit, "default", "max");
                fill(limit, "defaultRequest", "default");
                fill(limit, "defaultRequest", "min");
            }
        }
    }

    fn prepare_create(&self, range: &mut Object, _now: Timestamp) {
        // As upstream: a range without name and generateName is assigned one.
        if range.name().is_empty() && range.str_at(&["metadata", "generateName"]).is_empty() {
            range.set(&["metadata", "name"], uuid::Uuid::new_v4().to_string());
        }
    }

    fn validate(&self, range: &Object, errors: &mut FieldErrors) {
        let spec = range.at(&["spec"]).unwrap_or(&Value::Null);
        let mut types = BTreeSet::new();
        for (at, limit) in items(spec, "limits").iter().enumerate() {
            let path = Path::new("spec.limits").index(at);
            let ty = text(limit, "type");
            limit_type(ty, &path.child("type"), errors);
            if !types.insert(ty) {
                errors.duplicate(&path.child("type"), ty);
            }
            validate_item(limit, ty, &path, errors);
        }
    }
}

/// Copies to one list of amounts the resources that only the other contains.
fn fill(limit: &mut Value, into: &str, from: &str) {
    let Some(given) = limit.get(from).and_then(Value::as_object).cloned() else { return };
    let Some(limit) = limit.as_object_mut().filter(|_| !given.is_empty()) else { return };
    let list = limit.entry(into).or_insert_with(|| Map::new().into());
    if list.is_null() {
        *list = Map::new().into();
    }
    for (name, amount) in given {
        if let Some(list) = list.as_object_mut() {
            list.entry(name).or_insert(amount);
        }
    }
}

fn limit_type(ty: &str, path: &Path, errors: &mut FieldErrors) {
    let problems = names::qualified_name(ty);
    if !problems.is_empty() {
        checks::each(errors, path, ty, problems);
    } else if !ty.contains('/') && !TYPES.contains(&ty) {
        errors.invalid(path, ty, "must be a standard limit type or fully qualified");
    }
}

/// The amounts of one item, by resource.
type Amounts = BTreeMap<String, Quantity>;

fn validate_item(limit: &Value, ty: &str, path: &Path, errors: &mut FieldErrors) {
    let rule = if matches!(ty, "Pod" | "Container") { container_name } else { resource_name };
    let list = |name: &str, errors: &mut FieldErrors| -> Amounts {
        let path = path.child(name);
        let mut amounts = Amounts::new();
        for (resource, amount) in entries(limit, name) {
            rule(resource, &path.key(resource), errors);
            let parsed = Quantity::parse(amount.as_str().unwrap_or_default());
            amounts.insert(resource.clone(), parsed.unwrap_or(Quantity::ZERO));
        }
        amounts
    };
    let max = list("max", errors);
    let min = list("min", errors);
    let (mut default, mut request) = (Amounts::new(), Amounts::new());
    if ty == "Pod" {
        for name in ["default", "defaultRequest"] {
            if entries(limit, name).next().is_some() {
                errors.forbidden(&path.child(name), "may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        default = list("default", errors);
        request = list("defaultRequest", errors);
    }
    if ty == "PersistentVolumeClaim" && !min.contains_key("storage") && !max.contains_key("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
    let ratio = list("maxLimitRequestRatio", errors);
    let resources: BTreeSet<&String> =
        [&max, &min, &default, &request, &ratio].into_iter().flat_map(BTreeMap::keys).collect();
    for name in resources {
        let of = |amounts: &'_ Amounts| amounts.get(name).cloned();
        let one = Item {
            name,
            min: of(&min),
            max: of(&max),
            default: of(&default),
            request: of(&request),
            ratio: of(&ratio),
        };
        one.validate(path, errors);
    }
}

/// The amounts of one item for one resource.
struct Item<'a> {
    name: &'a str,
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Item<'_> {
    fn validate(&self, path: &Path, errors: &mut FieldErrors) {
        let Item { name, min, max, default, request, ratio } = self;
        // Pairs of amounts with their names, the smaller one first, and which of the two the error shows.
        let orders = [
            (min, "min value", max, "max value", "min", min),
            (min, "min value", request, "default request value", "defaultRequest", request),
            (request, "default request value", max, "max value", "defaultRequest", request),
            (request, "default request value", default, "default limit value", "defaultRequest", request),
            (min, "min value", default, "default value", "default", min),
            (default, "default value", max, "max value", "default", max),
        ];
        for (small, small_name, large, large_name, list, shown) in orders {
            if let (Some(small), Some(large), Some(shown)) = (small, large, shown)
                && small > large
            {
                let detail = format!("{small_name} {small} is greater than {large_name} {large}");
                errors.invalid(&path.child(list).key(name), shown.to_string(), &detail);
            }
        }
        if let Some(ratio) = ratio {
            self.validate_ratio(ratio, &path.child("maxLimitRequestRatio").key(name), errors);
        }
        if let (Some(default), Some(request)) = (default, request)
            && !may_overcommit(name)
            && default != request
        {
            let detail =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            errors.invalid(&path.child("defaultRequest").key(name), request.to_string(), &detail);
        }
    }

    fn validate_ratio(&self, ratio: &Quantity, path: &Path, errors: &mut FieldErrors) {
        if *ratio < Quantity::from_integer(1) {
            errors.invalid(path, ratio.to_string(), &format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (&self.min, &self.max) {
            let possible = max.to_f64() / min.to_f64();
            if ratio.to_f64() > possible {
                let detail = format!("ratio {ratio} is greater than max/min = {possible:.6}");
                errors.invalid(path, ratio.to_string(), &detail);
            }
        }
    }
}

#[cfg(test)]
mod tests;
