//! Tests of the driver over its socket, call by call, following the CSI specification.

#![allow(clippy::unwrap_used)]

mod controller;
mod mounting;
mod snapshots;

use std::collections::HashMap;

use orlop_csi::socket::connect;
use orlop_csi::v1;
use orlop_csi::v1::controller_client::ControllerClient;
use orlop_csi::v1::identity_client::IdentityClient;
use orlop_csi::v1::node_client::NodeClient;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::{Options, serve};

/// A running driver.
struct Running {
    dir: tempfile::TempDir,
    channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(change: impl FnOnce(&mut Options)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change).await
    }

    async fn start_in(dir: tempfile::TempDir, change: impl FnOnce(&mut Options)) -> Self {
        let endpoint = format!("unix://{}", dir.path().join("csi.sock").display());
        let mut options = Options::new(&endpoint, dir.path().join("data"), "n1");
        change(&mut options);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let shutdown = async { stopped.await.unwrap_or_default() };
            serve(options, || ready.send(()).unwrap(), shutdown).await.unwrap();
        });
        is_ready.await.unwrap();
        Running { dir, channel: connect(&endpoint).unwrap(), stop: Some(stop), ended }
    }

    /// Stops the driver and starts it again on the same records.
    async fn restart(mut self, change: impl FnOnce(&mut Options)) -> Self {
        drop(self.channel);
        self.stop.take().unwrap().send(()).unwrap();
        self.ended.await.unwrap();
        Self::start_in(self.dir, change).await
    }

    fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    async fn create(&self, request: v1::CreateVolumeRequest) -> Result<v1::Volume, Status> {
        Ok(self.controller().create_volume(request).await?.into_inner().volume.unwrap())
    }

    /// IDs of all volumes.
    async fn volumes(&self) -> Vec<String> {
        let request = v1::ListVolumesRequest::default();
        let all = self.controller().list_volumes(request).await.unwrap().into_inner().entries;
        all.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect()
    }
}

fn mounted(mode: Mode) -> v1::VolumeCapability {
    v1::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

fn block() -> v1::VolumeCapability {
    v1::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..mounted(Mode::SingleNodeWriter)
    }
}

fn range(required: i64, limit: i64) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange { required_bytes: required, limit_bytes: limit })
}

fn wanted(name: &str) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: range(1 << 20, 0),
        volume_capabilities: vec![mounted(Mode::SingleNodeWriter)],
        ..v1::CreateVolumeRequest::default()
    }
}

fn parameters(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn identity_and_node_info_are_reported() {
    let driver = Running::start(|options| options.topology = true).await;
    let mut identity = IdentityClient::new(driver.channel.clone());
    let info = identity.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, crate::NAME);
    assert!(!info.vendor_version.is_empty());
    let probe = identity.probe(v1::ProbeRequest {}).await.unwrap().into_inner();
    assert_eq!(probe.ready, Some(true));
    let can =
        identity.get_plugin_capabilities(v1::GetPluginCapabilitiesRequest {}).await.unwrap().into_inner();
    assert_eq!(can.capabilities.len(), 3);
    let node = driver.node().node_get_info(v1::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(node.node_id, "n1");
    let topology = node.accessible_topology.unwrap();
    assert_eq!(topology.segments["topology.hostpath.csi.orlop.dev/node"], "n1");
}

#[tokio::test]
async fn scripted_faults_happen_before_or_after_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("faults.json");
    let rules = r#"[{"rpc": "CreateVolume", "times": 1, "fault": "error", "code": "UNAVAILABLE"},
                    {"rpc": "CreateVolume", "times": 1, "fault": "error-after", "code": "ABORTED"},
                    {"rpc": "CreateVolume", "times": 1, "fault": "no-answer"}]"#;
    std::fs::write(&script, rules).unwrap();
    let driver = Running::start_in(dir, |options| options.faults = Some(script)).await;
    assert_eq!(code(driver.create(wanted("a")).await), Code::Unavailable);
    assert!(driver.volumes().await.is_empty(), "it failed before the work");
    assert_eq!(code(driver.create(wanted("a")).await), Code::Aborted);
    let made = driver.volumes().await;
    assert_eq!(made.len(), 1, "it failed after the work");
    let mut hurried = tonic::Request::new(wanted("b"));
    hurried.set_timeout(std::time::Duration::from_millis(100));
    assert_ne!(code(driver.controller().create_volume(hurried).await), Code::Ok);
    assert_eq!(driver.volumes().await.len(), 2, "the work was done, and the response was lost");
    assert_eq!(driver.create(wanted("a")).await.unwrap().volume_id, made[0], "and then it is idempotent");
}

#[tokio::test]
async fn driver_registers_with_its_node() {
    use orlop_csi::registration::registration_client::RegistrationClient;
    use orlop_csi::registration::{InfoRequest, RegistrationStatus};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("registry/driver-reg.sock");
    let registration = path.clone();
    let driver = Running::start_in(dir, |options| options.registration = Some(registration)).await;
    let mut client = RegistrationClient::new(connect(path.to_str().unwrap()).unwrap());
    let info = client.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", crate::NAME));
    assert_eq!(info.endpoint, driver.dir.path().join("csi.sock").to_str().unwrap());
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    client.notify_registration_status(status).await.unwrap();
}
