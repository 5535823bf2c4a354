//! `Event`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Event;

const NAMES: Names = Names {
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short: &["ev"],
    categories: &[],
    schema: "io.k8s.api.events.v1.Event",
};

impl Kind for Event {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/events/"
    }
}
