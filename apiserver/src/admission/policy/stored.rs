//! The policies and bindings of the store.

use orlop_api::object::Object;
use orlop_api::registry::admission_registration::GROUP;

use super::index::PolicyIndex;
use crate::admission::follow::{Followed, Follower};

/// The policies and bindings of the store, compiled.
pub(crate) type StoredPolicies = Follower<PolicyIndex>;

impl Followed for PolicyIndex {
    const KINDS: &'static [(&'static str, &'static str)] = &[
        (GROUP, "validatingadmissionpolicies"),
        (GROUP, "validatingadmissionpolicybindings"),
        (GROUP, "mutatingadmissionpolicies"),
        (GROUP, "mutatingadmissionpolicybindings"),
    ];

    fn set(&mut self, plural: &str, name: &str, object: Option<&Object>, known: Option<&Self>) {
        match plural {
            "validatingadmissionpolicies" => {
                self.validating.set_policy(name, object, false, known.map(|known| &known.validating));
            }
            "validatingadmissionpolicybindings" => self.validating.set_binding(name, object),
            "mutatingadmissionpolicies" => {
                self.mutating.set_policy(name, object, true, known.map(|known| &known.mutating));
            }
            _ => self.mutating.set_binding(name, object),
        }
    }
}
