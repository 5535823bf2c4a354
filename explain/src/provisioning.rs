//! Explains which provisioner creates the volume of a claim, and why the volume does not exist yet.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttributesClass};
use orlop_apimachinery::quantity::Quantity;

use orlop_client::names::{self, reason};
use orlop_controller::scheduler::terms::Selects;
use orlop_volume::class::{claim_attributes_class, claim_class};
use orlop_volume::fit::request;
use orlop_volume::object;

use super::cluster_view::{ClusterView, seen};
use super::eligible_nodes::{AllowedNodes, chosen_node};
use super::model::{Cause, Code, Reference, Severity, Why};
use super::words;

/// The provisioner of classes without dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Whether the volumes of a class are created manually.
pub(super) fn is_static(class: &StorageClass) -> bool {
    class.provisioner == NO_PROVISIONER
}

/// A reference to a class that may be missing.
pub(super) fn class(name: &str) -> Reference {
    Reference::named::<StorageClass>(None, name)
}

/// The source of a claim's volume if no existing volume fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Supply {
    /// A provisioner is asked to create it.
    Made,
    /// The provisioner does not work.
    Broken,
    /// The class has no provisioner: only an existing volume can be bound.
    ByHand,
}

/// Explains the provisioning of a claim.
pub(super) fn explain(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    found: Option<&StorageClass>,
    why: &mut Why,
) -> Supply {
    let name = claim_class(claim);
    let this = vec![class(name)];
    let Some(found) = found else {
        let message = format!(
            "Storage class {name} does not exist, so no volume is provisioned. Create the class, or a volume with this class name."
        );
        why.push(Severity::Attention, Cause::new(Code::ClassMissing, message, this));
        return Supply::ByHand;
    };
    if !world.settings().dynamic_provisioning {
        let message = "Dynamic provisioning is disabled (--enable-dynamic-provisioning=false): create volumes manually.";
        why.push(Severity::Attention, Cause::new(Code::ProvisioningOff, message, this));
        return Supply::ByHand;
    }
    let provisioner = found.provisioner.as_str();
    if is_static(found) {
        let message = format!("Class {name} has no provisioner ({NO_PROVISIONER}): create volumes manually.");
        why.push(Severity::Attention, Cause::new(Code::NoProvisioner, message, this));
        return Supply::ByHand;
    }
    if let Some(node) = chosen_node(claim)
        && world.node(node).is_none()
    {
        let message = format!(
            "The scheduler selected node {node} for the claim, and no such node exists. It will choose again."
        );
        let object = Reference::named::<Node>(None, node);
        why.push(Severity::Waiting, Cause::new(Code::NodeMissing, message, vec![object]));
    }
    let own = provisioner == names::PLUGIN_HOST_PATH && world.settings().host_path_provisioner;
    let driver = names::migrated_driver(provisioner).unwrap_or(provisioner);
    if !own && driver.starts_with(names::IN_TREE_PREFIX) {
        let mut message =
            format!("Class {name} names the in-tree plugin {driver}, which cannot provision volumes here.");
        if driver == names::PLUGIN_HOST_PATH {
            message.push_str(
                " To provision hostPath volumes, start the controllers with --enable-hostpath-provisioner.",
            );
        }
        why.push(Severity::Attention, Cause::new(Code::PluginMissing, message, this));
        return Supply::Broken;
    }
    super::claim::source::explain(world, claim, Some(found), why);
    attributes_class(world, claim, why);
    let this_claim = Reference::to(claim);
    let failure = world.event(&this_claim, &[reason::PROVISIONING_FAILED]);
    let better = world.event(&this_claim, &[reason::PROVISIONING_SUCCEEDED]).and_then(seen);
    let failure = failure.filter(|failure| better.is_none_or(|better| seen(failure) > Some(better)));
    if let Some(said) = failure.and_then(|event| event.message.as_deref()) {
        let message = format!(
            "{driver} could not provision a volume for the claim: {}. It retries.",
            words::open(said)
        );
        let mut objects = this.clone();
        objects.push(Reference::named::<CSIDriver>(None, driver));
        why.push(Severity::Attention, Cause::new(Code::ProvisioningFailed, message, objects));
        return Supply::Made;
    }
    if !own && !world.has_driver(driver) {
        let message = format!(
            "Class {name} provisions with {driver}, which is not installed: there is no CSIDriver {driver}, no node has it, and it has reported no event for this claim. Install it, or correct the provisioner of the class."
        );
        why.push(Severity::Attention, Cause::new(Code::ProvisionerMissing, message, this));
        return Supply::Broken;
    }
    let asked = object::annotation(&claim.metadata, names::ANN_STORAGE_PROVISIONER) == Some(driver);
    let state =
        if asked { "is provisioning the volume" } else { "will be called to provision the volume soon" };
    let message = format!("{driver} {state}. If this takes long, check that its provisioner is running.");
    why.push(Severity::Waiting, Cause::new(Code::WaitsForProvisioner, message, this));
    Supply::Made
}

