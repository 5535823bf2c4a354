//! The webhooks of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::object::Object;
use orlop_api::registry::admission_registration::GROUP;
use orlop_api::registry::expressions::ExpressionScope;
use orlop_crd::expression::Compiler;
use serde_json::Value;

use super::client::Connector;
use crate::admission::follow::{Followed, Follower};
use crate::admission::matching::Criteria;
use crate::admission::policy::conditions::Conditions;

/// A reference to a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookService {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) port: u16,
}

/// How a webhook is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientConfig {
    Url(String),
    Service(WebhookService),
}

/// A webhook.
pub(crate) struct Webhook {
    pub(crate) configuration: String,
    pub(crate) name: String,
    pub(crate) criteria: Criteria,
    pub(crate) conditions: Conditions,
    pub(crate) client: ClientConfig,
    pub(super) connector: Connector,
    /// Whether a failed call rejects the request.
    pub(crate) fails: bool,
    pub(crate) permits_dry_run: bool,
    /// The version of the reviews, if the server knows one of them.
    pub(crate) version: Option<&'static str>,
    pub(crate) reinvokes: bool,
}

impl Webhook {
    fn of(configuration: &str, value: &Value) -> Self {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let fails = text(value, "failurePolicy") != "Ignore";
        let config = &value["clientConfig"];
        let client = match config["url"].as_str() {
            Some(url) => ClientConfig::Url(url.to_owned()),
            None => ClientConfig::Service(WebhookService {
                namespace: text(&config["service"], "namespace"),
                name: text(&config["service"], "name"),
                path: text(&config["service"], "path"),
                port: config["service"]["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(443),
            }),
        };
        let versions = value["admissionReviewVersions"].as_array().into_iter().flatten();
        let version = versions.filter_map(Value::as_str).find_map(|version| match version {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        let scope = ExpressionScope { has_params: false, has_authorizer: true, has_patch_types: false };
        Webhook {
            configuration: configuration.to_owned(),
            name: text(value, "name"),
            criteria: Criteria::of_webhook(value),
            conditions: Conditions::of(value, &Compiler::new(false), scope, fails),
            client,
            connector: Connector::new(
                STANDARD.decode(text(config, "caBundle")).unwrap_or_default(),
                value["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30),
            ),
            fails,
            permits_dry_run: matches!(value["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            version,
            reinvokes: value["reinvocationPolicy"] == "IfNeeded",
        }
    }
}

/// The webhooks by configuration, in the order of the names.
#[derive(Clone, Default)]
pub(crate) struct WebhookIndex {
    validating: BTreeMap<String, Arc<Vec<Arc<Webhook>>>>,
    mutating: BTreeMap<String, Arc<Vec<Arc<Webhook>>>>,
}

impl WebhookIndex {
    /// The webhooks that can reject requests.
    pub(crate) fn validating(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.validating.values().flat_map(|webhooks| webhooks.iter())
    }

    /// The webhooks that can change objects.
    pub(crate) fn mutating(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.mutating.values().flat_map(|webhooks| webhooks.iter())
    }
}

/// The webhooks of the store.
pub(crate) type StoredWebhooks = Follower<WebhookIndex>;

impl Followed for WebhookIndex {
    const KINDS: &'static [(&'static str, &'static str)] =
        &[(GROUP, "validatingwebhookconfigurations"), (GROUP, "mutatingwebhookconfigurations")];

    fn set(&mut self, plural: &str, name: &str, object: Option<&Object>) {
        let all =
            if plural == "mutatingwebhookconfigurations" { &mut self.mutating } else { &mut self.validating };
        match object {
            Some(object) => {
                let list = object.at(&["webhooks"]).and_then(Value::as_array).into_iter().flatten();
                let webhooks = list.map(|webhook| Arc::new(Webhook::of(name, webhook))).collect();
                all.insert(name.to_owned(), Arc::new(webhooks));
            }
            None => drop(all.remove(name)),
        }
    }
}
