//! `ResourceQuota`: rejects writes that would exceed a quota of the namespace (upstream:
//! apiserver pkg/admission/plugin/resourcequota).
//!
//! [`charges`] computes the effect of a write on the quotas of its namespace. The plugin calls it so that dry runs are
//! rejected, too; the write calls it again on the state on which it is committed (`verbs/quota_commit.rs`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::quota::amounts::{self, Amounts};
use orlop_apimachinery::quota::{Item, Resource, Rule, claim_status_counts, pods, scopes};
use serde_json::Value;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// The plugin.
pub(super) struct ResourceQuota;

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        QUOTA_PLUGIN
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let Some(object) = request.object.as_deref().filter(|_| !request.namespace.is_empty()) else {
            return Ok(());
        };
        let names = request.names();
        let resource = Resource::new(names.group, names.plural);
        let updates = request.operation == Operation::Update;
        if !may_count(resource, request.subresource, updates) {
            return Ok(());
        }
        let Some(kind) = registry::by_resource("", "v1", "resourcequotas") else { return Ok(()) };
        let quotas: Vec<Object> = lookup.list(kind, Some(request.namespace)).collect();
        let old = request.old.filter(|_| updates);
        // The time only matters to finished pods, which are not checked here: a new pod is not finished.
        let now = Timestamp::MIN;
        let write = Counted { resource, subresource: request.subresource, object, old, now };
        charges(&quotas, &write).map(drop).map_err(|why| request.refuse(&why))
    }
}

/// The name of the plugin.
pub(crate) const QUOTA_PLUGIN: &str = "ResourceQuota";

/// A write that may affect quotas.
pub(crate) struct Counted<'a> {
    /// The kind.
    pub(crate) resource: Resource<'a>,
    /// Its subresource, or `""`.
    pub(crate) subresource: &'a str,
    /// The object after the write.
    pub(crate) object: &'a Object,
    /// The object before the write; `None` for a new one.
    pub(crate) old: Option<&'a Object>,
    /// The time.
    pub(crate) now: Timestamp,
}

/// The effect of a write on a quota.
#[derive(Debug, PartialEq)]
pub(crate) struct Charge {
    /// Index of the quota.
    pub(crate) at: usize,
    /// The usage after the write. It may equal the current usage if no controller has counted for the current quota: a count
    /// in progress then starts again, because it may have missed this object.
    pub(crate) used: Amounts,
}

/// Whether a write of this kind can change the usage.
pub(crate) fn may_count(resource: Resource<'_>, subresource: &str, updates: bool) -> bool {
    if resource.is_ignored() {
        return false;
    }
    match (resource.rule(), subresource) {
        (Rule::Claims | Rule::Services, "") => true,
        (Rule::Claims, "status") | (Rule::Pods, "resize") => updates,
        (Rule::Pods | Rule::Count, "") => !updates,
        (Rule::Pods | Rule::Claims | Rule::Services | Rule::Count, _) => false,
    }
}

/// The effect of a write on the quotas of its namespace.
///
/// # Errors
/// The reason for a rejection, in upstream's words.
pub(crate) fn charges(quotas: &[Object], write: &Counted<'_>) -> Result<Vec<Charge>, String> {
    let mut found = Vec::new();
    if quotas.is_empty() {
        return Ok(found);
    }
    let new = Typed::of(write.resource, write.object);
    let old = write.old.map(|old| Typed::of(write.resource, old));
    if let (Typed::Claim(new), Some(Typed::Claim(old)), "status") = (&new, &old, write.subresource)
        && !claim_status_counts(old, new)
    {
        return Ok(found);
    }
    let usage = write.resource.usage(new.item(), write.now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let before = old.as_ref().map(|old| write.resource.usage(old.item(), write.now));
    for (at, object) in quotas.iter().enumerate() {
        let quota = Quota::of(object);
        if !scopes::is_in(&quota.spec, new.item()) {
            continue;
        }
        let counted: Vec<&str> =
            quota.hard.keys().map(String::as_str).filter(|name| write.resource.counts_as(name)).collect();
        quota.check(&new, &counted)?;
        let delta = match (&old, &before) {
            (Some(old), Some(before)) if scopes::is_in(&quota.spec, old.item()) => {
                amounts::growth(&usage, before)
            }
            _ => usage.clone(),
        };
        let requested = amounts::mask(&delta, |name| quota.hard.contains_key(name) && !delta[name].is_zero());
        let mut used = quota.used.clone();
        amounts::add(&mut used, &requested);
        // Existing objects may exceed the quota: a status is reported, not requested.
        if write.subresource != "status" {
            quota.check_room(&requested, &used)?;
        }
        let grows = |name: &String| delta.get(name).is_some_and(|amount| !amount.is_zero());
        if !requested.is_empty() || quota.is_stale() && quota.wanted.keys().any(grows) {
            found.push(Charge { at, used });
        }
    }
    Ok(found)
}

/// A quota.
struct Quota<'a> {
    name: &'a str,
    spec: api::ResourceQuotaSpec,
    /// `spec.hard`: the limits, effective once the usage is counted.
    wanted: Amounts,
    /// `status.hard`: the limits with counted usage.
    hard: Amounts,
    /// `status.used`.
    used: Amounts,
}

