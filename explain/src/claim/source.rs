//! Explains problems with the data source of a claim, another claim or a snapshot: whether it exists, is ready,
//! and fits.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use orlop_apimachinery::quantity::Quantity;
use serde_json::json;

use crate::cluster_view::ClusterView;
use crate::fix;
use crate::model::{Cause, Code, Fix, Reference, Severity, Why};
use crate::words;
use orlop_client::meta::is_terminating;
use orlop_controller::snapshot::{self, VolumeSnapshot};
use orlop_volume::class;
use orlop_volume::fit;
use orlop_volume::object::{self, ClaimPhase, VolumeMode, volume_name};

/// The data source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its name, in the namespace of the claim.
    pub name: &'a str,
    namespace: Option<&'a str>,
}

impl Source<'_> {
    /// Whether the source is a snapshot.
    pub fn is_snapshot(&self) -> bool {
        (self.group, self.kind) == (snapshot::GROUP, "VolumeSnapshot")
    }
}

/// The data source of a claim. The server keeps `dataSource` and `dataSourceRef` equal where both can express the
/// source.
pub fn source_of(claim: &PersistentVolumeClaim) -> Option<Source<'_>> {
    let spec = claim.spec.as_ref()?;
    if let Some(source) = &spec.data_source {
        let group = source.api_group.as_deref().unwrap_or_default();
        return Some(Source { group, kind: &source.kind, name: &source.name, namespace: None });
    }
    let source = spec.data_source_ref.as_ref()?;
    Some(Source {
        group: source.api_group.as_deref().unwrap_or_default(),
        kind: &source.kind,
        name: &source.name,
        namespace: source.namespace.as_deref(),
    })
}

/// Explains a problem with the data source of a claim that waits for provisioning.
pub(crate) fn explain(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    why: &mut Why,
) {
    let Some(source) = source_of(claim) else { return };
    let here = claim.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = source.namespace.unwrap_or(here);
    let said = match (source.kind, source.group) {
        ("VolumeSnapshot", snapshot::GROUP) => of_snapshot(world, claim, class, namespace, source.name),
        ("PersistentVolumeClaim", "") => of_claim(world, claim, class, namespace, source.name),
        (kind, group) => {
            let message = format!(
                "The claim is to be filled from {kind} {namespace}/{} ({}), which no storage driver reads: a populator for that \
                 kind has to run and fill the volume.",
                source.name,
                if group.is_empty() { "no group" } else { group }
            );
            Some((Severity::Waiting, Cause::new(Code::PopulatorAwaited, message, Vec::new())))
        }
    };
    if let Some((severity, cause)) = said {
        why.push(severity, cause);
    }
}

type SourceProblem = Option<(Severity, Cause)>;

fn attention(code: Code, message: String, objects: Vec<Reference>) -> SourceProblem {
    Some((Severity::Attention, Cause::new(code, message, objects)))
}

fn of_snapshot(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    namespace: &str,
    name: &str,
) -> SourceProblem {
    let key = format!("{namespace}/{name}");
    let Some(snapshot) = world.snapshot(namespace, name) else {
        let message = format!(
            "The claim requests a volume from snapshot {key}, which does not exist. Create that snapshot, or recreate the claim \
             with an existing one."
        );
        let object = Reference::named::<VolumeSnapshot>(Some(namespace), name);
        return attention(Code::SourceMissing, message, vec![object]);
    };
    let objects = vec![Reference::to(snapshot.as_ref())];
    if is_terminating(snapshot.as_ref()) {
        let message = format!(
            "The claim requests a volume from snapshot {key}, which is being deleted and cannot be used any more. Recreate \
             the claim with another snapshot."
        );
        return attention(Code::SourceUnfit, message, objects);
    }
    let status = snapshot.status.clone().unwrap_or_default();
    let content = status.bound_volume_snapshot_content_name.as_deref();
    let content = content.and_then(|name| world.content(name));
    let of_content = content.as_ref().and_then(|content| content.status.as_ref()?.error.clone());
    let error = status.error.or(of_content).and_then(|error| error.message);
    if status.ready_to_use != Some(true) {
        return match error {
            Some(error) => {
                let message = format!(
                    "The claim waits for snapshot {key}, which could not be created: {}. It is retried.",
                    words::open(&error)
                );
                attention(Code::SourceNotReady, message, objects)
            }
            None => {
                let message = format!(
                    "The claim waits for snapshot {key}, which is not ready yet. The volume is provisioned when it is."
                );
                Some((Severity::Waiting, Cause::new(Code::SourceNotReady, message, objects)))
            }
        };
    }
    if let (Some(content), Some(class)) = (&content, class)
        && content.spec.driver != class.provisioner
    {
        let message = format!(
            "Snapshot {key} was taken by driver {}, and class {} provisions volumes with {}, which cannot read it. Recreate the claim \
             with a class of {}.",
            content.spec.driver,
            object::name(&class.metadata),
            class.provisioner,
            content.spec.driver
        );
        return attention(Code::SourceUnfit, message, objects);
    }
    let has = Quantity::parse(&status.restore_size?.0).ok()?;
    let wants = fit::request(claim)?;
    (wants < has).then(|| {
        let message = format!("Snapshot {key} has a size of {has}, and the claim requests only {wants}.");
        let cause = Cause::new(Code::SourceUnfit, message, objects).fixed_by(larger(claim, &has));
        (Severity::Attention, cause)
    })
}

