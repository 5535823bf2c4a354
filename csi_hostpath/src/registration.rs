//! Registers the driver with a node (upstream: kubelet's plugin registration).

use std::path::PathBuf;

use tonic::{Request, Response, Status};

use orlop_csi::registration::registration_server::Registration as Service;
use orlop_csi::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// The registration service.
pub(crate) struct Registration {
    pub(crate) name: String,
    pub(crate) endpoint: PathBuf,
}

#[tonic::async_trait]
impl Service for Registration {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: self.name.clone(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!(driver = self.name, "registered with the node");
        } else {
            tracing::error!(driver = self.name, error = status.error, "the node does not accept the driver");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
