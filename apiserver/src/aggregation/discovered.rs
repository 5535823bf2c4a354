//! The resources of another server in the form of aggregated discovery. Pure.

use serde_json::{Map, Value, json};

/// Maximum number of resources and subresources of a version.
const MOST: usize = 1_000;

/// The resources of an `APIResourceList`, with their subresources, sorted by name. `None` if the document is no such list.
///
/// Upstream: apiserver `pkg/endpoints/discovery` (ConvertGroupVersionIntoToDiscovery).
pub(super) fn resources(document: &Value) -> Option<Vec<Value>> {
    if document["kind"] != "APIResourceList" {
        return None;
    }
    let listed = document["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let listed = &listed[..listed.len().min(MOST)];
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (own_group, own_version) = text(document, "groupVersion")
        .split_once('/')
        .map_or_else(Default::default, |(group, version)| (group.to_owned(), version.to_owned()));
    let kind = |one: &Value| {
        let or = |name: &str, own: &str| match text(one, name) {
            given if given.is_empty() => own.to_owned(),
            given => given,
        };
        json!({"group": or("group", &own_group), "version": or("version", &own_version), "kind": text(one, "kind")})
    };
    let mut found: Vec<Value> = Vec::new();
    for one in listed.iter().filter(|one| !text(one, "name").contains('/')) {
        let mut entry = Map::new();
        entry.insert("resource".to_owned(), text(one, "name").into());
        entry.insert("responseKind".to_owned(), kind(one));
        let scope = if one["namespaced"] == true { "Namespaced" } else { "Cluster" };
        entry.insert("scope".to_owned(), scope.into());
        entry.insert("singularResource".to_owned(), text(one, "singularName").into());
        entry.insert("verbs".to_owned(), texts(&one["verbs"]).into());
        for name in ["shortNames", "categories"] {
            let names = texts(&one[name]);
            if !names.is_empty() {
                entry.insert(name.to_owned(), names.into());
            }
        }
        let prefix = format!("{}/", text(one, "name"));
        let subresources: Vec<Value> = listed
            .iter()
            .filter_map(|sub| {
                let name = sub["name"].as_str()?.strip_prefix(&prefix)?;
                Some(json!({"subresource": name, "responseKind": kind(sub), "verbs": texts(&sub["verbs"])}))
            })
            .collect();
        if !subresources.is_empty() {
            entry.insert("subresources".to_owned(), subresources.into());
        }
        found.push(entry.into());
    }
    found.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    Some(found)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_becomes_resources_with_subresources() {
        let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "g.example/v1", "resources": [
            {"name": "zebras", "singularName": "zebra", "namespaced": false, "kind": "Zebra", "verbs": ["get"]},
            {"name": "apes", "singularName": "ape", "namespaced": true, "kind": "Ape", "verbs": ["get", "list"],
             "shortNames": ["ap"], "categories": ["all"], "unknown": 1},
            {"name": "apes/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
             "kind": "Scale", "verbs": ["update"]},
            {"name": "apes/status", "singularName": "", "namespaced": true, "kind": "Ape", "verbs": ["get", 7]},
        ]});
        let own = |kind: &str| json!({"group": "g.example", "version": "v1", "kind": kind});
        let want = json!([
            {"resource": "apes", "responseKind": own("Ape"), "scope": "Namespaced", "singularResource": "ape",
             "verbs": ["get", "list"], "shortNames": ["ap"], "categories": ["all"], "subresources": [
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": ["update"]},
                {"subresource": "status", "responseKind": own("Ape"), "verbs": ["get"]}]},
            {"resource": "zebras", "responseKind": own("Zebra"), "scope": "Cluster", "singularResource": "zebra",
             "verbs": ["get"]},
        ]);
        assert_eq!(resources(&list).map(Value::from), Some(want));
        assert_eq!(resources(&json!({"kind": "Status"})), None);
        assert_eq!(resources(&json!({"kind": "APIResourceList", "resources": "x"})), Some(vec![]));
    }

    #[test]
    fn number_of_resources_is_limited() {
        let one = |n: usize| json!({"name": format!("r{n}"), "kind": "R", "verbs": []});
        let list = json!({"kind": "APIResourceList", "resources": (0..5_000).map(one).collect::<Vec<_>>()});
        assert_eq!(resources(&list).map(|found| found.len()), Some(MOST));
    }
}
