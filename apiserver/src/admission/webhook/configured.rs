//! The webhooks of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::object::Object;
use orlop_api::registry::admission_registration::{GROUP, TooManyExpressions, check_webhooks};
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
    fn of(configuration: &str, value: &Value, compiles: Result<(), TooManyExpressions>) -> Self {
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
        let has_conditions = value["matchConditions"].as_array().is_some_and(|list| !list.is_empty());
        let scope = ExpressionScope { has_params: false, has_authorizer: true, has_patch_types: false };
        Webhook {
            configuration: configuration.to_owned(),
            name: text(value, "name"),
            criteria: Criteria::of_webhook(value),
            conditions: match compiles {
                Err(why) if has_conditions => Conditions::failing(why.to_string(), fails),
                Ok(()) | Err(_) => Conditions::of(value, &Compiler::new(false), scope, fails),
            },
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

const MUTATING: &str = "mutatingwebhookconfigurations";

/// The webhooks by configuration, in the order of the names.
#[derive(Clone, Default)]
pub(crate) struct WebhookIndex {
    validating: BTreeMap<String, Configuration>,
    mutating: BTreeMap<String, Configuration>,
}

/// A webhook configuration.
#[derive(Clone)]
struct Configuration {
    /// UID and generation: configurations with the same ones have the same webhooks.
    version: (String, Option<i64>),
    webhooks: Arc<Vec<Arc<Webhook>>>,
}

impl WebhookIndex {
    /// The webhooks that can reject requests.
    pub(crate) fn validating(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.validating.values().flat_map(|configuration| configuration.webhooks.iter())
    }

    /// The webhooks that can change objects.
    pub(crate) fn mutating(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.mutating.values().flat_map(|configuration| configuration.webhooks.iter())
    }

    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.mutating().chain(self.validating()).next().is_some()
    }

    /// Whether a webhook may apply to the resources of a group.
    pub(crate) fn covers(&self, group: &str) -> bool {
        self.validating().chain(self.mutating()).any(|webhook| webhook.criteria.covers(group))
    }

    fn of_kind(&self, plural: &str) -> &BTreeMap<String, Configuration> {
        if plural == MUTATING { &self.mutating } else { &self.validating }
    }

    fn of_kind_mut(&mut self, plural: &str) -> &mut BTreeMap<String, Configuration> {
        if plural == MUTATING { &mut self.mutating } else { &mut self.validating }
    }
}

/// The webhooks of the store.
pub(crate) type StoredWebhooks = Follower<WebhookIndex>;

impl Followed for WebhookIndex {
    const KINDS: &'static [(&'static str, &'static str)] =
        &[(GROUP, "validatingwebhookconfigurations"), (GROUP, MUTATING)];

    fn set(&mut self, plural: &str, name: &str, object: Option<&Object>, known: Option<&Self>) {
        let Some(object) = object else { return drop(self.of_kind_mut(plural).remove(name)) };
        let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64);
        let version = (object.uid().to_owned(), generation);
        let former = known.unwrap_or(self).of_kind(plural).get(name);
        let former = former.filter(|former| generation.is_some() && former.version == version).cloned();
        let configuration = former.unwrap_or_else(|| {
            let list = object.at(&["webhooks"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let compiles = check_webhooks(list);
            let webhooks =
                list.iter().map(|webhook| Arc::new(Webhook::of(name, webhook, compiles))).collect();
            Configuration { version, webhooks: Arc::new(webhooks) }
        });
        self.of_kind_mut(plural).insert(name.to_owned(), configuration);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_webhooks_with_conditions_fail_if_there_are_too_many() {
        let condition = json!({"name": "n", "expression": "true"});
        let webhooks = json!([
            {"name": "many", "matchConditions": vec![condition; 2_000]},
            {"name": "empty", "matchConditions": []},
            {"name": "none"},
        ]);
        let object = Object::from_value(json!({"metadata": {"name": "c"}, "webhooks": webhooks}));
        let mut index = WebhookIndex::default();
        index.set(MUTATING, "c", Some(&object), None);
        let found: Vec<_> =
            index.mutating().map(|one| (one.name.as_str(), one.conditions.is_empty())).collect();
        assert_eq!(found, [("many", false), ("empty", true), ("none", true)]);
    }
}
