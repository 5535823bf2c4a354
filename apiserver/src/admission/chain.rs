//! The admission plugins and their order (upstream: pkg/kubeapiserver/options/plugins.go).

use super::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use super::claim_resize::PersistentVolumeClaimResize;
use super::collections;
use super::default_class::DefaultStorageClass;
use super::default_ingress_class::DefaultIngressClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::in_use_protection::StorageObjectInUseProtection;
use super::limit_ranger::LimitRanger;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_restriction::{NODE_RESTRICTION, NodeRestriction};
use super::plugin::Plugin;
use super::pod_security::PodSecurity;
use super::priority::Priority;
use super::request::{Lookup, Request};
use super::resource_quota::{QUOTA_PLUGIN, ResourceQuota};
use super::runtime_class::RuntimeClass;
use super::service_account::{SERVICE_ACCOUNT, ServiceAccount};
use super::taint_nodes_by_condition::TaintNodesByCondition;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Every plugin, in upstream's order, on which plugins rely.
const PLUGINS: &[&dyn Plugin] = &[
    &NamespaceLifecycle,
    &LimitRanger,
    // Each chain has its own.
    &Configured(SERVICE_ACCOUNT),
    &NodeRestriction,
    &TaintNodesByCondition,
    &PodSecurity,
    &Priority,
    &DefaultTolerationSeconds,
    &DefaultStorageClass,
    &StorageObjectInUseProtection,
    &PersistentVolumeClaimResize,
    &RuntimeClass,
    &CertificateApproval,
    &CertificateSigning,
    &CertificateSubjectRestriction,
    &DefaultIngressClass,
    &Configured(MUTATING_POLICY),
    &Configured(MUTATING_WEBHOOK),
    &Configured(VALIDATING_POLICY),
    &Configured(VALIDATING_WEBHOOK),
    &ResourceQuota,
];

/// The plugins that run only if they are enabled by name.
const OFF_BY_DEFAULT: [&str; 1] = [NODE_RESTRICTION];

/// Applies `MutatingAdmissionPolicy`.
pub(crate) const MUTATING_POLICY: &str = "MutatingAdmissionPolicy";
/// Calls the webhooks of `MutatingWebhookConfiguration`.
pub(crate) const MUTATING_WEBHOOK: &str = "MutatingAdmissionWebhook";
/// Enforces `ValidatingAdmissionPolicy`.
pub(crate) const VALIDATING_POLICY: &str = "ValidatingAdmissionPolicy";
/// Calls the webhooks of `ValidatingWebhookConfiguration`.
pub(crate) const VALIDATING_WEBHOOK: &str = "ValidatingAdmissionWebhook";

/// A plugin that objects configure. The verbs run it at its place, because it depends on more than the other plugins; here are
/// only its name and its place.
struct Configured(&'static str);

impl Plugin for Configured {
    fn name(&self) -> &'static str {
        self.0
    }
}

/// Why plugins cannot be enabled or disabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No plugin has this name.
    #[error("there is no admission plugin {name:?}; use the names of plugins that are there: {}", known.join(", "))]
    Unknown {
        /// The unknown name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// A plugin is enabled and disabled.
    #[error("the admission plugin {0} is both enabled and disabled; remove one of the two flags")]
    Contradiction(String),
}

/// The enabled plugins.
pub struct Chain {
    plugins: Vec<&'static dyn Plugin>,
    /// In the place of the plugin of its name. Enabled by name, it also applies before a controller has created the first account.
    accounts: ServiceAccount,
}

