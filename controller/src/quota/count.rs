//! Determines the resources that a quota counts, and its next status. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use orlop_apimachinery::quota::Resource;
use orlop_apimachinery::quota::amounts::{self, Amounts};

/// The limits of the quota's spec.
fn wanted(quota: &ResourceQuota) -> Amounts {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    hard.map(amounts::parse).unwrap_or_default()
}

fn status(quota: &ResourceQuota) -> (Amounts, Amounts) {
    let Some(status) = &quota.status else { return Default::default() };
    let list = |list: Option<&_>| list.map(amounts::parse).unwrap_or_default();
    (list(status.hard.as_ref()), list(status.used.as_ref()))
}

/// The names of the quota's limits.
fn names(quota: &ResourceQuota) -> impl Iterator<Item = &str> {
    quota
        .spec
        .as_ref()
        .and_then(|spec| spec.hard.as_ref())
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
}

/// The resources with objects that a quota counts, as group and plural, each with the names of its limits.
pub fn resources(quota: &ResourceQuota) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut all: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for name in names(quota) {
        for resource in Resource::all_of(name).into_iter().filter(|resource| !resource.is_ignored()) {
            all.entry((resource.group, resource.plural)).or_default().push(name);
        }
    }
    all
}

/// Whether the status has other limits than the spec, or usage without a limit in the spec.
pub fn is_stale(quota: &ResourceQuota) -> bool {
    let (hard, used) = status(quota);
    let wanted = wanted(quota);
    wanted != hard || used.keys().any(|name| !wanted.contains_key(name))
}

/// The status with the counted usage; `None` if it is unchanged. Usage that could not be counted stays as it is.
pub fn next_status(quota: &ResourceQuota, counted: &Amounts) -> Option<ResourceQuotaStatus> {
    let wanted = wanted(quota);
    let (hard, before) = status(quota);
    let mut used = before.clone();
    used.extend(counted.clone());
    let used = amounts::mask(&used, |name| wanted.contains_key(name));
    if hard == wanted && used == before {
        return None;
    }
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone());
    Some(ResourceQuotaStatus { hard, used: Some(amounts::to_typed(&used)) })
}
