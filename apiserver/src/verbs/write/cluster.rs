//! The cluster around a request, for admission: the newest snapshot, the served kinds and the authorizer.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use orlop_api::object::Object;
use orlop_api::registry::admission_registration;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use orlop_crd::expression::AccessAnswer;
use orlop_store::Snapshot;

use crate::admission::Lookup as _;
use crate::admission::matching::NamespaceLabels;
use crate::admission::policy::ClusterState;
use crate::admission::webhook::{Resolves, WebhookService};
use crate::authorization::parameters::ParameterKinds;
use crate::dispatch;
use crate::encode::undecoded::Undecoded;
use crate::projection::Projection;
use crate::registry::{self, KINDS, KindRef};
use crate::services::backend::{NoBackend, backend};
use crate::state::Inner;
use crate::verbs::request::{HeadLookup, Request};

/// The cluster around a request.
pub(super) struct ClusterHead<'a> {
    server: &'a Inner,
    head: Snapshot<Projection>,
    /// The error of the first object that policies and webhooks needed, and that cannot be read.
    unreadable: OnceLock<ApiError>,
}

impl<'a> ClusterHead<'a> {
    /// The cluster in its newest snapshot.
    pub(super) fn of(request: &'a Request) -> Self {
        ClusterHead { server: &request.server, head: request.head(), unreadable: OnceLock::new() }
    }

    /// Lookups of the plugins, in the same snapshot.
    pub(super) fn lookup(&self) -> HeadLookup<'_> {
        HeadLookup::new(self.server, self.head.clone())
    }

    /// Checks the objects that policies and webhooks needed.
    ///
    /// # Errors
    /// One of them cannot be read, so that their decision means nothing.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        self.unreadable.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Reads for a decision; `None` if an object is unreadable, which fails the request later ([`check`](Self::check)).
    fn read<T>(&self, read: impl FnOnce(&HeadLookup<'_>) -> T) -> Option<T> {
        match self.lookup().run(read) {
            Ok(result) => Some(result),
            Err(error) => {
                // The first one names the cause.
                let _ = self.unreadable.set(error);
                None
            }
        }
    }

    fn builtin(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Object> {
        let kind = registry::by_resource(group, "v1", plural)?;
        self.read(|lookup| lookup.get(kind, namespace, name))?
    }
}

impl NamespaceLabels for ClusterHead<'_> {
    fn namespace(&self, name: &str) -> Option<Object> {
        self.builtin("", "namespaces", "", name)
    }
}

impl ClusterState for ClusterHead<'_> {
    fn kind_named(&self, api_version: &str, kind: &str) -> Option<KindRef> {
        let is_it = |names: &registry::Names| names.kind == kind && names.api_version() == api_version;
        let builtin =
            KINDS.iter().find(|one| is_it(one.names()) && one.is_stored()).map(|one| KindRef::Builtin(*one));
        builtin.or_else(|| self.server.kinds.now().kinds().find(|one| is_it(one.names())).cloned())
    }

    fn object(&self, kind: &KindRef, namespace: &str, name: &str) -> Option<Object> {
        self.read(|lookup| lookup.get(&**kind, namespace, name))?
    }

    fn visit_objects(
        &self,
        kind: &KindRef,
        namespace: &str,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    ) {
        let namespace = (!namespace.is_empty()).then_some(namespace);
        self.read(|lookup| lookup.visit(&**kind, namespace, visit));
    }

    fn decide(&self, user: &UserInfo, right: &RequestInfo) -> AccessAnswer {
        let decision = self.server.authorizer.decide_blocking(user, right);
        AccessAnswer { allowed: decision.allowed, reason: decision.reason }
    }
}

impl ParameterKinds for ClusterHead<'_> {
    fn kind(&self, api_version: &str, kind: &str) -> Option<KindRef> {
        self.kind_named(api_version, kind)
    }

    fn policy(&self, plural: &str, name: &str) -> Option<Object> {
        self.builtin(admission_registration::GROUP, plural, "", name)
    }
}

impl Resolves for ClusterHead<'_> {
    fn resolve(&self, service: &WebhookService) -> Result<(String, u16), String> {
        let WebhookService { namespace, name, port, .. } = service;
        let found = self.builtin("", "services", namespace, name);
        let found = found.ok_or_else(|| format!("service {name:?} not found"))?;
        let no_endpoints = || format!("no endpoints available for service {name:?}");
        let kind = registry::by_resource("discovery.k8s.io", "v1", "endpointslices");
        let kind = kind.ok_or_else(no_endpoints)?;
        let prefix = dispatch::prefix(kind, namespace);
        let found = self.read(|lookup| backend(&found, *port, lookup.undecoded(kind, &prefix)));
        found.ok_or_else(no_endpoints)?.map_err(|missing| match missing {
            NoBackend::Port => format!("no service port {port} found for service {name:?}"),
            NoBackend::Slices | NoBackend::Address { .. } => no_endpoints(),
        })
    }
}
