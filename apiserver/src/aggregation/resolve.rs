//! Finds the servers of APIServices in a state of the store.

use std::sync::Arc;

use orlop_api::object::Object;
use orlop_store::{Record, Snapshot};

use super::condition::Availability;
use super::{RemoteService, Remotes};
use crate::dispatch;
use crate::encode::stored;
use crate::encode::undecoded::UndecodedRecord;
use crate::projection::Projection;
use crate::registry::api_service::GROUP;
use crate::registry::{Kind, by_resource};
use crate::services::backend::{NoBackend, backend};
use crate::state::Inner;

/// The kinds that lead to the servers.
#[derive(Clone, Copy)]
pub(super) struct FollowedKinds {
    pub(super) api_services: &'static dyn Kind,
    pub(super) services: &'static dyn Kind,
    pub(super) slices: &'static dyn Kind,
}

impl FollowedKinds {
    /// The kinds in the registry.
    pub(super) fn registered() -> Option<Self> {
        Some(FollowedKinds {
            api_services: by_resource(GROUP, "v1", "apiservices")?,
            services: by_resource("", "v1", "services")?,
            slices: by_resource("discovery.k8s.io", "v1", "endpointslices")?,
        })
    }
}

/// The subject of a check.
#[derive(Clone)]
pub(super) enum Target {
    /// A version of this server.
    Local,
    /// A server without an address, and the reason.
    WithoutAddress(Arc<RemoteService>, Availability),
    /// A server with an address.
    WithAddress(Arc<RemoteService>),
}

impl Target {
    /// The other server.
    pub(super) fn remote(&self) -> Option<&Arc<RemoteService>> {
        match self {
            Target::Local => None,
            Target::WithoutAddress(remote, _) | Target::WithAddress(remote) => Some(remote),
        }
    }

    /// Whether a check of the other would have the same result.
    pub(super) fn is_same(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::Local, Target::Local) => true,
            (Target::WithAddress(one), Target::WithAddress(other)) => one.has_same_target(other),
            (Target::WithoutAddress(one, why), Target::WithoutAddress(other, reason)) => {
                one.has_same_target(other) && why == reason
            }
            (Target::Local | Target::WithoutAddress(..) | Target::WithAddress(_), _) => false,
        }
    }
}

/// Publishes the servers of the stored APIServices, before this server answers requests: without them, discovery would be complete without
/// their groups, and the namespace controller would leave their objects.
///
/// Upstream: the aggregator answers requests of unknown groups with 503 until it has read the APIServices.
pub(crate) fn read_stored(server: &Inner) {
    let Some(kinds) = FollowedKinds::registered() else { return };
    let head = server.store.head();
    let stored = head.range(kinds.api_services.storage_prefix(), None);
    let targets: Vec<Target> = stored
        .filter_map(|record| stored::decode(record).ok())
        .map(|object| resolve(&head, kinds, &object, None))
        .collect();
    let remotes = Remotes::of(targets.iter().filter_map(Target::remote).cloned());
    server.aggregation.current.store(Arc::new(remotes));
}

/// The server of an APIService with its address, or the reason why it has none. `former` is the server that was found before.
pub(super) fn resolve(
    head: &Snapshot<Projection>,
    kinds: FollowedKinds,
    object: &Object,
    former: Option<&Arc<RemoteService>>,
) -> Target {
    let Some(mut remote) = RemoteService::of(object) else { return Target::Local };
    let key =
        format!("{}{}", dispatch::prefix(kinds.services, &remote.service.namespace), remote.service.name);
    let service = head.get(&key).and_then(|record| stored::decode(record).ok());
    let prefix = dispatch::prefix(kinds.slices, &remote.service.namespace);
    let decode = |record: &Record<Projection>| stored::decode(record).ok();
    let slices = head.range(&prefix, None).map(|record| UndecodedRecord::new(record, decode));
    let found = match service {
        Some(service) => backend(&service, remote.service.port, slices).map_err(|missing| match missing {
            NoBackend::Port => Availability::NoPort,
            NoBackend::Slices => Availability::NoEndpoints,
            NoBackend::Address { port_name } => Availability::NoAddress { port_name },
        }),
        None => Err(Availability::NoService),
    };
    let missing = found.as_ref().err().cloned();
    remote.address = found.ok();
    let remote = match former {
        Some(former) => remote.following(former),
        None => Arc::new(remote),
    };
    match missing {
        Some(why) => Target::WithoutAddress(remote, why),
        None => Target::WithAddress(remote),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use orlop_auth::UserInfo;
    use orlop_store::Memory;
    use serde_json::json;

    use super::*;
    use crate::{Config, Server};

    #[tokio::test]
    async fn servers_are_known_when_this_server_starts() {
        let store = Arc::new(Memory::new());
        let first = Server::start(store.clone(), Config::default()).await.expect("a server");
        let object = json!({"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": "v1.g.example"},
            "spec": {"group": "g.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                "insecureSkipTLSVerify": true, "service": {"namespace": "n", "name": "s"}}});
        let request = Request::post("/apis/apiregistration.k8s.io/v1/apiservices")
            .header("content-type", "application/json")
            .extension(UserInfo::admin())
            .body(Body::from(object.to_string()));
        let created = first.service().respond(request.expect("a request")).await.expect("a response");
        assert_eq!(created.status(), 201);
        // No other task runs between the start and the request.
        let again = Server::start(store, Config::default()).await.expect("a server").inner();
        let remote = again.aggregation.now().get("g.example", "v1").cloned().expect("the server");
        assert!(!remote.is_available && !remote.is_current);
    }

    #[test]
    fn only_another_result_of_a_check_makes_another_target() {
        let object = |service: &str| {
            Object::from_value(
                json!({"spec": {"group": "g", "version": "v1", "service": {"namespace": "n", "name": service}}}),
            )
        };
        let remote = |service: &str, address: Option<&str>| {
            let mut remote = RemoteService::of(&object(service)).expect("a server");
            remote.address = address.map(|host| (host.to_owned(), 443));
            Arc::new(remote)
        };
        let with = |service, address| Target::WithAddress(remote(service, Some(address)));
        let without = |service, why| Target::WithoutAddress(remote(service, None), why);
        for (case, one, other, want) in [
            ("1 local", Target::Local, Target::Local, true),
            ("2 the same address", with("s", "a"), with("s", "a"), true),
            ("3 another address", with("s", "a"), with("s", "b"), false),
            ("4 another Service", with("s", "a"), with("t", "a"), false),
            (
                "5 the same reason",
                without("s", Availability::NoService),
                without("s", Availability::NoService),
                true,
            ),
            (
                "6 another reason",
                without("s", Availability::NoService),
                without("s", Availability::NoPort),
                false,
            ),
            (
                "7 another Service, same reason",
                without("s", Availability::NoService),
                without("t", Availability::NoService),
                false,
            ),
            ("8 an address", without("s", Availability::NoPort), with("s", "a"), false),
            ("9 no longer local", Target::Local, with("s", "a"), false),
        ] {
            assert_eq!(one.is_same(&other), want, "{case}");
            assert_eq!(other.is_same(&one), want, "{case}, the other way round");
        }
    }
}
