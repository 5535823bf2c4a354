//! Reads the configuration of authorization, and connects its webhooks.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use orlop_apiserver::authorization::config_file::{self, AuthorizationFileError};
use orlop_apiserver::authorization::options::AuthorizerOptions;
use orlop_apiserver::authorization::{AuthorizationMode, AuthorizationWebhookConfig};
use orlop_apiserver::webhook_client::{LONGEST_ANSWER, ReviewError, WebhookPost};
use orlop_cli::config::AuthorizationOptions;

use crate::webhook::{PostFailure, WebhookClient, WebhookError};

/// Why authorization cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorizationError {
    #[error(transparent)]
    File(#[from] AuthorizationFileError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

/// The modes, and the webhooks that they refer to.
#[derive(Default)]
pub(crate) struct Authorization {
    pub(crate) modes: Vec<AuthorizationMode>,
    pub(crate) webhooks: Vec<AuthorizationWebhookConfig>,
}

/// Reads the files of the options.
pub(crate) async fn read(options: &AuthorizationOptions) -> Result<Authorization, AuthorizationError> {
    match options {
        AuthorizationOptions::Modes(modes) => {
            connect("--authorization-webhook-config-file", modes.clone()).await
        }
        AuthorizationOptions::File(path) => from_file(path).await,
    }
}

async fn from_file(path: &Path) -> Result<Authorization, AuthorizationError> {
    connect("--authorization-config: kubeConfigFile", config_file::load(path)?).await
}

/// Connects the webhooks. `flag` names their files in errors.
async fn connect(
    flag: &'static str,
    options: Vec<AuthorizerOptions>,
) -> Result<Authorization, AuthorizationError> {
    let mut authorization = Authorization::default();
    for option in options {
        let mode = match option {
            AuthorizerOptions::AlwaysAllow => AuthorizationMode::AlwaysAllow,
            AuthorizerOptions::AlwaysDeny => AuthorizationMode::AlwaysDeny,
            AuthorizerOptions::Node => AuthorizationMode::Node,
            AuthorizerOptions::Rbac => AuthorizationMode::Rbac,
            AuthorizerOptions::Webhook(webhook) => {
                let post = post(WebhookClient::connect(flag, &webhook.kubeconfig).await?);
                let config = AuthorizationWebhookConfig { post, settings: webhook.settings };
                authorization.webhooks.push(config);
                AuthorizationMode::Webhook(authorization.webhooks.len() - 1)
            }
        };
        authorization.modes.push(mode);
    }
    Ok(authorization)
}

/// Calls a webhook.
fn post(client: WebhookClient) -> WebhookPost {
    Arc::new(move |document| {
        let sent = client.clone().post(document, LONGEST_ANSWER);
        async {
            let failed = |failure: PostFailure| ReviewError {
                message: failure.message,
                is_temporary: failure.is_temporary,
            };
            sent.await.map_err(failed)
        }
        .boxed()
    })
}
