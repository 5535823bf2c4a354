//! The admission plugins and their order (upstream: pkg/kubeapiserver/options/plugins.go).

use super::claim_resize::PersistentVolumeClaimResize;
use super::collections;
use super::default_class::DefaultStorageClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::in_use_protection::StorageObjectInUseProtection;
use super::limit_ranger::LimitRanger;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::plugin::Plugin;
use super::pod_security::PodSecurity;
use super::priority::Priority;
use super::request::{Lookup, Request};
use super::resource_quota::{QUOTA_PLUGIN, ResourceQuota};
use super::taint_nodes_by_condition::TaintNodesByCondition;
use orlop_api::status::ApiError;

/// Every plugin, in upstream's order, on which plugins rely.
const PLUGINS: &[&dyn Plugin] = &[
    &NamespaceLifecycle,
    &LimitRanger,
    &TaintNodesByCondition,
    &PodSecurity,
    &Priority,
    &DefaultTolerationSeconds,
    &DefaultStorageClass,
    &StorageObjectInUseProtection,
    &PersistentVolumeClaimResize,
    &Configured(MUTATING_POLICY),
    &Configured(MUTATING_WEBHOOK),
    &Configured(VALIDATING_POLICY),
    &Configured(VALIDATING_WEBHOOK),
    &ResourceQuota,
];

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

/// The name of an unknown plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no admission plugin {name:?}; use the names of plugins that are there: {}", known.join(", "))]
pub struct UnknownPlugin {
    /// The unknown name.
    pub name: String,
    /// The known names.
    pub known: Vec<&'static str>,
}

/// The enabled plugins.
pub struct Chain(Vec<&'static dyn Plugin>);

impl Chain {
    /// All plugins except the disabled ones.
    ///
    /// # Errors
    ///
    /// [`UnknownPlugin`] for the first unknown name: a misspelled name would leave a plugin enabled.
    pub fn new(disabled: &[String]) -> Result<Self, UnknownPlugin> {
        for name in disabled {
            if !PLUGINS.iter().any(|plugin| plugin.name() == name) {
                let known = PLUGINS.iter().map(|plugin| plugin.name()).collect();
                return Err(UnknownPlugin { name: name.clone(), known });
            }
        }
        let on = |plugin: &&&'static dyn Plugin| !disabled.iter().any(|name| name == plugin.name());
        Ok(Chain(PLUGINS.iter().filter(on).copied().collect()))
    }

    /// The names of the enabled plugins, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|plugin| plugin.name())
    }

    /// Whether the plugin of this name is enabled.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Runs before validation, also for deletes. Plugins may change the object.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write.
    pub fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        self.0.iter().try_for_each(|plugin| plugin.mutate(request, lookup))
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
        let mut first = self.0.iter().filter(|plugin| plugin.name() != QUOTA_PLUGIN);
        first.try_for_each(|plugin| plugin.validate(request, lookup))
    }

    /// Runs last: a request that another plugin rejects charges no quota.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write.
    pub fn validate_last(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let mut last = self.0.iter().filter(|plugin| plugin.name() == QUOTA_PLUGIN);
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

    #[test]
    fn all_plugins_except_the_disabled_ones_run() {
        let chain =
            Chain::new(&["Priority".to_owned(), "NamespaceLifecycle".to_owned()]).expect("known names");
        let names: Vec<_> = chain.names().collect();
        assert_eq!(
            names,
            [
                "LimitRanger",
                "TaintNodesByCondition",
                "PodSecurity",
                "DefaultTolerationSeconds",
                "DefaultStorageClass",
                "StorageObjectInUseProtection",
                "PersistentVolumeClaimResize",
                "MutatingAdmissionPolicy",
                "MutatingAdmissionWebhook",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionWebhook",
                "ResourceQuota"
            ]
        );
        assert_eq!(Chain::new(&[]).expect("no names").names().count(), PLUGINS.len());
    }

    #[test]
    fn unknown_names_are_rejected_with_the_list_of_known_ones() {
        let error = Chain::new(&["Priorty".to_owned()]).expect_err("misspelt");
        assert_eq!(error.name, "Priorty");
        assert!(error.to_string().contains("\"Priorty\""), "{error}");
        assert!(error.to_string().contains("Priority, DefaultTolerationSeconds"), "{error}");
    }
}
