//! What a driver says that it can do. It decides which calls are made: what is not listed is never asked for.

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

/// Everything that a driver's identity and controller services list. Numbers that are not known are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    services: BTreeSet<i32>,
    rpcs: BTreeSet<i32>,
    expansions: BTreeSet<i32>,
}

impl Capabilities {
    /// From the answers of both services; a driver without a controller service has no second one.
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

    /// For tests and tables: a controller service with these calls, and these other services.
    pub fn of(rpcs: &[Rpc], services: &[Service]) -> Self {
        let with_controller = services.iter().chain([&Service::ControllerService]);
        Capabilities {
            services: with_controller.map(|service| *service as i32).collect(),
            rpcs: rpcs.iter().map(|rpc| *rpc as i32).collect(),
            expansions: BTreeSet::new(),
        }
    }

    /// Whether it serves a call, or a variant of one.
    pub fn can(&self, rpc: Rpc) -> bool {
        self.rpcs.contains(&(rpc as i32))
    }

    /// Whether it has a service, or a property that is listed among services.
    pub fn serves(&self, service: Service) -> bool {
        self.services.contains(&(service as i32))
    }

    /// Whether volumes are reached from some nodes only.
    pub fn has_topology(&self) -> bool {
        self.serves(Service::VolumeAccessibilityConstraints)
    }

    /// Whether volumes are expanded only while nobody uses them.
    pub fn expands_offline_only(&self) -> bool {
        self.expansions.contains(&(Expansion::Offline as i32))
            && !self.expansions.contains(&(Expansion::Online as i32))
    }
}

/// Everything that a driver's node service lists. Numbers that are not known are left out of questions, not of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities(BTreeSet<i32>);

impl NodeCapabilities {
    /// From its answer.
    pub fn new(answer: &NodeGetCapabilitiesResponse) -> Self {
        let rpc = |capability: &crate::v1::NodeServiceCapability| match capability.r#type.as_ref()? {
            node::Type::Rpc(rpc) => Some(rpc.r#type),
        };
        NodeCapabilities(answer.capabilities.iter().filter_map(rpc).collect())
    }

    /// For tests and tables.
    pub fn of(rpcs: &[NodeRpc]) -> Self {
        NodeCapabilities(rpcs.iter().map(|rpc| *rpc as i32).collect())
    }

    /// Whether it serves a call, or a variant of one.
    pub fn can(&self, rpc: NodeRpc) -> bool {
        self.0.contains(&(rpc as i32))
    }
}
