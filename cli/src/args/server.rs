//! Flags of a process with the API server: listener, store, snapshots and API.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use orlop_apiserver::insight::replay::Until;
use orlop_apiserver::kubelet_client::address::AddressType;
use orlop_apiserver::services::range::{self, AddressRange};

use super::values;

/// The listener.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Address and port to serve on; port 0 selects a free one. On an address that other machines can reach, the server
    /// uses TLS. On a loopback address without --insecure-loopback, the server requires credentials if --node, --tls-san
    /// or any flag of authentication or authorization is set. Without --tls-cert-file, the server creates its own
    /// certificates in --data-dir if it needs them, and writes the administrator's credentials to admin.kubeconfig there
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = values::listen_address)]
    pub(crate) listen: SocketAddr,
    /// File to which the server writes its URL when it is ready, for scripts
    #[arg(long, value_name = "FILE")]
    pub(crate) address_file: Option<PathBuf>,
    /// TLS certificate (PEM, with its chain)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Further DNS names and IP addresses of the certificate that the server creates without --tls-cert-file; on a
    /// loopback address, this flag enables TLS
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "tls_cert_file")]
    pub(crate) tls_san: Vec<String>,
    /// On a loopback address, treat every request without credentials as a request of an administrator, even with
    /// --authorization-mode. The server nevertheless requires credentials if you also set --tls-san, --anonymous-auth,
    /// --enable-bootstrap-token-auth or a flag that identifies users, such as --token-auth-file. Without
    /// --insecure-loopback, a server that does not require credentials (see --listen) treats a request as that of an
    /// administrator only if the client's process runs as root or as the server's own user. You cannot combine
    /// --insecure-loopback with --node
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean)]
    pub(crate) insecure_loopback: bool,
    /// How long the server still accepts requests after a stop signal, while /readyz fails
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) shutdown_delay_duration: Duration,
    /// How long requests in progress may take after a stop signal, counted from the end of --shutdown-delay-duration; the
    /// server then closes their connections
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) shutdown_grace: Duration,
    /// Maximum number of concurrent connections, within the limit of open files; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_connections: usize,
    /// Timeout for the headers of a request, from their first byte; for the first request of a connection, from
    /// the start of the connection
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) read_header_timeout: Duration,
    /// How long an idle connection stays open
    #[arg(long, value_name = "DURATION", default_value = "1m30s", value_parser = values::duration)]
    pub(crate) idle_timeout: Duration,
    /// Time after which the server closes the connection of a client that reads none of its pending data
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) write_timeout: Duration,
}

/// The backend of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreBackend {
    /// On disk, in --data-dir
    Embedded,
    /// In memory: data is lost when the process ends
    Memory,
}

/// The store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Directory of the store [default: /var/lib/orlop for root, else $XDG_DATA_HOME/orlop or
    /// ~/.local/share/orlop]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Backend of the store
    #[arg(long, value_enum, default_value = "embedded")]
    pub store_backend: StoreBackend,
    /// Load the objects and the history from a file of `orlop record`, with new revisions. The store must be empty
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Last revision or time (2026-01-31T12:00:00Z) to load from the file of --from [default: the end of the file]
    #[arg(long, value_name = "REV|TIME", requires = "from")]
    pub at: Option<Until>,
    /// Minimum time to retain old versions of objects, for watches and history
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::duration)]
    pub store_retention_age: Duration,
    /// Minimum number of revisions to retain, regardless of their age
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub store_retention_revisions: u64,
    /// Total size of the history above which the server removes the oldest versions, regardless of their age and number
    #[arg(long, value_name = "BYTES", default_value = "256Mi", value_parser = values::byte_limit)]
    pub store_retention_bytes: u64,
    /// How long former versions of a Secret stay readable after the Secret is changed or deleted. Even with 0s, watches
    /// and lists in progress can read them for one minute. When a former version is no longer readable, the server erases
    /// it from all files within about 15 minutes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub store_retention_secrets: Duration,
    /// Maximum size of all objects, such as 512Mi. Beyond this size, the server accepts only deletes, and updates that do
    /// not grow the store. The server rejects Events beyond 15/16 of this size. 0 is unlimited [default: half of the
    /// memory of the machine, or of the control group if that is less, because all objects are in memory]
    #[arg(long, value_name = "BYTES", value_parser = values::byte_limit)]
    pub store_max_bytes: Option<u64>,
    /// Free space on the disk below which the server accepts only deletes, and updates that do not grow the store. If
    /// less than twice this value is free, the server rejects Events [default: 64 MiB or a tenth of the store, whichever
    /// is more, but at most an eighth of the disk]
    #[arg(long, value_name = "BYTES", value_parser = values::byte_limit)]
    pub store_min_free_bytes: Option<u64>,
}

