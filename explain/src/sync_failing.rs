//! Adds the controllers that keep failing on the object, by the events that they write
//! ([`orlop_client::failing`]).

use std::collections::BTreeSet;

use super::cluster_view::{ClusterView, is_about};
use super::model::{Cause, Code, Severity, Why};
use super::subject::Subject;
use super::words;
use orlop_client::failing::INFORMER;
use orlop_client::names::reason;

/// Maximum number of controllers that are named.
const MAX_CONTROLLERS: usize = 5;

/// Adds a cause for each controller whose newest report on the object is a failure.
pub(super) fn explain(world: &dyn ClusterView, subject: &Subject, why: &mut Why) {
    let reference = subject.reference();
    let mut controllers = BTreeSet::new();
    let reasons = [reason::SYNC_FAILING, reason::SYNCED];
    for event in world.events().iter().filter(|event| is_about(event, &reference, &reasons)) {
        let controller = event.reporting_component.as_deref().unwrap_or_default();
        let newest = controllers.insert(controller);
        if !newest || event.reason.as_deref() != Some(reason::SYNC_FAILING) {
            continue;
        }
        let message = event.message.as_deref().unwrap_or_default();
        let text = match controller {
            INFORMER => format!("Controllers cannot read this object: {}.", words::open(message)),
            _ => format!("Controller {controller} fails on this object: {}.", words::open(message)),
        };
        why.push(Severity::Attention, Cause::new(Code::SyncFailing, text, Vec::new()));
        if controllers.len() == MAX_CONTROLLERS {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::tests::{ask, volume, world};

    fn event(name: &str, controller: &str, reason: &str, minute: u32) -> Value {
        json!({"kind": "Event", "apiVersion": "v1", "metadata": {"namespace": "default", "name": name},
            "involvedObject": {"kind": "PersistentVolume", "name": "v", "uid": "uid-v"},
            "reason": reason, "message": "The sync failed 5 times in 31 s: refused",
            "lastTimestamp": format!("2026-05-01T11:{minute:02}:00Z"), "reportingComponent": controller})
    }

    #[test]
    fn i12_failing_sync_of_an_object_is_a_cause_until_a_sync_succeeds() {
        let failing = event("one", "persistentvolume-binder-controller", "SyncFailing", 10);
        let why = ask(&world(&[volume(), failing.clone()]), "persistentvolumes", "v");
        let cause = why.causes.iter().find(|cause| cause.message.starts_with("Controller"));
        assert_eq!(
            cause.map(|cause| cause.message.as_str()),
            Some(
                "Controller persistentvolume-binder-controller fails on this object: The sync failed 5 times in 31 s: refused."
            )
        );
        let unread = event("three", "informer", "SyncFailing", 10);
        let why = ask(&world(&[volume(), unread]), "persistentvolumes", "v");
        assert!(
            why.causes.iter().any(|cause| cause.message.starts_with("Controllers cannot read this object: ")),
            "{why:?}"
        );
        let recovered = event("two", "persistentvolume-binder-controller", "Synced", 11);
        let why = ask(&world(&[volume(), failing, recovered]), "persistentvolumes", "v");
        assert!(!why.causes.iter().any(|cause| cause.message.starts_with("Controller")), "{why:?}");
    }
}
