//! The names that the definitions use in each group, so that a definition is not compared with all others. Pure.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::custom::listed::Listed;
use orlop_api::object::Object;

/// Where a name is used: plural, singular and short names share one space, kinds and list kinds another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Space {
    Resources,
    Kinds,
}

/// A definition that uses a name. A bundled definition and a stored one may have the same name.
#[derive(Clone, PartialEq, Eq, Hash)]
struct User {
    definition: String,
    is_bundled: bool,
}

/// The accepted names of definitions.
#[derive(Default)]
pub(super) struct UsedNames(HashMap<String, HashMap<(Space, String), HashSet<User>>>);

impl UsedNames {
    pub(super) fn of(bundled: &[Object], stored: &[Listed]) -> Self {
        let mut used = UsedNames::default();
        bundled.iter().for_each(|definition| used.add(definition, true));
        stored.iter().for_each(|listed| used.add(&listed.head, false));
        used
    }

    fn add(&mut self, definition: &Object, is_bundled: bool) {
        let user = User { definition: definition.name().to_owned(), is_bundled };
        let group = self.0.entry(group(definition).to_owned()).or_default();
        for name in accepted(definition) {
            group.entry(name).or_default().insert(user.clone());
        }
    }

    /// Replaces the names of a stored definition.
    pub(super) fn replace(&mut self, before: &Object, after: &Object) {
        if let Some(group) = self.0.get_mut(group(before)) {
            let own = User { definition: before.name().to_owned(), is_bundled: false };
            for name in accepted(before) {
                if let Some(users) = group.get_mut(&name) {
                    users.remove(&own);
                }
            }
        }
        self.add(after, false);
    }

    /// A definition with the names of `definition` that other definitions use. A bundled definition of the same name is not another one.
    pub(super) fn by_others(&self, definition: &Object) -> Object {
        let names = self.0.get(group(definition));
        let is_used = |space: Space, name: &str| {
            let users = names.and_then(|names| names.get(&(space, name.to_owned())));
            // At most two of the users are the definition itself.
            users.into_iter().flatten().any(|user| user.definition != definition.name())
        };
        let wanted = definition.at(&["spec", "names"]);
        let used = |(space, name): &(Space, String)| is_used(*space, name);
        let (mut resources, mut kinds) = (Vec::new(), Vec::new());
        for (space, name) in wanted.into_iter().flat_map(names_in).filter(used) {
            match space {
                Space::Resources => resources.push(name),
                Space::Kinds => kinds.push(name),
            }
        }
        let mut kinds = kinds.into_iter();
        let names = json!({"shortNames": resources, "kind": kinds.next(), "listKind": kinds.next()});
        Object::from_value(json!({"spec": {"group": group(definition)}, "status": {"acceptedNames": names}}))
    }
}

fn group(definition: &Object) -> &str {
    definition.str_at(&["spec", "group"])
}

fn accepted(definition: &Object) -> impl Iterator<Item = (Space, String)> {
    definition.at(&["status", "acceptedNames"]).into_iter().flat_map(names_in)
}

fn names_in(names: &Value) -> impl Iterator<Item = (Space, String)> {
    let text = |name: &str| names[name].as_str().filter(|text| !text.is_empty());
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let resources = [text("plural"), text("singular")].into_iter().flatten().chain(short);
    let kinds = [text("kind"), text("listKind")].into_iter().flatten();
    let resources = resources.map(|name| (Space::Resources, name.to_owned()));
    resources.chain(kinds.map(|name| (Space::Kinds, name.to_owned())))
}
