//! The admission plugins and their order (upstream: pkg/kubeapiserver/options/plugins.go).

use super::claim_resize::PersistentVolumeClaimResize;
use super::collections;
use super::default_class::DefaultStorageClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::in_use_protection::StorageObjectInUseProtection;
use super::limit_ranger::LimitRanger;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::plugin::Plugin;
use super::priority::Priority;
use super::request::{Lookup, Request};
use super::resource_quota::ResourceQuota;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use orlop_api::status::ApiError;

/// Every plugin, in upstream's order, on which plugins rely.
const PLUGINS: &[&dyn Plugin] = &[
    &NamespaceLifecycle,
    &LimitRanger,
    &TaintNodesByCondition,
    &Priority,
    &DefaultTolerationSeconds,
    &DefaultStorageClass,
    &StorageObjectInUseProtection,
    &PersistentVolumeClaimResize,
    &ResourceQuota,
];

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

    /// Runs after validation, also for deletes. Plugins can only reject.
    ///
    /// # Errors
    ///
    /// The error of the first plugin that rejects the write, or a 403 for an object that makes a collection too large which
    /// admission reads.
    pub fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        collections::check(request, lookup)?;
        self.0.iter().try_for_each(|plugin| plugin.validate(request, lookup))
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
                "DefaultTolerationSeconds",
                "DefaultStorageClass",
                "StorageObjectInUseProtection",
                "PersistentVolumeClaimResize",
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
