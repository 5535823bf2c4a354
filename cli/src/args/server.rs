//! Flags of a process with the API server: where it listens, where objects are kept and saved, and what the API does.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use orlop_apiserver::insight::replay::Until;
use orlop_apiserver::server::DEFAULT_ISSUER;
use orlop_apiserver::services::range::{self, AddressRange};

use super::values;

/// Where and how to listen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Address and port to serve on; port 0 takes a free one. Without TLS and authentication only
    /// addresses of this machine (loopback) are allowed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = values::listen_address)]
    pub(crate) listen: SocketAddr,
    /// Write the URL that is served here once requests are taken, for scripts
    #[arg(long, value_name = "FILE")]
    pub(crate) address_file: Option<PathBuf>,
    /// Certificate for TLS (PEM, with its chain)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Authorities for client certificates (PEM): the CN of a certificate is the user, its O are groups
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// CSV of bearer tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// After a stop signal: how long requests are still taken while /readyz fails
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) shutdown_delay_duration: Duration,
    /// Connections at the same time, as far as the limit of open files carries them; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_connections: usize,
    /// How long the head of a request may take from its first byte, and the first head of a connection
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) read_header_timeout: Duration,
    /// How long a connection is kept without a request
    #[arg(long, value_name = "DURATION", default_value = "1m30s", value_parser = values::duration)]
    pub(crate) idle_timeout: Duration,
    /// How long a client may read nothing of what waits for it before its connection is closed
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) write_timeout: Duration,
}

/// Where objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreBackend {
    /// On disk, in --data-dir
    Embedded,
    /// In memory: everything is gone with the process
    Memory,
}

/// The store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Where the store's files are [default: /var/lib/orlop for root, else $XDG_DATA_HOME/orlop or
    /// ~/.local/share/orlop]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// What keeps the objects
    #[arg(long, value_enum, default_value = "embedded")]
    pub store_backend: StoreBackend,
    /// Begin with what a file of `orlop record` tells: its objects and its history, with revisions of their own. The
    /// store has to be empty
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// The revision or time (2026-01-31T12:00:00Z) of that file to stop at [default: its end]
    #[arg(long, value_name = "REV|TIME", requires = "from")]
    pub at: Option<Until>,
    /// How long old versions of objects are kept at least, for watches and history
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::duration)]
    pub store_retention_age: Duration,
    /// How many revisions are kept at least
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub store_retention_revisions: u64,
    /// Beyond this many bytes, old versions go before their age (but never below the number above)
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub store_retention_bytes: u64,
    /// Free bytes on the disk below which only deletes and updates that do not grow are taken; Events
    /// are refused below twice as many [default: 64 MiB or a tenth of the store, whichever is more, but
    /// at most an eighth of the disk]
    #[arg(long, value_name = "BYTES")]
    pub store_min_free_bytes: Option<u64>,
}

/// Snapshots by the clock.
#[derive(Debug, Args)]
#[command(next_help_heading = "Snapshots")]
pub(crate) struct SnapshotArgs {
    /// How often all objects are saved in a file of --snapshot-dir, if anything has changed; 0s is never
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) snapshot_every: Duration,
    /// Where those files go; best on another disk. Secrets are in them
    #[arg(long, value_name = "DIR")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// How many of them are kept
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) snapshot_keep: usize,
}

/// The API.
#[derive(Debug, Args)]
#[command(next_help_heading = "API server")]
pub struct ApiArgs {
    /// Admission plugins that are switched off
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Reading requests that are served at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// Writing requests that are served at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    /// How long a request waits for its turn when too many are served, before it is told to come again
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub max_request_wait: Duration,
    /// Watches that are open at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_watches: usize,
    /// How long a request may take; watches are not meant
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub request_timeout: Duration,
    /// The least time that a watch is kept open when the client does not say, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub min_request_timeout: u32,
    /// How long events are kept
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = values::duration)]
    pub event_ttl: Duration,
    /// Addresses that services get theirs from; the first one is the API server's
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: AddressRange,
    /// Ports of every node that services get theirs from
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = range::parse_ports)]
    pub service_node_port_range: RangeInclusive<u16>,
    /// How tokens of service accounts call this server, and whom they are for unless they say otherwise
    #[arg(long, value_name = "URL", default_value = DEFAULT_ISSUER)]
    pub service_account_issuer: String,
    /// Address that the service kubernetes leads to [default: the one of --listen, or of this machine
    /// when that is all of them]
    #[arg(long, value_name = "ADDR")]
    pub advertise_address: Option<IpAddr>,

    /// Select volumes, claims and attachments also by fields that upstream refuses (status.phase,
    /// spec.volumeName, spec.storageClassName, spec.nodeName ...); default: true for serve, false
    /// for apiserver
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::boolean
    )]
    pub extra_field_selectors: Option<bool>,
}