impl Chain {
    /// The plugins of the default, and the enabled ones, without the disabled ones.
    ///
    /// # Errors
    ///
    /// [`PluginError`] for the first unknown name, because a misspelled name would leave a plugin enabled or disabled, or for the
    /// first name that is in both lists.
    pub fn new(enabled: &[String], disabled: &[String]) -> Result<Self, PluginError> {
        for name in enabled.iter().chain(disabled) {
            if !PLUGINS.iter().any(|plugin| plugin.name() == name) {
                let known = PLUGINS.iter().map(|plugin| plugin.name()).collect();
                return Err(PluginError::Unknown { name: name.clone(), known });
            }
        }
        if let Some(name) = enabled.iter().find(|name| disabled.contains(name)) {
            return Err(PluginError::Contradiction(name.clone()));
        }
        let is_on = |plugin: &&&'static dyn Plugin| {
            let name = plugin.name();
            let is_named = |list: &[String]| list.iter().any(|one| one == name);
            !is_named(disabled) && (is_named(enabled) || !OFF_BY_DEFAULT.contains(&name))
        };
        let always = enabled.iter().any(|name| name == SERVICE_ACCOUNT);
        let plugins = PLUGINS.iter().filter(is_on).copied().collect();
        Ok(Chain { plugins, accounts: ServiceAccount::new(always) })
    }

    /// The enabled plugins, in order.
    fn plugins(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(|plugin| match plugin.name() {
            SERVICE_ACCOUNT => &self.accounts as &dyn Plugin,
            _ => *plugin,
        })
    }

    /// Whether a new pod should wait for the account `default` of its namespace.
    pub(crate) fn awaits_default_account(&self, pod: &Object, namespace: &str, lookup: &dyn Lookup) -> bool {
        self.has(SERVICE_ACCOUNT) && self.accounts.awaits_default_account(pod, namespace, lookup)
    }

    /// The names of the enabled plugins, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// Whether the plugin of this name is enabled.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Runs before an update or a patch is compared with the stored object or applied to it: the errors of these steps show parts
    /// of the object, which the user may not be permitted to read.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write.
    pub(crate) fn check_target(&self, request: &Request<'_>) -> Result<(), ApiError> {
        self.plugins.iter().try_for_each(|plugin| plugin.check_target(request))
    }

    /// Runs before validation, also for deletes. Plugins may change the object.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write.
    pub fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        self.plugins().try_for_each(|plugin| plugin.mutate(request, lookup))
    }

    /// Runs after validation, also for deletes. Plugins can only reject. [`Chain::validate_last`] runs the rest, after the
    /// plugins that objects configure.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write, or a 403 for an object that makes a collection too large which
    /// admission reads.
    pub fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        collections::check(request, lookup)?;
        let mut first = self.plugins().filter(|plugin| plugin.name() != QUOTA_PLUGIN);
        first.try_for_each(|plugin| plugin.validate(request, lookup))
    }

    /// Runs last: a request that another plugin rejects charges no quota.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write.
    pub fn validate_last(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let mut last = self.plugins().filter(|plugin| plugin.name() == QUOTA_PLUGIN);
        last.try_for_each(|plugin| plugin.validate(request, lookup))
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(enabled: &[&str], disabled: &[&str]) -> Result<Vec<&'static str>, PluginError> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Chain::new(&owned(enabled), &owned(disabled)).map(|chain| chain.names().collect())
    }

    #[test]
    fn plugins_of_the_default_run_unless_they_are_disabled() {
        assert_eq!(
            names(&[], &["Priority", "NamespaceLifecycle"]).expect("known names"),
            [
                "LimitRanger",
                "ServiceAccount",
                "TaintNodesByCondition",
                "PodSecurity",
                "DefaultTolerationSeconds",
                "DefaultStorageClass",
                "StorageObjectInUseProtection",
                "PersistentVolumeClaimResize",
                "RuntimeClass",
                "CertificateApproval",
                "CertificateSigning",
                "CertificateSubjectRestriction",
                "DefaultIngressClass",
                "MutatingAdmissionPolicy",
                "MutatingAdmissionWebhook",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionWebhook",
                "ResourceQuota"
            ]
        );
        let all = names(&["NodeRestriction", "Priority"], &[]).expect("known names");
        assert_eq!(all.len(), PLUGINS.len());
        assert_eq!(
            all[..4],
            ["NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction"],
            "upstream's order"
        );
        assert_eq!(names(&[], &[]).expect("no names").len(), PLUGINS.len() - OFF_BY_DEFAULT.len());
    }

    #[test]
    fn unknown_names_are_rejected_with_the_list_of_known_ones() {
        for (enabled, disabled) in [(&["Priorty"][..], &[][..]), (&[], &["Priorty"])] {
            let text = names(enabled, disabled).expect_err("misspelt").to_string();
            assert!(text.contains("\"Priorty\""), "{text}");
            assert!(text.contains("Priority, DefaultTolerationSeconds"), "{text}");
        }
    }

    #[test]
    fn plugin_cannot_be_enabled_and_disabled() {
        let error = names(&["Priority"], &["LimitRanger", "Priority"]).expect_err("a contradiction");
        assert_eq!(error, PluginError::Contradiction("Priority".to_owned()));
    }
}
