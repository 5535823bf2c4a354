//! Storage classes: the class of an object, whether a claim specifies one, the default class, and whether a class
//! delays binding until a pod is scheduled. Pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::object::{annotation, name};
use orlop_client::names;

/// The class of a volume: the legacy annotation if it is present, else the field; empty means none.
pub fn volume_class(volume: &PersistentVolume) -> &str {
    annotation(&volume.metadata, names::ANN_BETA_STORAGE_CLASS)
        .or_else(|| volume.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or("")
}

/// The class of a claim, by the same rule.
pub fn claim_class(claim: &PersistentVolumeClaim) -> &str {
    annotation(&claim.metadata, names::ANN_BETA_STORAGE_CLASS)
        .or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or("")
}

/// Whether a claim specifies a class. An explicit empty class counts: it requests no class.
pub fn claim_has_class(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, names::ANN_BETA_STORAGE_CLASS).is_some()
        || claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
}

/// The volume attributes class of a volume; absent and empty are the same.
pub fn volume_attributes_class(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or("")
}

/// The volume attributes class that a claim requests; absent and empty are the same.
pub fn claim_attributes_class(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or("")
}

/// Whether a class is marked as a default, by either annotation and exactly `"true"`.
pub fn is_default(class: &StorageClass) -> bool {
    [names::ANN_DEFAULT_CLASS, names::ANN_BETA_DEFAULT_CLASS]
        .iter()
        .any(|key| annotation(&class.metadata, key) == Some("true"))
}

/// The default class: the newest of those marked; of equal age, the first by name.
// Tests: PV-15-2, OWN-DEFCLASS-5
pub fn default_class<C: AsRef<StorageClass>>(classes: impl IntoIterator<Item = C>) -> Option<C> {
    classes.into_iter().filter(|class| is_default(class.as_ref())).min_by(|a, b| {
        let (a, b) = (a.as_ref(), b.as_ref());
        let created = |class: &StorageClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        created(b).cmp(&created(a)).then_with(|| name(&a.metadata).cmp(name(&b.metadata)))
    })
}

/// A class without a binding mode. The API server defaults the field, so it was removed afterwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "VolumeBindingMode not set for StorageClass \"{class}\": set it to Immediate or WaitForFirstConsumer"
)]
pub struct NoBindingMode {
    /// The class.
    pub class: String,
}

/// Whether a claim of this class must wait for a pod before it may be bound. `class` is the class object, if it
/// was found; a missing class does not delay.
// Tests: FN-DELAY-MISSING, FN-DELAY-NOMODE, FN-DELAY-WAIT, NEW-DELAY-IMMEDIATE
pub fn delays_binding(class: Option<&StorageClass>) -> Result<bool, NoBindingMode> {
    let Some(class) = class else { return Ok(false) };
    match class.volume_binding_mode.as_deref() {
        Some(mode) => Ok(mode == "WaitForFirstConsumer"),
        None => Err(NoBindingMode { class: name(&class.metadata).to_owned() }),
    }
}
