//! `ValidatingWebhookConfiguration` and `MutatingWebhookConfiguration`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::expression_limits::check_webhooks;
use super::fields::{GROUP, MATCH_POLICIES, REINVOCATION_POLICIES, is_set, list, set_default, text, texts};
use super::match_resources::{default_rules, validate_failure_policy, validate_rule, validate_selector};
use super::policy_parts::validate_match_conditions;
use super::webhook_client::validate_client;
use crate::kind::{Column, Generation, Kind, KindRef, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::{cells, checks};
use crate::validate::{FieldErrors, Path};

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const ALL_SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) const VALIDATING: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    short: &[],
    categories: &["api-extensions"],
    schema: "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
};

pub(super) const MUTATING: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    short: &[],
    categories: &["api-extensions"],
    schema: "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
};

/// A kind of webhook configuration.
#[derive(Clone, Copy)]
pub struct WebhookConfiguration {
    mutates: bool,
    compiler: &'static dyn CompilesExpressions,
}

impl WebhookConfiguration {
    /// The `ValidatingWebhookConfiguration` kind.
    pub const fn validating(compiler: &'static dyn CompilesExpressions) -> Self {
        WebhookConfiguration { mutates: false, compiler }
    }

    /// The `MutatingWebhookConfiguration` kind.
    pub const fn mutating(compiler: &'static dyn CompilesExpressions) -> Self {
        WebhookConfiguration { mutates: true, compiler }
    }
}

impl fmt::Debug for WebhookConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names().kind)
    }
}

impl Kind for WebhookConfiguration {
    fn names(&self) -> &'static Names {
        if self.mutates { &MUTATING } else { &VALIDATING }
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        if self.mutates {
            "/registry/mutatingwebhookconfigurations/"
        } else {
            "/registry/validatingwebhookconfigurations/"
        }
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, generation: Generation::AllButMeta, ..Policy::DEFAULT }
    }

    fn defaults(&self, object: &mut Object) {
        let webhooks = object.0.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            set_default(webhook, "failurePolicy", "Fail");
            set_default(webhook, "matchPolicy", "Equivalent");
            set_default(webhook, "namespaceSelector", json!({}));
            set_default(webhook, "objectSelector", json!({}));
            set_default(webhook, "timeoutSeconds", 10);
            if self.mutates {
                set_default(webhook, "reinvocationPolicy", "Never");
            }
            default_rules(webhook, "rules");
            let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
            if let Some(service) = service {
                set_default(service, "port", 443);
            }
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        self.validate_webhooks(object, &Strictness::of_new(), errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate_webhooks(object, &Strictness::of_change(object, old), errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::typed("Webhooks", "integer", "The number of webhooks."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let count = webhooks(object).len();
        vec![cells::name(object), count.into(), cells::age(object, now)]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == VALIDATING.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

fn webhooks(object: &Object) -> &[Value] {
    object.at(&["webhooks"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The rules that a stored configuration may break, because an older version accepted it.
struct Strictness {
    needs_no_side_effects: bool,
    needs_known_version: bool,
    needs_unique_names: bool,
    checks_conditions: bool,
}

impl Strictness {
    fn of_new() -> Self {
        Strictness {
            needs_no_side_effects: true,
            needs_known_version: true,
            needs_unique_names: true,
            checks_conditions: true,
        }
    }

    fn of_change(object: &Object, old: &Object) -> Self {
        let (new, old) = (webhooks(object), webhooks(old));
        let mut names = HashSet::new();
        let conditions = |webhook: &Value| list(webhook, "matchConditions").to_vec();
        Strictness {
            needs_no_side_effects: old.iter().all(|one| SIDE_EFFECTS.contains(&text(one, "sideEffects"))),
            needs_known_version: old.iter().all(|one| {
                let versions = texts(one, "admissionReviewVersions");
                versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
            }),
            needs_unique_names: old.iter().all(|one| names.insert(text(one, "name"))),
            checks_conditions: !new.iter().map(conditions).eq(old.iter().map(conditions)),
        }
    }
}

impl WebhookConfiguration {
    fn validate_webhooks(&self, object: &Object, strictness: &Strictness, errors: &mut FieldErrors) {
        if strictness.checks_conditions
            && let Err(too_many) = check_webhooks(webhooks(object))
        {
            return too_many.report(&Path::new("webhooks"), errors);
        }
        let mut seen = HashSet::new();
        for (at, webhook) in webhooks(object).iter().enumerate() {
            let path = Path::new("webhooks").index(at);
            self.validate_webhook(webhook, strictness, &path, errors);
            validate_versions(webhook, strictness, &path.child("admissionReviewVersions"), errors);
            let name = text(webhook, "name");
            if strictness.needs_unique_names && !name.is_empty() && !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }

    fn validate_webhook(
        &self,
        webhook: &Value,
        strictness: &Strictness,
        path: &Path,
        errors: &mut FieldErrors,
    ) {
        validate_name(text(webhook, "name"), &path.child("name"), errors);
        for (at, rule) in list(webhook, "rules").iter().enumerate() {
            validate_rule(rule, &path.child("rules").index(at), errors);
        }
        validate_failure_policy(webhook, path, errors);
        let policy = webhook.get("matchPolicy").and_then(Value::as_str);
        checks::one_of(errors, &path.child("matchPolicy"), policy, &MATCH_POLICIES);
        let allowed = if strictness.needs_no_side_effects { &SIDE_EFFECTS[..] } else { &ALL_SIDE_EFFECTS };
        let place = path.child("sideEffects");
        match webhook.get("sideEffects").and_then(Value::as_str) {
            None => errors.required(&place, &format!("must specify one of {}", allowed.join(", "))),
            effects => checks::one_of(errors, &place, effects, allowed),
        }
        let timeout = webhook.get("timeoutSeconds").and_then(Value::as_i64);
        if let Some(timeout) = timeout.filter(|timeout| !(1..=30).contains(timeout)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            errors.invalid(&path.child("timeoutSeconds"), timeout, why);
        }
        validate_selector(webhook, "namespaceSelector", path, errors);
        validate_selector(webhook, "objectSelector", path, errors);
        if self.mutates {
            let policy = webhook.get("reinvocationPolicy").and_then(Value::as_str);
            checks::one_of(errors, &path.child("reinvocationPolicy"), policy, &REINVOCATION_POLICIES);
        }
        validate_client(webhook, path, errors);
        if strictness.checks_conditions && is_set(webhook, "matchConditions") {
            validate_match_conditions(webhook, self.compiler, false, path, errors);
        }
    }
}

/// A fully qualified name: a domain with at least three segments.
fn validate_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    if !checks::required(errors, path, name) {
        return;
    }
    let wrong = names::dns_subdomain(name);
    if !wrong.is_empty() {
        return errors.invalid(path, name, &wrong.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

fn validate_versions(webhook: &Value, strictness: &Strictness, path: &Path, errors: &mut FieldErrors) {
    let versions = texts(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, &format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().copied().enumerate() {
        if !seen.insert(version) {
            errors.invalid(&path.index(at), version, "duplicate version");
            continue;
        }
        checks::each(errors, &path.index(at), version, names::dns1035_label(version));
    }
    if strictness.needs_known_version && !versions.iter().any(|one| REVIEW_VERSIONS.contains(one)) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, versions, &why);
    }
}
