//! Groups operations by path. A parameter of all operations of a path belongs to the path.

use std::collections::BTreeMap;

use super::Route;
use super::parameters::Parameter;

/// A path with its operations.
pub(super) struct PathItem<'a> {
    pub(super) path: &'a str,
    /// The parameters of all operations.
    pub(super) parameters: Vec<&'a Parameter>,
    pub(super) operations: Vec<Operation<'a>>,
}

/// An operation and its parameters besides those of the path.
pub(super) struct Operation<'a> {
    pub(super) route: &'a Route,
    pub(super) parameters: Vec<&'a Parameter>,
}

/// The paths of operations.
pub(super) fn group(routes: &[Route]) -> Vec<PathItem<'_>> {
    let mut by_path: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in routes {
        by_path.entry(&route.path).or_default().push(route);
    }
    by_path.into_iter().map(|(path, routes)| item(path, &routes)).collect()
}

fn item<'a>(path: &'a str, routes: &[&'a Route]) -> PathItem<'a> {
    let is_in =
        |route: &Route, wanted: &Parameter| route.parameters.iter().any(|one| key(one) == key(wanted));
    let is_common = |parameter: &Parameter| routes.iter().all(|route| is_in(route, parameter));
    let operations = routes.iter().map(|route| Operation {
        route,
        parameters: sorted(route.parameters.iter().filter(|parameter| !is_common(parameter))),
    });
    // Operations can describe the same parameter differently: as upstream, the last one counts.
    let last = routes.last().into_iter().flat_map(|route| &route.parameters);
    PathItem {
        path,
        parameters: sorted(last.filter(|parameter| is_common(parameter))),
        operations: operations.collect(),
    }
}

fn key(parameter: &Parameter) -> (&str, &str) {
    (parameter.name, parameter.place)
}

fn sorted<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> Vec<&'a Parameter> {
    let mut parameters: Vec<&Parameter> = parameters.collect();
    parameters.sort_by_key(|parameter| key(parameter));
    parameters
}
