//! The cluster around a request, for admission: the newest snapshot, the served kinds and the authorizer.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use orlop_api::object::Object;
use orlop_api::registry::admission_registration;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use orlop_crd::expression::AccessAnswer;
use orlop_store::Snapshot;
use serde_json::Value;

use crate::admission::Lookup as _;
use crate::admission::matching::NamespaceLabels;
use crate::admission::policy::ClusterState;
use crate::admission::webhook::{Resolves, WebhookService};
use crate::authorization::parameters::ParameterKinds;
use crate::projection::Projection;
use crate::registry::{self, KINDS, KindRef};
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
        visit: &mut dyn FnMut(Object) -> ControlFlow<()>,
    ) {
        let namespace = (!namespace.is_empty()).then_some(namespace);
        self.read(|lookup| {
            // A break ends the visit.
            let _ = lookup.list(&**kind, namespace).try_for_each(visit);
        });
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
        if found.str_at(&["spec", "type"]) == "ExternalName" {
            return Ok((found.str_at(&["spec", "externalName"]).to_owned(), *port));
        }
        let ports = found.at(&["spec", "ports"]).and_then(Value::as_array);
        let chosen = ports.into_iter().flatten().find(|one| one["port"] == *port);
        let chosen = chosen.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let port_name = chosen["name"].as_str().unwrap_or_default();
        let slices = registry::by_resource("discovery.k8s.io", "v1", "endpointslices");
        let listed = |kind| self.read(|lookup| lookup.list(kind, Some(namespace)).collect::<Vec<_>>());
        let slices = slices.into_iter().filter_map(listed).flatten();
        let of_service = |slice: &Object| {
            let label = slice.labels().and_then(|labels| labels.get("kubernetes.io/service-name"));
            label.and_then(Value::as_str) == Some(name)
        };
        slices
            .filter(of_service)
            .find_map(|slice| ready_address(&slice, port_name))
            .ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

/// A ready endpoint of a slice, and its port with this name.
fn ready_address(slice: &Object, port_name: &str) -> Option<(String, u16)> {
    let list = |name: &str| slice.at(&[name]).and_then(Value::as_array).into_iter().flatten();
    let port = list("ports").find(|one| one["name"].as_str().unwrap_or_default() == port_name)?;
    let port = u16::try_from(port["port"].as_u64()?).ok()?;
    let endpoint = list("endpoints").find(|one| one["conditions"]["ready"] != false)?;
    let address = endpoint["addresses"].get(0)?.as_str()?;
    address.parse::<IpAddr>().ok().map(|address| (address.to_string(), port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_ready_endpoint_with_the_port_is_chosen() {
        let slice = Object::from_value(json!({
            "ports": [{"name": "https", "port": 8443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.2"]},
            ],
        }));
        assert_eq!(ready_address(&slice, "https"), Some(("10.0.0.2".to_owned(), 8443)));
        assert_eq!(ready_address(&slice, "http"), None);
    }
}
