//! Reads the files of the audit log, and connects it to its webhook.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use orlop_apiserver::audit::config::{AuditConfig, LogTarget, Post, PostError, WebhookConfig};
use orlop_apiserver::audit::policy_file::{self, PolicyFileError};
use orlop_auth::audit::Policy;
use orlop_cli::config::{AuditLogPlace, AuditOptions};
use orlop_client::client::{self, ConnectError, Endpoint};

/// The file of the log in the data directory.
const LOG_FILE: &str = "audit.log";

/// Why the audit log cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    #[error("--audit-webhook-config-file {}: {problem}", path.display())]
    Webhook { path: PathBuf, problem: String },
    #[error("cannot connect to the audit webhook")]
    Connect(#[from] ConnectError),
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

/// A client of the webhook that a kubeconfig describes.
async fn post(path: &Path) -> Result<Post, AuditError> {
    let wrong = |problem: String| AuditError::Webhook { path: path.to_owned(), problem };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
    let url: Uri = server_of(&kubeconfig)
        .ok_or_else(|| wrong("its current context names no cluster with a server".to_owned()))?
        .parse()
        .map_err(|error| wrong(format!("the URL of its server is not valid: {error}")))?;
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return Err(wrong("the URL of its server has no scheme or no host".to_owned()));
    };
    // The client would append a path to that of the server, and the webhook has only the latter.
    let endpoint = Endpoint::Kubeconfig {
        path: Some(path.to_owned()),
        context: None,
        server: Some(format!("{scheme}://{authority}")),
    };
    let target = url.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    let client = client::connect(endpoint).await?;
    Ok(Arc::new(move |document| send(client.clone(), target.clone(), document).boxed()))
}

fn server_of(kubeconfig: &Kubeconfig) -> Option<&str> {
    let name = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.as_deref()
}

async fn send(client: Client, target: String, document: Bytes) -> Result<(), PostError> {
    let request = Request::post(target).header(CONTENT_TYPE, "application/json").body(Body::from(document));
    let request = request.map_err(|error| PostError { message: error.to_string(), is_temporary: false })?;
    let response = client.send(request).await;
    let response =
        response.map_err(|error| PostError { message: client::message_of(&error), is_temporary: true })?;
    result_of(response.status())
}

/// The result of a response. Upstream: apiserver `pkg/util/webhook/webhook.go` (DefaultShouldRetry).
fn result_of(status: StatusCode) -> Result<(), PostError> {
    if status.is_success() {
        return Ok(());
    }
    let is_temporary = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    Err(PostError { message: format!("the webhook responds with {status}"), is_temporary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_the_webhook_decides_about_repetition() {
        for (code, want) in [
            (200, None),
            (204, None),
            (400, Some(false)),
            (401, Some(false)),
            (429, Some(true)),
            (503, Some(true)),
        ] {
            let status = StatusCode::from_u16(code).expect("a code");
            assert_eq!(result_of(status).err().map(|error| error.is_temporary), want, "{code}");
        }
    }

    #[tokio::test]
    async fn unusable_kubeconfig_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, want) in [
            ("apiVersion: v1\nkind: Config\n", "names no cluster"),
            (
                "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: /audit}}]\nusers: []\n",
                "has no scheme",
            ),
        ] {
            std::fs::write(file.path(), text).expect("it is written");
            let error = post(file.path()).await.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.starts_with("--audit-webhook-config-file") && error.contains(want), "{error}");
        }
    }
}
