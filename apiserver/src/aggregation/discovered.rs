//! The resources of another server in the form of aggregated discovery. Pure.
//!
//! Whatever the other server sends, the result has at most the size of its document and a constant for each resource.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

/// Maximum number of resources and subresources of a version, together. Kubernetes has fewer than 100 in a version.
const RESOURCES_MAX: usize = 1_000;
/// Maximum number of verbs, short names or categories of a resource.
const TEXTS_MAX: usize = 100;
/// Maximum length of a name, bytes: a resource, a slash and a subresource.
const TEXT_MAX: usize = 2 * 253 + 1;

/// The fields of an `APIResourceList` that discovery shows.
#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    kind: Text,
    #[serde(default, deserialize_with = "at_most::<_, _, RESOURCES_MAX>")]
    resources: Vec<ListedResource>,
}

/// A resource or a subresource.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedResource {
    name: Text,
    singular_name: Text,
    namespaced: bool,
    group: Text,
    version: Text,
    kind: Text,
    #[serde(deserialize_with = "at_most::<_, _, TEXTS_MAX>")]
    verbs: Vec<Text>,
    #[serde(deserialize_with = "at_most::<_, _, TEXTS_MAX>")]
    short_names: Vec<Text>,
    #[serde(deserialize_with = "at_most::<_, _, TEXTS_MAX>")]
    categories: Vec<Text>,
}

/// A text of limited length; empty if it is null.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        match text.len() <= TEXT_MAX {
            true => Ok(Text(text)),
            false => Err(D::Error::custom(format!("a text has more than {TEXT_MAX} bytes"))),
        }
    }
}

/// Reads an array of at most `MAX` items, or null. A longer array is refused before the rest of it is read.
fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Items<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "an array of at most {MAX} items")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut read = Vec::new();
            while let Some(item) = items.next_element()? {
                if read.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                read.push(item);
            }
            Ok(read)
        }
    }
    deserializer.deserialize_any(Items::<T, MAX>(PhantomData))
}

/// The resources of the `APIResourceList` of a version, with their subresources, sorted by name. Of several resources with the same
/// name, the first is used. `None` if the document is no such list, or exceeds a limit.
///
/// Upstream: apiserver `pkg/endpoints/discovery` (ConvertGroupVersionIntoToDiscovery).
pub(super) fn resources(document: &[u8], group: &str, version: &str) -> Option<Vec<Value>> {
    let list: ResourceList = serde_json::from_slice(document).ok()?;
    if list.kind.0 != "APIResourceList" {
        return None;
    }
    let mut found: BTreeMap<String, (Map<String, Value>, Vec<Value>)> = BTreeMap::new();
    let (subresources, resources): (Vec<_>, Vec<_>) =
        list.resources.into_iter().partition(|listed| listed.name.0.contains('/'));
    for listed in resources {
        let name = listed.name.0.clone();
        found.entry(name).or_insert_with(|| (listed.resource(group, version), Vec::new()));
    }
    for listed in subresources {
        if let Some((name, subresource)) = listed.name.0.split_once('/')
            && let Some((_, of_resource)) = found.get_mut(name)
        {
            let kind = listed.response_kind(group, version);
            of_resource.push(json!({
                "subresource": subresource, "responseKind": kind, "verbs": texts(&listed.verbs),
            }));
        }
    }
    let with_subresources = |(mut resource, subresources): (Map<String, Value>, Vec<Value>)| {
        if !subresources.is_empty() {
            resource.insert("subresources".to_owned(), subresources.into());
        }
        Value::from(resource)
    };
    Some(found.into_values().map(with_subresources).collect())
}

impl ListedResource {
    /// The resource without its subresources.
    fn resource(self, group: &str, version: &str) -> Map<String, Value> {
        let mut entry = Map::new();
        entry.insert("responseKind".to_owned(), self.response_kind(group, version));
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        entry.insert("scope".to_owned(), scope.into());
        entry.insert("verbs".to_owned(), texts(&self.verbs));
        for (name, listed) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !listed.is_empty() {
                entry.insert(name.to_owned(), texts(listed));
            }
        }
        entry.insert("resource".to_owned(), self.name.0.into());
        entry.insert("singularResource".to_owned(), self.singular_name.0.into());
        entry
    }

    /// The kind of the objects, by default one of the requested version.
    fn response_kind(&self, group: &str, version: &str) -> Value {
        let or = |listed: &Text, requested: &str| match listed.0.as_str() {
            "" => requested.to_owned(),
            listed => listed.to_owned(),
        };
        json!({"group": or(&self.group, group), "version": or(&self.version, version), "kind": self.kind.0})
    }
}

