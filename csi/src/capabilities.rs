//! Capabilities that a driver reports. They decide which calls orlop makes: it never makes an unlisted call.

use std::collections::BTreeSet;

use crate::v1::controller_service_capability as controller;
use crate::v1::node_service_capability as node;
use crate::v1::plugin_capability as plugin;
use crate::v1::{
    ControllerGetCapabilitiesResponse, GetPluginCapabilitiesResponse, NodeGetCapabilitiesResponse,
};

pub use controller::rpc::Type as Rpc;
pub use node::rpc::Type as NodeRpc;
pub use plugin::service::Type as Service;
pub use plugin::volume_expansion::Type as Expansion;

/// The capabilities of a driver's identity and controller services. Unknown numbers are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    services: BTreeSet<i32>,
    rpcs: BTreeSet<i32>,
    expansions: BTreeSet<i32>,
}

impl Capabilities {
    /// Creates the capabilities from the responses of both services; a driver without a controller service has only
    /// the first.
    pub fn new(
        plugin: &GetPluginCapabilitiesResponse,
        controller: Option<&ControllerGetCapabilitiesResponse>,
    ) -> Self {
        let mut all = Capabilities::default();
        for capability in plugin.capabilities.iter().filter_map(|capability| capability.r#type.as_ref()) {
            match capability {
                plugin::Type::Service(service) => all.services.insert(service.r#type),
                plugin::Type::VolumeExpansion(expansion) => all.expansions.insert(expansion.r#type),
            };
        }
        let rpcs = controller.iter().flat_map(|answer| &answer.capabilities);
        all.rpcs = rpcs
            .filter_map(|capability| match capability.r#type.as_ref()? {
                controller::Type::Rpc(rpc) => Some(rpc.r#type),
            })
            .collect();
        all
    }

    /// Creates the capabilities of a controller service with these calls and these other services, for tests and
    /// tables.
    pub fn of(rpcs: &[Rpc], services: &[Service]) -> Self {
        let with_controller = services.iter().chain([&Service::ControllerService]);
        Capabilities {
            services: with_controller.map(|service| *service as i32).collect(),
            rpcs: rpcs.iter().map(|rpc| *rpc as i32).collect(),
            expansions: BTreeSet::new(),
        }
    }

    /// Returns whether the driver supports a call, or a variant of one.
    pub fn can(&self, rpc: Rpc) -> bool {
        self.rpcs.contains(&(rpc as i32))
    }

    /// Returns whether the driver has a service, or a property listed among the services.
    pub fn serves(&self, service: Service) -> bool {
        self.services.contains(&(service as i32))
    }

    /// Returns whether volumes are accessible from some nodes only.
    pub fn has_topology(&self) -> bool {
        self.serves(Service::VolumeAccessibilityConstraints)
    }

    /// Returns whether volumes can be expanded only while they are not in use.
    pub fn expands_offline_only(&self) -> bool {
        self.expansions.contains(&(Expansion::Offline as i32))
            && !self.expansions.contains(&(Expansion::Online as i32))
    }
}

/// The capabilities of a driver's node service. The list includes unknown numbers, but no query can match them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities(BTreeSet<i32>);

impl NodeCapabilities {
    /// Creates the capabilities from the driver's response.
    pub fn new(answer: &NodeGetCapabilitiesResponse) -> Self {
        let rpc = |capability: &crate::v1::NodeServiceCapability| match capability.r#type.as_ref()? {
            node::Type::Rpc(rpc) => Some(rpc.r#type),
        };
        NodeCapabilities(answer.capabilities.iter().filter_map(rpc).collect())
    }

    /// Creates capabilities with these calls, for tests and tables.
    pub fn of(rpcs: &[NodeRpc]) -> Self {
        NodeCapabilities(rpcs.iter().map(|rpc| *rpc as i32).collect())
    }

    /// Returns whether the driver supports a call, or a variant of one.
    pub fn can(&self, rpc: NodeRpc) -> bool {
        self.0.contains(&(rpc as i32))
    }
}
