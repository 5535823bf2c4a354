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
    /// Socket of the driver, as unix:///run/csi/csi.sock
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: String,
    /// Directory of the driver's volumes and records
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Name of the driver
    #[arg(long, value_name = "NAME", default_value = hostpath::NAME)]
    pub(crate) driver_name: String,
    /// Node that the driver serves
    #[arg(long, value_name = "NODE", default_value = "localhost")]
    pub(crate) node_id: String,
    /// Other nodes to which volumes may be published; the driver mounts nothing there
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub(crate) other_nodes: Vec<String>,
    /// Node with its own socket, as NODE=unix:///path, for several agents on one machine; can be repeated
    ///
    /// Through such a socket, the driver mounts only the volumes that are published to its node.
    #[arg(long, value_name = "NODE=URL", value_parser = values::csi_endpoint)]
    pub(crate) node_endpoint: Vec<Endpoint>,
    /// Make each volume accessible from one node only
    #[arg(long, value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::boolean)]
    pub(crate) topology: bool,
    /// Require that volumes are published to a node before they are used there
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::boolean)]
    pub(crate) attach: bool,
    /// Maximum number of volumes published to a node; 0 is unlimited
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) max_volumes_per_node: u32,
    /// Maximum total size of the volumes, such as 10Gi; with --topology, the maximum for each node [default: unlimited]
    #[arg(long, value_name = "QUANTITY", value_parser = values::bytes)]
    pub(crate) capacity: Option<i64>,
    /// Maximum size of a volume
    #[arg(long, value_name = "QUANTITY", default_value = "1Ti", value_parser = values::bytes)]
    pub(crate) max_volume_size: i64,
    /// Names of the parameters that may be modified [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) mutable_parameters: Vec<String>,
    /// JSON file with faults to inject, read again when it changes: [{"rpc": "CreateVolume", "after": 0, "times": 1,
    /// "delay_ms": 500, "fault": "error|error-after|no-answer|hold|hold-after|crash|crash-after",
    /// "code": "UNAVAILABLE", "message": "TEXT"}]. For each call, the driver tries the rules for this RPC (or for "*") in
    /// order until one applies. Each rule skips `after` calls, then applies to `times` calls [default: all], then skips all
    /// further calls. `error` and `crash` happen before the work of the call; `error-after`, `no-answer` and `crash-after`
    /// happen after it. `hold` and `hold-after` wait, before or after the work, until the file changes
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,
    /// Socket for the registration of the driver with a node, in the plugin directory of that node
    #[arg(long, value_name = "FILE")]
    pub(crate) registration_socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

impl CsiHostpathArgs {
    /// Splits the flags into those of the process and the options of the driver.
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
