//! Flags of `orlop csi-hostpath`.

use std::path::PathBuf;

use clap::Args;
use orlop_csi::drivers::Endpoint;
use orlop_csi_hostpath as hostpath;

use super::process::ProcessArgs;
use super::values;

/// `orlop csi-hostpath`.
#[derive(Debug, Args)]
pub(crate) struct CsiHostpathArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    /// Socket on which the driver is called, as unix:///run/csi/csi.sock
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: String,
    /// Directory of its volumes and of what it remembers
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// What the driver is called
    #[arg(long, value_name = "NAME", default_value = hostpath::NAME)]
    pub(crate) driver_name: String,
    /// Node that it serves
    #[arg(long, value_name = "NODE", default_value = "localhost")]
    pub(crate) node_id: String,
    /// Other nodes that volumes may be published to; nothing is mounted there
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub(crate) other_nodes: Vec<String>,
    /// Node with a socket of its own, as NODE=unix:///path, for several agents on one machine; may be given several times.
    /// Each mounts volumes that are published to it, and no other
    #[arg(long, value_name = "NODE=URL", value_parser = values::csi_endpoint)]
    pub(crate) node_endpoint: Vec<Endpoint>,
    /// A volume is on one node and can be reached from there alone
    #[arg(long, value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::boolean)]
    pub(crate) topology: bool,
    /// Volumes have to be published to a node before they are used there
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::boolean)]
    pub(crate) attach: bool,
    /// How many volumes may be published to one node; 0 for any number
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) max_volumes_per_node: u32,
    /// How much all volumes (with --topology: of one node) may have together, such as 10Gi
    #[arg(long, value_name = "QUANTITY", value_parser = values::bytes)]
    pub(crate) capacity: Option<i64>,
    /// How much one volume may have
    #[arg(long, value_name = "QUANTITY", default_value = "1Ti", value_parser = values::bytes)]
    pub(crate) max_volume_size: i64,
    /// Names of parameters that may be changed later; any, when none is given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) mutable_parameters: Vec<String>,
    /// JSON file with faults, read again when it changes: [{"rpc": "CreateVolume", "times": 1, "delay_ms": 500,
    /// "fault": "error|error-after|no-answer|crash|crash-after", "code": "UNAVAILABLE"}]
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,
    /// Socket in a node's plugin directory on which the driver tells that it is there
    #[arg(long, value_name = "FILE")]
    pub(crate) registration_socket: Option<PathBuf>,
}

impl CsiHostpathArgs {
    /// The driver's own options.
    pub(crate) fn options(self) -> (ProcessArgs, hostpath::Options) {
        let options = hostpath::Options {
            name: self.driver_name,
            endpoint: self.endpoint,
            data_dir: self.data_dir,
            node_id: self.node_id,
            other_nodes: self.other_nodes.into_iter().collect(),
            node_endpoints: self.node_endpoint.into_iter().map(|node| (node.name, node.endpoint)).collect(),
            topology: self.topology,
            attach: self.attach,
            mounts: true,
            max_volumes_per_node: self.max_volumes_per_node.into(),
            capacity: self.capacity,
            max_volume_bytes: self.max_volume_size,
            mutable_parameters: self.mutable_parameters.into_iter().collect(),
            faults: self.faults,
            registration: self.registration_socket,
        };
        (self.process, options)
    }
}