/// Encryption at rest.
#[derive(Debug, Args)]
#[command(next_help_heading = "Encryption")]
pub struct EncryptionArgs {
    /// File with the providers that encrypt objects on the disk (EncryptionConfiguration of apiserver.config.k8s.io/v1).
    /// Without this flag, the server encrypts nothing and cannot read encrypted objects
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Read the file of --encryption-provider-config again when it changes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, requires = "encryption_provider_config")]
    pub encryption_provider_config_automatic_reload: bool,
}

/// Scheduled snapshots.
#[derive(Debug, Args)]
#[command(next_help_heading = "Snapshots")]
pub(crate) struct SnapshotArgs {
    /// Interval at which the server saves all objects to --snapshot-dir, if any has changed; 0s disables snapshots
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) snapshot_every: Duration,
    /// Directory of the snapshots, preferably on another disk. They contain Secrets
    #[arg(long, value_name = "DIR")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// Number of snapshots to retain
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) snapshot_keep: usize,
}

/// Connections to kubelets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubelets")]
pub struct KubeletArgs {
    /// Client certificate for kubelets (PEM) [default: one of the server's own certificate authority, if it has one]
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// CA certificates (PEM) that sign the certificates of kubelets; without this flag, the server accepts any certificate
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Types of node addresses for connections to kubelets, the preferred one first
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "InternalIP,Hostname,InternalDNS,ExternalDNS,ExternalIP"
    )]
    pub kubelet_preferred_address_types: Vec<AddressType>,
    /// Time limit for connections to kubelets
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub kubelet_timeout: Duration,
    /// Port of kubelets whose Nodes name none
    #[arg(long, value_name = "PORT", default_value_t = 10_250)]
    pub kubelet_port: u16,
}

/// The flags of the API.
#[derive(Debug, Args)]
#[command(next_help_heading = "API server")]
pub struct ApiArgs {
    /// Admission plugins to enable in addition to the default, which is every plugin except NodeRestriction.
    /// --authorization-mode=Node also enables NodeRestriction. In `apiserver`, the plugin ServiceAccount takes effect when
    /// the service account `default` exists in the namespace `default`. If you name the plugin here, it takes effect
    /// immediately
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Maximum number of concurrent read requests; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// Maximum number of concurrent write requests; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    /// How long a request waits in the queue before the server rejects it with 429
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub max_request_wait: Duration,
    /// Assign requests to priority levels, according to FlowSchemas and PriorityLevelConfigurations. Otherwise, all
    /// requests share the permits fairly by client
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean)]
    pub enable_priority_and_fairness: bool,
    /// Maximum number of open watches; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_watches: usize,
    /// Maximum memory for clients (bodies, decoded objects, responses, unread watch events), such as 256Mi. Beyond this
    /// maximum, the server rejects requests with 429 and ends the slowest watches. 0 is unlimited [default: a quarter of
    /// the memory of the machine, or of the control group if that is less]
    #[arg(long, value_name = "BYTES", value_parser = values::byte_limit)]
    pub memory_limit: Option<u64>,
    /// Timeout of a request that is not a watch
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub request_timeout: Duration,
    /// Minimum duration of a watch that requests no timeout, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub min_request_timeout: u32,
    /// How long the server retains Events
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = values::duration)]
    pub event_ttl: Duration,
    /// Address range of Services; its first usable address is that of the API server
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: AddressRange,
    /// Port range for NodePort Services
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = range::parse_ports)]
    pub service_node_port_range: RangeInclusive<u16>,
    /// Endpoint address of the Service kubernetes [default: the address of --listen, or the address of this machine if
    /// --listen is 0.0.0.0 or ::]
    #[arg(long, value_name = "ADDR")]
    pub advertise_address: Option<IpAddr>,

    /// Also support field selectors that Kubernetes rejects (status.phase, spec.volumeName, spec.storageClassName,
    /// spec.nodeName ...) [default: true for `serve`, false for `apiserver`]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::boolean
    )]
    pub extra_field_selectors: Option<bool>,
    /// Connections to kubelets.
    #[command(flatten)]
    pub kubelets: KubeletArgs,
}
