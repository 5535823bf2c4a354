//! The rights to the responses of this group. A user needs the right to the endpoint, and in addition the rights to the objects in
//! the response: the same rights as for reading these objects directly.

use std::collections::HashSet;
use std::sync::Arc;

use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

use super::ObjectTarget;
use super::key_resolver::kinds;
use crate::authentication::StreamCredential;
use crate::authorization::{forbidden, right};
use crate::registry::{Kind, KindRef, Scope};
use crate::state::Inner;

/// The kinds of the objects that explanations and plans mention: group and plural.
const MENTIONED: [(&str, &str); 11] = [
    ("", "pods"),
    ("", "persistentvolumeclaims"),
    ("", "events"),
    ("", "resourcequotas"),
    ("", "persistentvolumes"),
    ("", "nodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csistoragecapacities"),
];

/// The rights of the user of a request.
pub(super) struct Rights<'a> {
    pub(super) server: &'a Arc<Inner>,
    pub(super) user: &'a UserInfo,
    /// The credential that the streams of the user depend on.
    pub(super) credential: Option<StreamCredential>,
}

impl Rights<'_> {
    /// Checks that the user may read an object: its past, its explanation and the effects of its deletion need this right.
    ///
    /// # Errors
    /// 403 if not.
    pub(super) async fn may_get(&self, target: &ObjectTarget) -> Result<(), ApiError> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        self.check("get", &*target.kind, namespace, &target.name).await
    }

    /// Whether the user may list all kinds of which a response about an object mentions objects.
    pub(super) async fn sees_related(&self, target: &ObjectTarget) -> bool {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let kinds =
            MENTIONED.iter().filter_map(|(group, plural)| crate::registry::by_resource(group, "v1", plural));
        for kind in kinds {
            let namespace = match kind.scope() {
                Scope::Namespaced => namespace,
                Scope::Cluster => "",
            };
            if !self.permits("list", kind, namespace).await {
                return false;
            }
        }
        true
    }

    /// The kinds that the user may list and watch in all namespaces, by the prefixes of their keys. `None` stands for all.
    pub(super) async fn readable_prefixes(&self) -> Option<HashSet<&'static str>> {
        if !self.server.authorizer.restricts(self.user) {
            return None;
        }
        let mut readable = HashSet::new();
        for kind in kinds(&self.server.kinds.now()) {
            if self.permits("list", &*kind, "").await && self.permits("watch", &*kind, "").await {
                readable.insert(kind.storage_prefix());
            }
        }
        Some(readable)
    }

    /// Checks that the user may list and watch all objects of a kind.
    ///
    /// # Errors
    /// 403 if not.
    pub(super) async fn may_follow(&self, kind: &KindRef) -> Result<(), ApiError> {
        self.check("list", &**kind, "", "").await?;
        self.check("watch", &**kind, "", "").await
    }

    async fn permits(&self, verb: &'static str, kind: &dyn Kind, namespace: &str) -> bool {
        self.check(verb, kind, namespace, "").await.is_ok()
    }

    async fn check(
        &self,
        verb: &'static str,
        kind: &dyn Kind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let right = right(verb, kind.names(), namespace, name);
        let decision = self.server.authorizer.decide(self.user, &right).await;
        if decision.allowed { Ok(()) } else { Err(forbidden(self.user, &right, &decision.reason)) }
    }
}

/// Whether the user of a stream may follow a kind that the server serves only since the stream began.
pub(super) fn may_follow_now(server: &Inner, user: &UserInfo, kind: &dyn Kind) -> bool {
    let decide = |verb| server.authorizer.decide_blocking(user, &right(verb, kind.names(), "", "")).allowed;
    decide("list") && decide("watch")
}