/// The request of a pending claim is immutable, so the claim is recreated.
fn larger(claim: &PersistentVolumeClaim, size: &Quantity) -> Option<Fix> {
    let spec = json!({"resources": {"requests": {"storage": size.to_string()}}});
    fix::recreate_claim(claim, &spec, &format!("with a request of {size}"))
}

fn of_claim(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    namespace: &str,
    name: &str,
) -> SourceProblem {
    let key = format!("{namespace}/{name}");
    let Some(source) = world.claim(&key) else {
        let message = format!(
            "The claim requests a clone of claim {key}, which does not exist. Create that claim, or recreate this one \
             with an existing source."
        );
        let object = Reference::named::<PersistentVolumeClaim>(Some(namespace), name);
        return attention(Code::SourceMissing, message, vec![object]);
    };
    let objects = vec![Reference::to(source.as_ref())];
    if object::is_terminating(&source.metadata) {
        let message = format!(
            "The claim requests a clone of claim {key}, which is being deleted and cannot be cloned any more. Recreate this claim \
             with another source."
        );
        return attention(Code::SourceUnfit, message, objects);
    }
    let phase = ClaimPhase::of(&source);
    if phase != ClaimPhase::Bound {
        let message = format!(
            "The claim requests a clone of claim {key}, which has no volume yet. Explain that claim: `orlop why \
             pvc/{name} -n {namespace}`."
        );
        return Some((Severity::Waiting, Cause::new(Code::SourceNotReady, message, objects)));
    }
    let (asks, gives) = (VolumeMode::of_claim(claim), VolumeMode::of_claim(&source));
    if asks != gives {
        let message = format!(
            "Claim {key} has volume mode {gives:?}, and its clone requests {asks:?}: both must be the same."
        );
        let spec = json!({"volumeMode": format!("{gives:?}")});
        let fix = fix::recreate_claim(claim, &spec, &format!("with mode {gives:?}"));
        let cause = Cause::new(Code::SourceUnfit, message, objects).fixed_by(fix);
        return Some((Severity::Attention, cause));
    }
    let (wants, has) = (fit::request(claim)?, fit::request(&source)?);
    if wants < has {
        let message = format!("Claim {key} has a size of {has}, and its clone requests only {wants}.");
        let cause = Cause::new(Code::SourceUnfit, message, objects).fixed_by(larger(claim, &has));
        return Some((Severity::Attention, cause));
    }
    let volume = world.volume(volume_name(&source))?;
    let driver = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).map(|csi| csi.driver.as_str());
    let class = class?;
    (driver != Some(class.provisioner.as_str())).then(|| {
        let message = format!(
            "Claim {key} has a volume of {}, and class {} provisions volumes with {}, which cannot clone it. Recreate the claim \
             with the class {}.",
            driver.unwrap_or("no storage driver"),
            object::name(&class.metadata),
            class.provisioner,
            words::or_none(class::claim_class(&source)),
        );
        (Severity::Attention, Cause::new(Code::SourceUnfit, message, objects))
    })
}
