//! `LimitRanger`: enforces the limit ranges of a namespace on pods, containers and claims, and sets the defaults of
//! containers (upstream: plugin/pkg/admission/limitranger).
//!
//! A claim whose stored request does not change is not checked again: a newer range must not stop the binder.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::quantity::Quantity;
use orlop_apimachinery::quota::amounts::{self, Amounts};
use orlop_apimachinery::quota::pods;
use serde_json::{Map, Value};

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Records on the pod which fields were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(super) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if subject(request) != Some(Subject::Pod) {
            return Ok(());
        }
        let ranges = ranges(request, lookup);
        let Some(pod) = request.object.as_deref_mut() else { return Ok(()) };
        ranges.iter().try_for_each(|range| fill(pod, range))
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let (Some(subject), Some(object)) = (subject(request), request.object.as_deref()) else {
            return Ok(());
        };
        for range in ranges(request, lookup) {
            let problems = match subject {
                Subject::Pod => object.typed().map(|pod| of_pod(&range, &pod)),
                Subject::Claim => Some(of_claim(&range, object, request.old)),
            };
            if let Some(why) = problems.and_then(together) {
                return Err(request.refuse(&why));
            }
        }
        Ok(())
    }
}

/// The kinds that ranges limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Pod,
    Claim,
}

/// The written object, if ranges limit its kind. Containers of an existing pod change only through `resize`.
fn subject(request: &Request<'_>) -> Option<Subject> {
    if request.operation == Operation::Delete || request.old.is_some_and(Object::is_terminating) {
        return None;
    }
    let names = request.names();
    match (names.group, names.plural, request.subresource, request.operation) {
        ("", "pods", "", Operation::Create) | ("", "pods", "resize", Operation::Update) => Some(Subject::Pod),
        ("", "persistentvolumeclaims", "", _) => Some(Subject::Claim),
        _ => None,
    }
}

fn ranges(request: &Request<'_>, lookup: &dyn Lookup) -> Vec<api::LimitRange> {
    let Some(kind) = registry::by_resource("", "v1", "limitranges") else { return Vec::new() };
    lookup.list(kind, Some(request.namespace)).filter_map(|range| range.typed()).collect()
}

fn items<'a>(range: &'a api::LimitRange, ty: &'a str) -> impl Iterator<Item = &'a api::LimitRangeItem> {
    range.spec.iter().flat_map(|spec| &spec.limits).filter(move |item| item.type_ == ty)
}

/// A list of a range.
type List<'a> = Option<&'a BTreeMap<String, Text>>;

/// Maximum number of violations that a response lists.
const MAX_PROBLEMS: usize = 1000;
/// Maximum size of the defaults that are added to a pod, bytes of JSON: the number of defaults times the number of
/// containers could be many times the size of both objects. The largest body has this size.
const MAX_FILLED: usize = 3 << 20;

/// Sets the defaults of containers, and records them on the pod.
///
/// # Errors
/// The pod would grow by more than [`MAX_FILLED`] bytes.
fn fill(pod: &mut Object, range: &api::LimitRange) -> Result<(), ApiError> {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    let add = |list: &mut Map<String, Value>, from: List<'_>| {
        let given = from.into_iter().flatten();
        list.extend(given.map(|(name, amount)| (name.clone(), amount.0.clone().into())));
    };
    for item in items(range, "Container") {
        add(&mut requests, item.default_request.as_ref());
        add(&mut limits, item.default.as_ref());
    }
    let mut room = MAX_FILLED;
    let mut notes = Vec::new();
    for (member, word) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.0.get_mut("spec").and_then(|spec| spec.get_mut(member));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            for (list, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let filled = fill_list(container, list, defaults, &mut room)?;
                if !filled.is_empty() {
                    notes.push(format!("{} {what} for {word} {name}", filled.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.set(&["metadata", "annotations", ANNOTATION], note);
    }
    Ok(())
}

/// Adds the missing amounts to a list of a container; returns their names in order. `room` is the number of bytes that
/// may still be added.
fn fill_list(
    container: &mut Value,
    list: &str,
    defaults: &Map<String, Value>,
    room: &mut usize,
) -> Result<Vec<String>, ApiError> {
    let has = |name: &String| {
        container.pointer(&format!("/resources/{list}")).is_some_and(|l| l.get(name).is_some())
    };
    let missing: Vec<String> = defaults.keys().filter(|name| !has(name)).cloned().collect();
    let size: usize =
        missing.iter().map(|name| name.len() + defaults[name].as_str().map_or(0, str::len) + 6).sum();
    *room = room.checked_sub(size).ok_or_else(|| {
        ApiError::too_large(
            "the defaults of the LimitRange are too large for a pod with this many containers",
        )
    })?;
    let Some(container) = container.as_object_mut().filter(|_| !missing.is_empty()) else {
        return Ok(missing);
    };
    let mut map = container;
    for member in ["resources", list] {
        let entry = map.entry(member).or_insert(Value::Null);
        if !entry.is_object() {
            *entry = Map::new().into();
        }
        map = entry.as_object_mut().expect("was just made an object");
    }
    for name in &missing {
        map.insert(name.clone(), defaults[name].clone());
    }
    Ok(missing)
}

/// The amounts of an object that ranges limit.
struct Measured<'a> {
    /// `Pod`, `Container` or `PersistentVolumeClaim`.
    ty: &'a str,
    requests: Amounts,
    limits: Amounts,
}

impl Measured<'_> {
    fn min(&self, name: &str, least: &Quantity) -> Option<String> {
        let said = format!("minimum {name} usage per {} is {least}", self.ty);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{said}.  No request is specified"));
        };
        if request < least {
            return Some(format!("{said}, but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| *limit < least)?;
        Some(format!("{said}, but limit is {limit}"))
    }

    fn max(&self, name: &str, most: &Quantity) -> Option<String> {
        let said = format!("maximum {name} usage per {} is {most}", self.ty);
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{said}.  No limit is specified"));
        };
        if limit > most {
            return Some(format!("{said}, but limit is {limit}"));
        }
        self.max_request(name, most).filter(|_| self.requests.contains_key(name))
    }

    /// For kinds without limits: claims.
    fn max_request(&self, name: &str, most: &Quantity) -> Option<String> {
        let said = format!("maximum {name} usage per {} is {most}", self.ty);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{said}.  No request is specified"));
        };
        (request > most).then(|| format!("{said}, but request is {request}"))
    }

    fn ratio(&self, name: &str, most: &Quantity) -> Option<String> {
        let said = format!("{name} max limit to request ratio per {} is {most}", self.ty);
        let of = |list: &Amounts| list.get(name).filter(|amount| !amount.is_zero()).cloned();
        let Some(request) = of(&self.requests) else {
            return Some(format!("{said}, but no request is specified or request is 0"));
        };
        let Some(limit) = of(&self.limits) else {
            return Some(format!("{said}, but no limit is specified or limit is 0"));
        };
        let ratio = || (limit.to_f64() / request.to_f64()).abs();
        most.is_exceeded_by(&limit, &request).then(|| format!("{said}, but provided ratio is {:.6}", ratio()))
    }

    /// Adds the violations of an item, up to [`MAX_PROBLEMS`].
    fn problems(&self, item: &Bounds, problems: &mut Vec<String>) {
        let min = item.min.iter().filter_map(|(name, amount)| self.min(name, amount));
        let max = item.max.iter().filter_map(|(name, amount)| self.max(name, amount));
        let ratio = item.ratio.iter().filter_map(|(name, amount)| self.ratio(name, amount));
        let room = MAX_PROBLEMS.saturating_sub(problems.len());
        problems.extend(min.chain(max).chain(ratio).take(room));
    }
}

