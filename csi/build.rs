//! Generates Rust code from the protobuf files without protoc: protox parses the files, and tonic's builder
//! generates the code.

use std::error::Error;

/// Requests with secrets. They do not implement `Debug`, so that no log line can contain a secret.
const SECRET: &[&str] = &[
    "CreateVolumeRequest",
    "DeleteVolumeRequest",
    "ControllerPublishVolumeRequest",
    "ControllerUnpublishVolumeRequest",
    "ValidateVolumeCapabilitiesRequest",
    "ControllerModifyVolumeRequest",
    "ControllerExpandVolumeRequest",
    "CreateSnapshotRequest",
    "DeleteSnapshotRequest",
    "ListSnapshotsRequest",
    "NodeStageVolumeRequest",
    "NodePublishVolumeRequest",
    "NodeExpandVolumeRequest",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["csi.proto", "registration.proto"], ["proto"])?;
    let secret: Vec<String> = SECRET.iter().map(|name| format!(".csi.v1.{name}")).collect();
    tonic_prost_build::configure().skip_debug(&secret).compile_fds(files)?;
    Ok(())
}
