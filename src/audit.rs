//! Reads the files of the audit log, and connects it to its webhook.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use orlop_apiserver::audit::config::{AuditConfig, LogTarget, Post, PostError, WebhookConfig};
use orlop_apiserver::audit::policy_file::{self, PolicyFileError};
use orlop_auth::audit::Policy;
use orlop_cli::config::{AuditLogPlace, AuditOptions};

use crate::webhook::{PostFailure, WebhookClient, WebhookError};

/// Maximum size of the webhook's answer, bytes. Its content does not matter.
const MAX_ANSWER: usize = 1 << 20;
/// The file of the log in the data directory.
const LOG_FILE: &str = "audit.log";

/// Why the audit log cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

/// The parts of the configuration that are read before the store is opened.
pub(crate) struct AuditFiles {
    policy: Policy,
    webhook: Option<WebhookConfig>,
}

/// Reads the policy and the kubeconfig of the webhook.
pub(crate) async fn read(options: &AuditOptions) -> Result<AuditFiles, AuditError> {
    let policy = match &options.policy_file {
        Some(path) => policy_file::load(path)?,
        None => Policy::default(),
    };
    let webhook = match &options.webhook {
        Some(webhook) => Some(WebhookConfig {
            post: post(&webhook.config_file).await?,
            initial_backoff: webhook.initial_backoff,
            delivery: webhook.delivery,
        }),
        None => None,
    };
    Ok(AuditFiles { policy, webhook })
}

/// The file of the log; `None` if there is none.
pub(crate) fn log_file(options: &AuditOptions, data_dir: Option<&Path>) -> Option<PathBuf> {
    match target(options, data_dir)? {
        LogTarget::Stdout => None,
        LogTarget::File(path) => Some(path),
    }
}

/// The configuration; `None` if events have no destination. A server without a data directory has no default log.
pub(crate) fn config(
    options: &AuditOptions,
    files: AuditFiles,
    data_dir: Option<&Path>,
) -> Option<AuditConfig> {
    let log = options.log.as_ref().zip(target(options, data_dir)).map(|(log, target)| log.at(target));
    let AuditFiles { policy, webhook } = files;
    (log.is_some() || webhook.is_some()).then_some(AuditConfig { policy, log, webhook })
}

fn target(options: &AuditOptions, data_dir: Option<&Path>) -> Option<LogTarget> {
    match &options.log.as_ref()?.place {
        AuditLogPlace::Given(target) => Some(target.clone()),
        AuditLogPlace::DataDir => Some(LogTarget::File(data_dir?.join(LOG_FILE))),
    }
}

/// Calls the webhook that a kubeconfig describes.
async fn post(path: &Path) -> Result<Post, AuditError> {
    let client = WebhookClient::connect("--audit-webhook-config-file", path).await?;
    Ok(Arc::new(move |document| {
        let sent = client.clone().post(document, MAX_ANSWER);
        async {
            let failed = |failure: PostFailure| PostError {
                message: failure.message,
                is_temporary: failure.is_temporary,
            };
            sent.await.map(|_| ()).map_err(failed)
        }
        .boxed()
    }))
}