/// The amounts of an item, parsed once for all containers.
struct Bounds {
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl Bounds {
    fn of(item: &api::LimitRangeItem) -> Self {
        Self {
            min: parsed(item.min.as_ref()),
            max: parsed(item.max.as_ref()),
            ratio: parsed(item.max_limit_request_ratio.as_ref()),
        }
    }
}

fn parsed(list: List<'_>) -> Amounts {
    list.map(amounts::parse).unwrap_or_default()
}

/// The violations of a pod.
fn of_pod(range: &api::LimitRange, pod: &api::Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut problems = Vec::new();
    for item in range.spec.iter().flat_map(|spec| &spec.limits) {
        let bounds = Bounds::of(item);
        match item.type_.as_str() {
            "Container" => {
                for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
                    let resources = container.resources.as_ref();
                    let measured = Measured {
                        ty: "Container",
                        requests: parsed(resources.and_then(|resources| resources.requests.as_ref())),
                        limits: parsed(resources.and_then(|resources| resources.limits.as_ref())),
                    };
                    measured.problems(&bounds, &mut problems);
                    if problems.len() >= MAX_PROBLEMS {
                        return problems;
                    }
                }
            }
            "Pod" => {
                let (requests, limits) = pods::of_all_containers(pod);
                Measured { ty: "Pod", requests, limits }.problems(&bounds, &mut problems);
            }
            _ => {}
        }
    }
    problems
}

/// The violations of a claim. Only its request counts.
fn of_claim(range: &api::LimitRange, claim: &Object, old: Option<&Object>) -> Vec<String> {
    let requests = |claim: &Object| -> Amounts {
        let list = claim.at(&["spec", "resources", "requests"]).and_then(Value::as_object);
        let amount =
            |(name, text): (&String, &Value)| Some((name.clone(), Quantity::parse(text.as_str()?).ok()?));
        list.into_iter().flatten().filter_map(amount).collect()
    };
    let before = old.map(requests).unwrap_or_default();
    let measured =
        Measured { ty: "PersistentVolumeClaim", requests: requests(claim), limits: Amounts::new() };
    let changed = |name: &&String| match (measured.requests.get(*name), before.get(*name)) {
        (Some(new), Some(old)) => new != old,
        (Some(_) | None, None) | (None, Some(_)) => true,
    };
    let mut problems = Vec::new();
    for item in items(range, "PersistentVolumeClaim") {
        let (min, max) = (parsed(item.min.as_ref()), parsed(item.max.as_ref()));
        let min = min.iter().filter(|(name, _)| changed(name));
        problems.extend(min.filter_map(|(name, amount)| measured.min(name, amount)));
        let max = max.iter().filter(|(name, _)| changed(name));
        problems.extend(max.filter_map(|(name, amount)| measured.max_request(name, amount)));
    }
    problems
}

/// Joins several problems, each once.
fn together(problems: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut all: Vec<String> = problems.into_iter().filter(|problem| seen.insert(problem.clone())).collect();
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(format!("[{}]", all.join(", "))),
    }
}

#[cfg(test)]
mod tests;