fn texts(listed: &[Text]) -> Value {
    listed.iter().map(|text| text.0.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &Value) -> Option<Vec<Value>> {
        resources(list.to_string().as_bytes(), "g.example", "v1")
    }

    fn list(resources: Value) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "other/v2", "resources": resources})
    }

    #[test]
    fn list_becomes_resources_with_subresources() {
        let list = list(json!([
            {"name": "apes/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
             "kind": "Scale", "verbs": ["update"]},
            {"name": "zebras", "singularName": "zebra", "namespaced": false, "kind": "Zebra", "verbs": ["get"],
             "shortNames": null},
            {"name": "apes", "singularName": "ape", "namespaced": true, "kind": "Ape", "verbs": ["get", "list"],
             "shortNames": ["ap"], "categories": ["all"], "unknown": 1},
            {"name": "apes/status", "singularName": null, "namespaced": true, "kind": "Ape", "verbs": ["get"]},
            {"name": "apes", "kind": "Second", "verbs": []},
            {"name": "lions/status", "kind": "Lion", "verbs": ["get"]},
        ]));
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
        assert_eq!(of(&list).map(Value::from), Some(want));
    }

    #[test]
    fn other_documents_and_those_beyond_a_limit_are_refused() {
        let numbered =
            |count: usize| -> Value { (0..count).map(|n| json!({"name": format!("r{n}")})).collect() };
        let one = |name: &str, value: Value| list(json!([{ "name": "r", name: value }]));
        for (case, document, want) in [
            ("1 another kind", json!({"kind": "Status"}), None),
            ("2 no resources", json!({"kind": "APIResourceList", "resources": null}), Some(0)),
            ("3 resources of another type", list(json!("x")), None),
            ("4 a verb of another type", one("verbs", json!(["get", 7])), None),
            ("5 the most resources", list(numbered(RESOURCES_MAX)), Some(RESOURCES_MAX)),
            ("6 one more", list(numbered(RESOURCES_MAX + 1)), None),
            ("7 the most verbs", one("verbs", vec!["get"; TEXTS_MAX].into()), Some(1)),
            ("8 one more", one("verbs", vec!["get"; TEXTS_MAX + 1].into()), None),
            ("9 the longest name", one("kind", "k".repeat(TEXT_MAX).into()), Some(1)),
            ("10 one longer", one("kind", "k".repeat(TEXT_MAX + 1).into()), None),
            ("11 not an object", json!([1, 2]), None),
        ] {
            assert_eq!(of(&document).map(|found| found.len()), want, "{case}");
        }
    }

    #[test]
    fn result_is_no_multiple_of_the_document() {
        const DOCUMENT_MAX: usize = 512 << 10;
        /// The names of the fields, and the requested group and version.
        const FOR_EACH: usize = 200;
        let same_name = |count: usize| {
            let resources = (0..count).map(|_| json!({"name": "r"}));
            let subresources = (0..count).map(|n| json!({"name": format!("r/{n}"), "verbs": ["get"]}));
            list(resources.chain(subresources).collect())
        };
        let long = |count: usize| {
            let text = "n".repeat(400);
            let listed = json!({"name": "r/s", "group": text, "verbs": [text]});
            let mut resources = vec![listed; count];
            resources.push(json!({"name": "r"}));
            list(resources.into())
        };
        for (case, document, want) in [
            ("1 the same name", same_name(RESOURCES_MAX / 2), true),
            ("2 long names", long(500), true),
            ("3 the same name, as often as the document permits", same_name(9_000), false),
            (
                "4 long group",
                {
                    let mut list = same_name(RESOURCES_MAX / 2);
                    list["groupVersion"] = "g".repeat(DOCUMENT_MAX / 2).into();
                    list
                },
                true,
            ),
        ] {
            let size = document.to_string().len();
            assert!(size <= DOCUMENT_MAX, "{case}: {size}");
            let found = of(&document);
            assert_eq!(found.is_some(), want, "{case}");
            let found = Value::from(found.unwrap_or_default()).to_string().len();
            assert!(found <= size + RESOURCES_MAX * FOR_EACH, "{case}: {size} bytes became {found}");
        }
    }
}