impl<'a> Quota<'a> {
    fn of(object: &'a Object) -> Self {
        let typed: api::ResourceQuota = object.typed().unwrap_or_default();
        let spec = typed.spec.unwrap_or_default();
        let status = typed.status.unwrap_or_default();
        let list = |list: Option<&_>| list.map(amounts::parse).unwrap_or_default();
        Quota {
            name: object.name(),
            wanted: list(spec.hard.as_ref()),
            hard: list(status.hard.as_ref()),
            used: list(status.used.as_ref()),
            spec,
        }
    }

    fn is_stale(&self) -> bool {
        self.wanted != self.hard
    }

    /// Whether the object has the fields that this quota counts, and the quota has a usage.
    fn check(&self, new: &Typed, counted: &[&str]) -> Result<(), String> {
        if let Typed::Pod(pod) = new
            && let Some(unsaid) = pods::unsaid(pod, counted.iter().copied())
        {
            return Err(format!("failed quota: {}: {unsaid}", self.name));
        }
        if counted.iter().any(|name| !self.used.contains_key(*name)) {
            let all = counted.join(",");
            return Err(format!("status unknown for quota: {}, resources: {all}", self.name));
        }
        Ok(())
    }

    /// Whether the usage after the write is allowed.
    fn check_room(&self, requested: &Amounts, used: &Amounts) -> Result<(), String> {
        let exceeds = |name: &str| requested.contains_key(name) && used.get(name) > self.hard.get(name);
        let exceeded = amounts::mask(requested, exceeds);
        if exceeded.is_empty() {
            return Ok(());
        }
        let of = |list: &Amounts| amounts::show(&amounts::mask(list, |name| exceeded.contains_key(name)));
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            amounts::show(&exceeded),
            of(&self.used),
            of(&self.hard)
        ))
    }
}

/// An object in the form that its rule reads.
enum Typed {
    Pod(Box<api::Pod>),
    Claim(Box<api::PersistentVolumeClaim>),
    Service(Box<api::Service>),
    Other,
}

impl Typed {
    fn of(resource: Resource<'_>, object: &Object) -> Self {
        let typed = match resource.rule() {
            Rule::Pods => object.typed().map(Typed::Pod),
            Rule::Claims => object.typed().map(Typed::Claim),
            Rule::Services => object.typed().map(Typed::Service),
            Rule::Count => None,
        };
        typed.unwrap_or(Typed::Other)
    }

    fn item(&self) -> Item<'_> {
        match self {
            Typed::Pod(pod) => Item::Pod(pod),
            Typed::Claim(claim) => Item::Claim(claim),
            Typed::Service(service) => Item::Service(service),
            Typed::Other => Item::Other,
        }
    }
}

/// The quota with this usage.
pub(crate) fn with_used(quota: &Object, used: &Amounts) -> Object {
    let mut charged = quota.clone();
    let used: serde_json::Map<String, Value> =
        used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    if !used.is_empty() {
        charged.set(&["status", "used"], used);
    }
    charged
}

#[cfg(test)]
mod tests;
