//! The Identity service: the driver's name and capabilities.

use std::collections::HashMap;

use orlop_csi::v1;
use orlop_csi::v1::identity_server::Identity;
use orlop_csi::v1::plugin_capability::service::Type as Service;
use orlop_csi::v1::plugin_capability::volume_expansion::Type as Expansion;
use orlop_csi::v1::plugin_capability::{self, Type};
use tonic::{Request, Response, Status};

use crate::Driver;

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        Ok(Response::new(v1::GetPluginInfoResponse {
            name: self.options.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        let service = |service: Service| Type::Service(plugin_capability::Service { r#type: service.into() });
        let expansion = plugin_capability::VolumeExpansion { r#type: Expansion::Online.into() };
        let mut capabilities = vec![service(Service::ControllerService), Type::VolumeExpansion(expansion)];
        if self.options.topology {
            capabilities.push(service(Service::VolumeAccessibilityConstraints));
        }
        let capabilities =
            capabilities.into_iter().map(|one| v1::PluginCapability { r#type: Some(one) }).collect();
        Ok(Response::new(v1::GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        Ok(Response::new(v1::ProbeResponse { ready: Some(true) }))
    }
}
