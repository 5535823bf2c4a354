//! Translation of the parameters and topologies of storage classes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;

use super::topology::is_zone;

/// The drivers' parameter for the file system type; the provisioner removes it and does not pass it on.
const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// The translation of a parameter.
pub(super) enum Becomes<'p> {
    /// Unchanged.
    Itself,
    /// Renamed to these names, with the same value under each.
    Names(&'p [&'p str]),
    /// Unchanged, with an additional parameter.
    With(&'p str, &'p str),
    /// Removed: the driver has no equivalent.
    Nothing,
}

/// Translates each parameter; `of` receives the names in lower case.
pub(super) fn map<'p>(class: &mut StorageClass, of: impl Fn(&str) -> Becomes<'p>) {
    let mut parameters = BTreeMap::new();
    for (name, value) in class.parameters.take().unwrap_or_default() {
        match of(&name.to_lowercase()) {
            Becomes::Nothing => {}
            Becomes::Names(names) => {
                parameters.extend(names.iter().map(|&name| (name.to_owned(), value.clone())));
            }
            Becomes::With(other, its) => {
                parameters.insert(name, value);
                parameters.insert(other.to_owned(), its.to_owned());
            }
            Becomes::Itself => {
                parameters.insert(name, value);
            }
        }
    }
    class.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
}

/// Renames the file system type to the drivers' parameter.
pub(super) fn fs_type(name: &str) -> Becomes<'static> {
    if name == "fstype" { Becomes::Names(&[FS_TYPE]) } else { Becomes::Itself }
}

/// Moves zones to the driver's key, including those in deprecated parameters. `None` if both forms are present:
/// the intended zones are ambiguous.
pub(super) fn zones(class: &mut StorageClass, key: &str) -> Option<()> {
    let mut given: Option<Vec<String>> = None;
    let mut parameters = class.parameters.take().unwrap_or_default();
    parameters.retain(|name, value| {
        match name.to_lowercase().as_str() {
            "zone" => given = Some(vec![value.clone()]),
            "zones" => given = Some(value.split(',').map(str::to_owned).collect()),
            _ => return true,
        }
        false
    });
    class.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
    let Some(values) = given else {
        topologies(class, key);
        return Some(());
    };
    if class.allowed_topologies.as_ref().is_some_and(|terms| !terms.is_empty()) {
        return None;
    }
    let expression = TopologySelectorLabelRequirement { key: key.to_owned(), values };
    class.allowed_topologies =
        Some(vec![TopologySelectorTerm { match_label_expressions: Some(vec![expression]) }]);
    Some(())
}

/// Replaces Kubernetes' zone keys with the driver's key; other keys stay.
pub(super) fn topologies(class: &mut StorageClass, key: &str) {
    for expression in expressions(class) {
        if is_zone(&expression.key) {
            key.clone_into(&mut expression.key);
        }
    }
}

/// All expressions in the topologies.
pub(super) fn expressions(
    class: &mut StorageClass,
) -> impl Iterator<Item = &mut TopologySelectorLabelRequirement> {
    let terms = class.allowed_topologies.iter_mut().flatten();
    terms.flat_map(|term| term.match_label_expressions.iter_mut().flatten())
}
