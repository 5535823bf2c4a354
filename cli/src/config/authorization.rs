//! Converts the flags of authorization.

use std::path::PathBuf;

use orlop_apiserver::authorization::options::{
    AuthorizerOptions, ReviewVersion, WebhookOptions, WebhookSettings,
};

use super::error::{ConfigError, wrong};
use crate::args::{AuthorizationArgs, AuthorizationModeArg, ReviewVersionArg};

/// How requests are authorized.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthorizationOptions {
    /// These modes, in order.
    Modes(Vec<AuthorizerOptions>),
    /// The modes of this file.
    File(PathBuf),
}

impl AuthorizationOptions {
    /// Converts the flags. `permits_all`: by default, every authenticated user has full access.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(super) fn new(args: AuthorizationArgs, permits_all: bool) -> Result<Self, ConfigError> {
        if let Some(path) = args.authorization_config {
            return Ok(AuthorizationOptions::File(path));
        }
        let modes = match args.authorization_mode.as_slice() {
            // Clients on other machines, and containers, have only the rights that roles grant.
            [] if permits_all => vec![AuthorizationModeArg::AlwaysAllow],
            [] => vec![AuthorizationModeArg::Node, AuthorizationModeArg::Rbac],
            given => given.to_vec(),
        };
        if let Some(twice) = modes.iter().enumerate().find(|(at, mode)| modes[..*at].contains(mode)) {
            return Err(wrong(&format!("--authorization-mode names {:?} twice", twice.1)));
        }
        let settings = WebhookSettings {
            version: match args.authorization_webhook_version {
                ReviewVersionArg::V1 => ReviewVersion::V1,
                ReviewVersionArg::V1beta1 => ReviewVersion::V1Beta1,
            },
            authorized_ttl: args.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: args.authorization_webhook_cache_unauthorized_ttl,
            ..WebhookSettings::default()
        };
        let file = args.authorization_webhook_config_file;
        let has_webhook = modes.contains(&AuthorizationModeArg::Webhook);
        if file.is_some() && !has_webhook {
            return Err(wrong("--authorization-webhook-config-file needs --authorization-mode=Webhook"));
        }
        let option = |mode: &AuthorizationModeArg| -> Result<AuthorizerOptions, ConfigError> {
            match mode {
                AuthorizationModeArg::AlwaysAllow => Ok(AuthorizerOptions::AlwaysAllow),
                AuthorizationModeArg::AlwaysDeny => Ok(AuthorizerOptions::AlwaysDeny),
                AuthorizationModeArg::Node => Ok(AuthorizerOptions::Node),
                AuthorizationModeArg::Rbac => Ok(AuthorizerOptions::Rbac),
                AuthorizationModeArg::Webhook => {
                    let kubeconfig = file.clone().ok_or_else(|| {
                        wrong("--authorization-mode=Webhook needs --authorization-webhook-config-file FILE")
                    })?;
                    Ok(AuthorizerOptions::Webhook(WebhookOptions { kubeconfig, settings: settings.clone() }))
                }
            }
        };
        Ok(AuthorizationOptions::Modes(modes.iter().map(option).collect::<Result<_, ConfigError>>()?))
    }
}
