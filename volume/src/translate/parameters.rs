//! Parameters and topologies of classes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;

use super::topology::is_zone;

/// What drivers call the type of the file system; the provisioner takes it out and does not hand it on.
const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// What becomes of a parameter.
pub(super) enum Becomes<'p> {
    /// It stays as it is.
    Itself,
    /// It has other names, the same value under each.
    Names(&'p [&'p str]),
    /// It stays, and another one comes with it.
    With(&'p str, &'p str),
    /// The driver knows nothing like it.
    Nothing,
}

/// Parameters, one by one; `of` is given the names in lower case.
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

/// The type of a file system under the driver's name for it.
pub(super) fn fs_type(name: &str) -> Becomes<'static> {
    if name == "fstype" { Becomes::Names(&[FS_TYPE]) } else { Becomes::Itself }
}

/// Zones under the driver's key, those that were parameters once among them. `None` if there are zones of both sorts: nobody
/// knows which are meant.
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

/// Kubernetes' names of zones become the driver's key; other keys stay.
pub(super) fn topologies(class: &mut StorageClass, key: &str) {
    for expression in expressions(class) {
        if is_zone(&expression.key) {
            key.clone_into(&mut expression.key);
        }
    }
}

/// All expressions of the topologies.
pub(super) fn expressions(
    class: &mut StorageClass,
) -> impl Iterator<Item = &mut TopologySelectorLabelRequirement> {
    let terms = class.allowed_topologies.iter_mut().flatten();
    terms.flat_map(|term| term.match_label_expressions.iter_mut().flatten())
}
