//! Names that are built from a driver's name and its IDs.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::CSINode;

use orlop_client::informer::Change;
use orlop_client::names::FINALIZER_EXTERNAL_ATTACHER_PREFIX;

/// The prefix of every unique name of a CSI volume.
const PLUGIN_PREFIX: &str = "kubernetes.io/csi/";
/// Separates driver and handle.
const SEPARATOR: char = '^';

/// `kubernetes.io/csi/DRIVER^HANDLE`: the name of a volume in a node's status.
pub fn unique_name(driver: &str, handle: &str) -> String {
    format!("{PLUGIN_PREFIX}{driver}{SEPARATOR}{handle}")
}

/// Driver and handle of a unique name; none for another plugin's. A driver's name contains no `^`, its handle may.
pub fn of_unique_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PLUGIN_PREFIX)?.split_once(SEPARATOR)
}

/// Upstream's rule for a name alone: with a second separator, driver and handle are ambiguous.
pub fn has_plain_parts(name: &str) -> bool {
    name.matches(SEPARATOR).count() < 2
}

/// The finalizer of a driver's attacher: characters that a name must not contain become `-`, and a trailing `-` is not allowed.
pub fn attacher_finalizer(driver: &str) -> String {
    let clean = driver.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' });
    let mut name: String = FINALIZER_EXTERNAL_ATTACHER_PREFIX.chars().chain(clean).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

/// The driver's ID of a node.
pub fn node_id<'a>(node: &'a CSINode, driver: &str) -> Option<&'a str> {
    node.spec.drivers.iter().find(|entry| entry.name == driver).map(|entry| entry.node_id.as_str())
}

/// The CSI source of a volume.
pub fn source(volume: &PersistentVolume) -> Option<&CSIPersistentVolumeSource> {
    volume.spec.as_ref()?.csi.as_ref()
}

/// The key of the claim that a volume is bound to, or reserved for.
pub fn claim_key(volume: &PersistentVolume) -> Option<String> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(format!("{}/{}", claim.namespace.as_deref()?, claim.name.as_deref()?))
}

/// The volume is new, or bound or reserved for another claim than before.
pub fn has_new_claim(change: &Change<PersistentVolume>) -> bool {
    let claim = |volume: &PersistentVolume| {
        let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
        Some((reference.namespace.clone(), reference.name.clone(), reference.uid.clone()))
    };
    let Some(new) = change.new.as_deref() else { return false };
    change.is_new() || change.replaced() || change.old().is_none_or(|old| claim(old) != claim(new))
}

/// Whether the volume is bound to exactly this claim.
pub fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|r| {
        r.namespace == claim.metadata.namespace && r.uid.is_some() && r.uid == claim.metadata.uid
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_upstream() {
        assert_eq!(unique_name("d", "h"), "kubernetes.io/csi/d^h");
        assert_eq!(of_unique_name("kubernetes.io/csi/d^h"), Some(("d", "h")));
        assert_eq!(of_unique_name("kubernetes.io/csi/d^h^i"), Some(("d", "h^i")));
        assert!(has_plain_parts("kubernetes.io/csi/d^h") && !has_plain_parts("kubernetes.io/csi/d^h^i"));
        assert_eq!(of_unique_name("kubernetes.io/iscsi/x"), None);
        assert_eq!(attacher_finalizer("ebs.csi.aws.com"), "external-attacher/ebs-csi-aws-com");
        assert_eq!(attacher_finalizer("odd_"), "external-attacher/odd-X");
    }
}