/// Whether the class provisions volumes and its provisioner is installed.
pub(super) fn is_answered(world: &dyn ClusterView, class: &StorageClass) -> bool {
    let driver = names::migrated_driver(&class.provisioner).unwrap_or(&class.provisioner);
    let own = driver == names::PLUGIN_HOST_PATH && world.settings().host_path_provisioner;
    world.settings().dynamic_provisioning && !is_static(class) && (own || world.has_driver(driver))
}

/// Explains a missing volume attributes class, which must exist before the driver is called.
pub(super) fn attributes_class(world: &dyn ClusterView, claim: &PersistentVolumeClaim, why: &mut Why) {
    let wanted = claim_attributes_class(claim);
    if wanted.is_empty() || world.attributes_class(wanted).is_some() {
        return;
    }
    let message = format!(
        "The claim requests the volume attributes class {wanted}, which does not exist. Create it; its driverName must be that of the \
         volume's driver."
    );
    let object = Reference::named::<VolumeAttributesClass>(None, wanted);
    why.push(Severity::Attention, Cause::new(Code::AttributesClassMissing, message, vec![object]));
}

/// Explains that the driver reports too little capacity wherever the claim's pod may run. `eligible`: where the pod
/// may run.
pub(super) fn room(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    eligible: &AllowedNodes,
    why: &mut Why,
) {
    let driver = class.provisioner.as_str();
    let tells = world.driver(driver).and_then(|driver| driver.spec.storage_capacity).unwrap_or(false);
    let Some(wants) = request(claim).filter(|_| tells) else { return };
    let name = object::name(&class.metadata);
    let capacities = world.capacities(name);
    let size = |one: &CSIStorageCapacity| {
        let size = one.maximum_volume_size.as_ref().or(one.capacity.as_ref())?;
        Quantity::parse(&size.0).ok()
    };
    let near = capacities.iter().filter(|one| {
        let nodes = Selects::read(one.node_topology.as_ref());
        eligible.labels.iter().any(|labels| nodes.matches(labels))
    });
    let (most, anywhere) =
        (near.filter_map(|one| size(one)).max(), capacities.iter().filter_map(|one| size(one)).max());
    if most.as_ref().is_some_and(|most| *most >= wants) {
        return;
    }
    let here = match &most {
        Some(most) => {
            format!("has capacity for a volume of at most {most} where {} can run", eligible.subject)
        }
        None => format!("reports no capacity where {} can run", eligible.subject),
    };
    let elsewhere = match anywhere.filter(|most| *most >= wants) {
        Some(most) => format!(" Other nodes have capacity for {most}: schedule the pod there."),
        None => " No other node has more: free some capacity, or request less.".to_owned(),
    };
    let message = format!("The claim requests {wants} of class {name}, and {driver} {here}.{elsewhere}");
    let mut objects = vec![self::class(name)];
    objects.extend(capacities.iter().take(3).map(|one| Reference::to(one.as_ref())));
    why.push(Severity::Attention, Cause::new(Code::NoRoomLeft, message, objects));
}

/// Whether a UID from a reference matches the claim; an empty UID matches.
pub(super) fn same_object(claim: &PersistentVolumeClaim, uid: &str) -> bool {
    uid.is_empty() || uid == object::uid(&claim.metadata)
}
