//! Flags of the audit log, with upstream's names.
//!
//! Upstream: apiserver `pkg/server/options/audit.go`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;

/// The audit log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Audit log")]
pub(crate) struct AuditLogArgs {
    /// Policy that selects the requests to record (YAML, audit.k8s.io/v1) [default: the metadata of all requests except health checks
    /// and periodic requests of system components]
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_policy_file: Option<PathBuf>,
    /// File to which the server writes events; - is stdout, and an empty value disables the log [default: no log if
    /// --audit-webhook-config-file is set; else DATA_DIR/audit.log if clients must authenticate or --audit-policy-file is
    /// set; else no log]
    #[arg(long, value_name = "FILE", value_parser = clap::builder::OsStringValueParser::new())]
    pub(crate) audit_log_path: Option<OsString>,
    /// Number of days to retain old files; 0 is unlimited
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    pub(crate) audit_log_maxage: u32,
    /// Number of old files to retain; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) audit_log_maxbackup: u32,
    /// Size in megabytes at which the server starts a new file; 0 is unlimited
    #[arg(long, value_name = "MB", default_value_t = 10)]
    pub(crate) audit_log_maxsize: u32,
    /// Compress old files with gzip
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = values::boolean
    )]
    pub(crate) audit_log_compress: bool,
    /// Format of events
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) audit_log_format: AuditLogFormat,
    /// Whether requests wait until their events are written: batch never waits, blocking waits for at most 5s,
    /// blocking-strict also rejects a request whose RequestReceived event is not written
    #[arg(long, value_enum, default_value = "batch")]
    pub(crate) audit_log_mode: AuditMode,
    /// Maximum number of events that wait to be written
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_log_batch_buffer_size: u32,
    /// Maximum number of events that are written together
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_log_batch_max_size: u32,
    /// Maximum time that an event waits for a batch to fill
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = values::duration)]
    pub(crate) audit_log_batch_max_wait: Duration,
    /// Kubeconfig of the webhook to send events to
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_webhook_config_file: Option<PathBuf>,
    /// Time before a failed request to the webhook is repeated
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) audit_webhook_initial_backoff: Duration,
    /// Whether requests wait until their events are sent; see --audit-log-mode
    #[arg(long, value_enum, default_value = "batch")]
    pub(crate) audit_webhook_mode: AuditMode,
    /// Maximum number of events that wait to be sent
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_webhook_batch_buffer_size: u32,
    /// Maximum number of events in a request to the webhook
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_webhook_batch_max_size: u32,
    /// Maximum time that an event waits for a batch to fill
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) audit_webhook_batch_max_wait: Duration,
    /// Limit the rate of requests to the webhook
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_parser = values::boolean
    )]
    pub(crate) audit_webhook_batch_throttle_enable: bool,
    /// Requests to the webhook per second
    #[arg(long, value_name = "N", default_value = "10", value_parser = rate)]
    pub(crate) audit_webhook_batch_throttle_qps: f64,
    /// Maximum number of requests to the webhook without a pause, after a time in which the server sent fewer requests
    /// than --audit-webhook-batch-throttle-qps allows
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) audit_webhook_batch_throttle_burst: u32,
}

/// A format of `--audit-log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditLogFormat {
    /// One JSON object per line
    Json,
    /// One line of text per event
    Legacy,
}

/// A mode of `--audit-log-mode` and `--audit-webhook-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditMode {
    /// Requests do not wait
    Batch,
    /// Requests wait
    Blocking,
    /// Requests wait, and are rejected if their RequestReceived event is not written
    BlockingStrict,
}

/// Parses a rate.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        Ok(_) | Err(_) => Err(format!("`{text}` is not a number above 0")),
    }
}
