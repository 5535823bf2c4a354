//! Former versions of Secrets in lists and watches of old revisions.
//!
//! The right to read a Secret does not include its former values. Watches and lists in progress need former versions for a minute
//! ([`orlop_store::CONTINUITY`]). A store retains older versions only with `--store-retention-secrets`, and a user that reads them needs
//! the verb [`VERB`] on `secrets` in the group `orlop.dev`. Without this right, the response is `Expired`, as on a server that does not
//! retain them, so clients list again.

use std::sync::Arc;

use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_store::{Kv, Revision};

use crate::authorization::decide_right;
use crate::projection::Projection;
use crate::verbs::request::Request;

/// The verb. No bootstrap role except `cluster-admin` contains it.
pub(crate) const VERB: &str = "read-former-versions";

/// The group of the right, and its version.
const GROUP: (&str, &str) = ("orlop.dev", "v1");

/// Hides former versions from a request.
pub(crate) struct FormerLimit(Arc<dyn Kv<Projection>>);

impl FormerLimit {
    /// The limit of a request; `None` if its user may read all versions.
    pub(crate) async fn of(request: &Request) -> Option<Self> {
        let names = request.names();
        if (names.group, names.plural) != ("", "secrets") {
            return None;
        }
        let decision = decide_right(&request.server, &request.user, &right(request), None).await;
        let is_allowed = decision.is_ok_and(|decision| decision.allowed);
        (!is_allowed).then(|| FormerLimit(request.server.store.clone()))
    }

    /// The newest revision whose former versions are hidden.
    pub(crate) fn floor(&self) -> Revision {
        self.0.former_floor()
    }
}

/// Whether the state at a revision contains hidden versions. Pure.
pub(crate) fn hides_state(floor: Revision, at: Revision) -> bool {
    at < floor
}

/// Whether an event may contain a hidden version: it is one of those after a state that does. Pure.
pub(crate) fn hides_event(floor: Revision, event: Revision) -> bool {
    event <= floor
}

fn right(request: &Request) -> RequestInfo {
    let at = &request.resource;
    let target = ResourceTarget {
        group: GROUP.0.to_owned(),
        version: GROUP.1.to_owned(),
        namespace: at.namespace.clone(),
        resource: request.names().plural.to_owned(),
        name: at.name.clone(),
        ..ResourceTarget::default()
    };
    RequestInfo { verb: VERB.into(), target: RequestTarget::Resource(target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The event at revision 5 replaced a version more than a minute ago.
    #[test]
    fn versions_before_the_floor_are_hidden() {
        for (revision, state, event) in
            [(3, true, true), (4, true, true), (5, false, true), (6, false, false)]
        {
            let (floor, at) = (Revision(5), Revision(revision));
            assert_eq!((hides_state(floor, at), hides_event(floor, at)), (state, event), "{revision}");
        }
        assert!(!hides_state(Revision::ZERO, Revision::ZERO), "nothing is hidden");
        assert!(!hides_event(Revision::ZERO, Revision(1)), "nothing is hidden");
    }
}
