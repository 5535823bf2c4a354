//! Converts the flags of the audit log.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use orlop_apiserver::audit::config::{
    BatchConfig, Delivery, DeliveryMode, LogConfig, LogFormat, LogTarget, Rotation, Throttle,
};

use crate::args::{AuditLogArgs, AuditLogFormat, AuditMode};

/// The audit log, without the content of its files.
#[derive(Debug)]
pub struct AuditOptions {
    /// The policy file; `None` for the default policy.
    pub policy_file: Option<PathBuf>,
    /// The log.
    pub log: Option<AuditLogOptions>,
    /// The webhook.
    pub webhook: Option<AuditWebhookOptions>,
}

/// The log.
#[derive(Debug)]
pub struct AuditLogOptions {
    /// Where it is written.
    pub place: AuditLogPlace,
    rotation: Rotation,
    format: LogFormat,
    delivery: Delivery,
}

/// Where the log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditLogPlace {
    /// `audit.log` in the data directory.
    DataDir,
    /// The place that a flag names.
    Given(LogTarget),
}

/// The webhook.
#[derive(Debug)]
pub struct AuditWebhookOptions {
    /// Its kubeconfig.
    pub config_file: PathBuf,
    /// The time before a failed request is repeated.
    pub initial_backoff: Duration,
    /// How events get there.
    pub delivery: Delivery,
}

impl AuditLogOptions {
    /// The configuration with the place of the log.
    pub fn at(&self, target: LogTarget) -> LogConfig {
        LogConfig { target, format: self.format, rotation: self.rotation, delivery: self.delivery }
    }
}

impl AuditOptions {
    /// Converts the flags. `authenticates`: clients have to authenticate.
    pub(super) fn new(args: AuditLogArgs, authenticates: bool) -> Self {
        let is_wanted = authenticates || args.audit_policy_file.is_some();
        let place =
            place(args.audit_log_path.as_deref(), is_wanted && args.audit_webhook_config_file.is_none());
        let rotation = Rotation {
            max_bytes: u64::from(args.audit_log_maxsize) << 20,
            max_backups: args.audit_log_maxbackup as usize,
            max_age: Duration::from_secs(u64::from(args.audit_log_maxage) * 86_400),
            compress: args.audit_log_compress,
        };
        let format = match args.audit_log_format {
            AuditLogFormat::Json => LogFormat::Json,
            AuditLogFormat::Legacy => LogFormat::Legacy,
        };
        let delivery = Delivery {
            mode: mode(args.audit_log_mode),
            batch: BatchConfig {
                buffer_size: args.audit_log_batch_buffer_size as usize,
                max_size: args.audit_log_batch_max_size as usize,
                max_wait: args.audit_log_batch_max_wait,
                throttle: None,
            },
        };
        let throttle = Throttle {
            qps: args.audit_webhook_batch_throttle_qps,
            burst: args.audit_webhook_batch_throttle_burst,
        };
        let to_webhook = Delivery {
            mode: mode(args.audit_webhook_mode),
            batch: BatchConfig {
                buffer_size: args.audit_webhook_batch_buffer_size as usize,
                max_size: args.audit_webhook_batch_max_size as usize,
                max_wait: args.audit_webhook_batch_max_wait,
                throttle: args.audit_webhook_batch_throttle_enable.then_some(throttle),
            },
        };
        AuditOptions {
            policy_file: args.audit_policy_file,
            log: place.map(|place| AuditLogOptions { place, rotation, format, delivery }),
            webhook: args.audit_webhook_config_file.map(|config_file| AuditWebhookOptions {
                config_file,
                initial_backoff: args.audit_webhook_initial_backoff,
                delivery: to_webhook,
            }),
        }
    }
}

/// Where the log is written; `None` disables it.
fn place(path: Option<&OsStr>, is_default: bool) -> Option<AuditLogPlace> {
    match path {
        None => is_default.then_some(AuditLogPlace::DataDir),
        Some(path) if path.is_empty() => None,
        Some(path) if path == "-" => Some(AuditLogPlace::Given(LogTarget::Stdout)),
        Some(path) => Some(AuditLogPlace::Given(LogTarget::File(OsString::from(path).into()))),
    }
}

fn mode(mode: AuditMode) -> DeliveryMode {
    match mode {
        AuditMode::Batch => DeliveryMode::Batch,
        AuditMode::Blocking => DeliveryMode::Blocking,
        AuditMode::BlockingStrict => DeliveryMode::BlockingStrict,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn options(flags: &[&str], authenticates: bool) -> Result<AuditOptions, clap::Error> {
        let args = ["orlop", "apiserver"].iter().chain(flags);
        match Cli::try_parse_from(args)?.command {
            Command::Apiserver(args) => Ok(AuditOptions::new(args.audit, authenticates)),
            _ => panic!("no server"),
        }
    }

    #[test]
    fn log_has_a_default_place_with_authentication() {
        use AuditLogPlace::{DataDir, Given};
        let file = || Some(Given(LogTarget::File("/a.log".into())));
        for (flags, authenticates, want) in [
            (&[][..], false, None),
            (&[], true, Some(DataDir)),
            (&["--audit-policy-file=p"], false, Some(DataDir)),
            (&["--audit-log-path=/a.log"], false, file()),
            (&["--audit-log-path", "/a.log"], true, file()),
            (&["--audit-log-path", "-"], false, Some(Given(LogTarget::Stdout))),
            (&["--audit-log-path="], true, None),
            (&["--audit-webhook-config-file=k"], true, None),
            (&["--audit-webhook-config-file=k", "--audit-log-path=/a.log"], true, file()),
        ] {
            let found = options(flags, authenticates).unwrap();
            assert_eq!(found.log.map(|log| log.place), want, "{flags:?} {authenticates}");
        }
    }

    #[test]
    fn defaults_bound_the_log() {
        let log = options(&[], true).unwrap().log.unwrap();
        assert_eq!(log.rotation.max_bytes * (log.rotation.max_backups as u64 + 1), 100 << 20);
        assert_eq!(log.rotation.max_age, Duration::from_secs(7 * 86_400));
        assert_eq!(log.delivery.mode, DeliveryMode::Batch);
        let flags = ["--audit-webhook-config-file=k", "--audit-webhook-mode=blocking-strict"];
        let webhook = options(&flags, false).unwrap().webhook.unwrap();
        assert_eq!(webhook.delivery.batch.throttle, Some(Throttle { qps: 10.0, burst: 15 }));
        assert_eq!(
            (webhook.delivery.mode, webhook.delivery.batch.max_size),
            (DeliveryMode::BlockingStrict, 400)
        );
        let flags = ["--audit-webhook-config-file=k", "--audit-webhook-batch-throttle-enable=false"];
        assert_eq!(options(&flags, false).unwrap().webhook.unwrap().delivery.batch.throttle, None);
    }

    #[test]
    fn values_that_disable_everything_are_rejected() {
        for flag in [
            "--audit-log-batch-buffer-size=0",
            "--audit-log-batch-max-size=0",
            "--audit-webhook-batch-throttle-qps=0",
            "--audit-webhook-batch-throttle-qps=x",
            "--audit-webhook-batch-throttle-burst=0",
            "--audit-log-format=xml",
            "--audit-webhook-mode=never",
            "--audit-log-maxage=-1",
        ] {
            assert!(options(&[flag], true).is_err(), "{flag}");
        }
    }
}
