//! The claims that a pod needs. Pure functions.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate};
use kube::core::ObjectMeta;
use orlop_client::meta::{annotation, is_terminating};
use orlop_client::pods::{is_finished, node_name};

use crate::workload::owned::{controller_of, controller_reference};

/// ResourceClaim: the entry in the pod's `spec.resourceClaims` for which the claim was created.
pub(super) const ANN_POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// The maximum number of consumers of a claim. Upstream: ResourceClaimReservedForMaxSize.
const MAX_CONSUMERS: usize = 256;
/// The longest prefix of a generated name. Upstream: maxBaseLen.
const MAX_PREFIX: usize = 57;

/// The claim of an entry in a pod's `spec.resourceClaims`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimName<'p> {
    /// A claim that the user creates.
    Named(&'p str),
    /// A claim that was created from a template.
    Generated(&'p str),
    /// A template determined that no claim is needed.
    NotNeeded,
    /// The claim must be created from a template.
    Missing,
}

/// The entries of a pod.
pub(super) fn entries(pod: &Pod) -> &[PodResourceClaim] {
    pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_deref()).unwrap_or_default()
}

/// The claims of all entries of a pod. A pod can have thousands of entries, so their statuses are not searched for each of them.
pub(super) struct PodClaims<'p> {
    pod: &'p Pod,
    /// The claims in the status, by the names of their entries; `None` if no claim is needed.
    created: HashMap<&'p str, Option<&'p str>>,
}

impl<'p> PodClaims<'p> {
    /// The claims of this pod.
    pub(super) fn of(pod: &'p Pod) -> Self {
        let statuses = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
        let mut created = HashMap::new();
        for status in statuses {
            created.entry(status.name.as_str()).or_insert(status.resource_claim_name.as_deref());
        }
        Self { pod, created }
    }

    /// The claim of an entry.
    pub(super) fn name(&self, entry: &'p PodResourceClaim) -> ClaimName<'p> {
        if let Some(name) = &entry.resource_claim_name {
            return ClaimName::Named(name);
        }
        match self.created.get(entry.name.as_str()) {
            None => ClaimName::Missing,
            Some(None) => ClaimName::NotNeeded,
            Some(Some(name)) => ClaimName::Generated(name),
        }
    }

    /// The names of all claims that the pod uses, including that of its extended resources.
    pub(super) fn names(&self) -> Vec<String> {
        let named = entries(self.pod).iter().filter_map(|entry| match self.name(entry) {
            ClaimName::Named(name) | ClaimName::Generated(name) => Some(name.to_owned()),
            ClaimName::NotNeeded | ClaimName::Missing => None,
        });
        let status = self.pod.status.as_ref();
        let extended = status.and_then(|status| status.extended_resource_claim_status.as_ref());
        named.chain(extended.map(|extended| extended.resource_claim_name.clone())).collect()
    }

    /// Whether a claim must be created for an entry, or an orphaned one be found. `find` returns a claim of the pod's
    /// namespace.
    pub(super) fn needs_claim<C: AsRef<ResourceClaim>>(
        &self,
        entry: &'p PodResourceClaim,
        find: impl FnOnce(&str) -> Option<C>,
    ) -> bool {
        if entry.resource_claim_template_name.is_none() {
            return false;
        }
        match self.name(entry) {
            ClaimName::Missing => true,
            // The claim was deleted by mistake, or its name belongs to another claim.
            ClaimName::Generated(name) => find(name).is_none_or(|claim| !is_for(self.pod, claim.as_ref())),
            ClaimName::Named(_) | ClaimName::NotNeeded => false,
        }
    }
}

/// Whether no container of the pod runs or will run.
pub(super) fn is_done(pod: &Pod) -> bool {
    is_finished(pod) || is_terminating(pod) && node_name(pod).is_none()
}

/// Whether the claim was created for this pod.
pub(super) fn is_for(pod: &Pod, claim: &ResourceClaim) -> bool {
    let owner = controller_of(&claim.metadata).map(|owner| &owner.uid);
    claim.metadata.namespace == pod.metadata.namespace
        && owner.is_some()
        && owner == pod.metadata.uid.as_ref()
}

/// Whether the claim was created for this entry of the pod.
pub(super) fn is_for_entry(pod: &Pod, entry: &PodResourceClaim, claim: &ResourceClaim) -> bool {
    is_for(pod, claim) && annotation(claim, ANN_POD_CLAIM) == Some(&entry.name)
}

/// The claim to create for an entry.
pub(super) fn new_claim(
    pod: &Pod,
    entry: &PodResourceClaim,
    template: &ResourceClaimTemplate,
) -> ResourceClaim {
    let given = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.insert(ANN_POD_CLAIM.to_owned(), entry.name.clone());
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    ResourceClaim {
        metadata: ObjectMeta {
            generate_name: Some(prefix(pod_name, &entry.name)),
            namespace: pod.metadata.namespace.clone(),
            labels: given.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(pod)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.spec.clone(),
        status: None,
    }
}

/// The prefix of a claim's name. If it is too long, both names are cut in proportion to their lengths.
fn prefix(pod: &str, entry: &str) -> String {
    let full = format!("{pod}-{entry}-");
    if full.len() <= MAX_PREFIX {
        return full;
    }
    // Names are ASCII.
    let cut = |name: &str| name.get(..name.len() * MAX_PREFIX / full.len()).unwrap_or(name).to_owned();
    format!("{}-{}", cut(pod), cut(entry))
}

/// The claim with this pod as a further consumer; `None` if it is not allocated, has the pod as a consumer, or has no
/// room for it.
pub(super) fn reserved_for(pod: &Pod, claim: &ResourceClaim) -> Option<ResourceClaim> {
    let status = claim.status.as_ref().filter(|status| status.allocation.is_some())?;
    let uid = pod.metadata.uid.clone()?;
    let consumers = status.reserved_for.as_deref().unwrap_or_default();
    if consumers.len() >= MAX_CONSUMERS || consumers.iter().any(|consumer| consumer.uid == uid) {
        return None;
    }
    let consumer = ResourceClaimConsumerReference {
        api_group: None,
        name: pod.metadata.name.clone()?,
        resource: "pods".to_owned(),
        uid,
    };
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().reserved_for.get_or_insert_default().push(consumer);
    Some(claim)
}
