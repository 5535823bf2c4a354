//! Quota usage of objects: the names they count under, the amounts, and the scopes. The API server charges
//! by these rules on each write, and the controller counts the existing objects by the same rules, so both agree.
//!
//! Reading order: [`amounts`] arithmetic of lists, [`Resource`] the names that apply to each resource,
//! [`pods`] the
//! usage of pods, [`scopes`] the objects that a quota selects. Upstream: pkg/quota/v1/evaluator/core,
//! apiserver pkg/quota/v1.

pub mod amounts;
pub mod pods;
pub mod scopes;

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::jiff::Timestamp;

use crate::quantity::Quantity;
use amounts::Amounts;

/// The separator between a storage class name and the counted resource.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The older annotation for a claim's class; it takes precedence.
const ANN_BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The resources counted for claims, in total and per class.
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// The resources counted for services.
const OF_SERVICES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
/// Kinds whose objects are counted under their bare name as well.
const OLD_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
/// Resources that no quota counts: those without objects, and events, which expire by themselves.
const IGNORED: [(&str, &str); 5] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];

/// A resource of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    /// Its group, `""` for core.
    pub group: &'a str,
    /// Its plural.
    pub plural: &'a str,
}

/// How the objects of a resource are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// By the requests and limits of their containers.
    Pods,
    /// By their storage requests, and by class.
    Claims,
    /// By their type and ports.
    Services,
    /// One each.
    Count,
}

/// An object that may count.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A pod.
    Pod(&'a Pod),
    /// A claim.
    Claim(&'a PersistentVolumeClaim),
    /// A service.
    Service(&'a Service),
    /// Any other object: only its existence counts.
    Other,
}

impl<'a> Resource<'a> {
    /// A resource of a group.
    pub fn new(group: &'a str, plural: &'a str) -> Self {
        Resource { group, plural }
    }

    /// The resource that a name such as `count/deployments.apps` counts.
    pub fn of_count(name: &'a str) -> Option<Self> {
        let rest = name.strip_prefix("count/")?;
        let (plural, group) = rest.split_once('.').unwrap_or((rest, ""));
        Some(Resource { group, plural })
    }

    /// Returns the resources that a quota name applies to; empty if no resource counts under it.
    pub fn all_of(name: &'a str) -> Vec<Self> {
        if let Some(counted) = Self::of_count(name) {
            return vec![counted];
        }
        let named = ["pods", "persistentvolumeclaims", "services"].into_iter().chain(OLD_NAMES);
        named.map(|plural| Resource::new("", plural)).filter(|resource| resource.counts_as(name)).collect()
    }

    /// Returns the name under which its objects are counted.
    pub fn count_name(self) -> String {
        match self.group {
            "" => format!("count/{}", self.plural),
            group => format!("count/{}.{group}", self.plural),
        }
    }

    /// Returns whether quotas ignore the resource.
    pub fn is_ignored(self) -> bool {
        IGNORED.contains(&(self.group, self.plural))
    }

    /// Returns how its objects are counted.
    pub fn rule(self) -> Rule {
        match (self.group, self.plural) {
            ("", "pods") => Rule::Pods,
            ("", "persistentvolumeclaims") => Rule::Claims,
            ("", "services") => Rule::Services,
            _ => Rule::Count,
        }
    }

    /// Returns whether a quota name applies to its objects.
    pub fn counts_as(self, name: &str) -> bool {
        if name.starts_with("count/") {
            return Resource::of_count(name).is_some_and(|counted| counted == self);
        }
        match self.rule() {
            Rule::Pods => pods::is_about(name),
            Rule::Claims => {
                let plain = name.rsplit_once(OF_CLASS).map_or(name, |(_, plain)| plain);
                OF_CLAIMS.contains(&plain)
            }
            Rule::Services => OF_SERVICES.contains(&name),
            Rule::Count => self.group.is_empty() && name == self.plural && OLD_NAMES.contains(&name),
        }
    }

    /// Returns the usage of an object under all names. `now` decides whether a pod that is stuck in termination
    /// still counts.
    pub fn usage(self, item: Item<'_>, now: Timestamp) -> Amounts {
        let one = || Quantity::from_integer(1);
        let mut usage = Amounts::from([(self.count_name(), one())]);
        match item {
            Item::Pod(pod) => amounts::add(&mut usage, &pods::usage(pod, now)),
            Item::Claim(claim) => amounts::add(&mut usage, &of_claim(claim)),
            Item::Service(service) => amounts::add(&mut usage, &of_service(service)),
            Item::Other if self.counts_as(self.plural) => drop(usage.insert(self.plural.to_owned(), one())),
            Item::Other => {}
        }
        usage
    }
}

/// Returns the storage class of a claim, or `""` if it has none.
fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotations = claim.metadata.annotations.as_ref();
    let beta = annotations.and_then(|annotations| annotations.get(ANN_BETA_STORAGE_CLASS));
    let class = || claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    beta.or_else(class).map_or("", String::as_str)
}

/// Returns the storage that a claim is charged for: its request, or the allocated size if an expansion was
/// reverted.
fn storage_of(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    let asked = amounts::of(requests, "storage")?.rounded_up();
    let allocated = claim.status.as_ref().and_then(|status| status.allocated_resources.as_ref());
    let allocated = allocated.and_then(|list| amounts::of(list, "storage")).map(Quantity::rounded_up);
    Some(allocated.map_or(asked.clone(), |allocated| allocated.max(asked)))
}

fn of_claim(claim: &PersistentVolumeClaim) -> Amounts {
    let [count, storage] = OF_CLAIMS;
    let mut usage = Amounts::from([(count.to_owned(), Quantity::from_integer(1))]);
    if let Some(amount) = storage_of(claim) {
        usage.insert(storage.to_owned(), amount);
    }
    let class = class_of(claim);
    if !class.is_empty() {
        let of_class: Vec<_> =
            usage.iter().map(|(name, amount)| (format!("{class}{OF_CLASS}{name}"), amount.clone())).collect();
        usage.extend(of_class);
    }
    usage
}

/// Node ports are counted by the spec: they may not be allocated yet.
fn of_service(service: &Service) -> Amounts {
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let own_ports = spec.and_then(|spec| spec.allocate_load_balancer_node_ports) == Some(false);
    let (node_ports, balancers) = match spec.and_then(|spec| spec.type_.as_deref()) {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer") if own_ports => {
            (ports.iter().filter(|port| port.node_port.unwrap_or(0) != 0).count(), 1)
        }
        Some("LoadBalancer") => (ports.len(), 1),
        Some(_) | None => (0, 0),
    };
    let number = |count: usize| Quantity::from_integer(i64::try_from(count).unwrap_or(i64::MAX));
    OF_SERVICES
        .into_iter()
        .map(str::to_owned)
        .zip([number(1), number(node_ports), number(balancers)])
        .collect()
}

/// Returns whether a status update can change the usage of a claim: the allocated resources and the
/// VolumeAttributesClass names count.
pub fn claim_status_counts(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    storage_of(old) != storage_of(new) || scopes::attributes_classes(old) != scopes::attributes_classes(new)
}
