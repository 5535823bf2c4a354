//! Accepts the names of a definition, and sets its conditions `NamesAccepted`, `Established` and
//! `KubernetesAPIApprovalPolicyConformant`.
//!
//! Upstream: apiextensions-apiserver `pkg/controller/{status,establish,apiapproval}`.

use std::collections::HashSet;

use orlop_api::object::Object;
use serde_json::Value;

use crate::definition::{APPROVED, is_established, is_protected, set_condition};

/// Checks the names of a definition for conflicts with `others`, and decides whether its kind is served.
pub fn accept(object: &mut Object, others: &[&Object], now: &Value) {
    let group = object.str_at(&["spec", "group"]).to_owned();
    let names = object.at(&["spec", "names"]).cloned().unwrap_or_default();
    let before = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    let taken = taken(&group, others);
    let mut accepted = before.as_object().cloned().unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    let mut note = |reason: &'static str, why: String| conflict = Some((reason, why));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    for (name, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let wanted = text(&names, name);
        if taken.resources.contains(&wanted) {
            note(reason, format!("{wanted:?} is already in use"));
        } else {
            accepted.insert(name.to_owned(), wanted.into());
        }
    }
    let list = |name: &str| -> Vec<String> {
        let list = names[name].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let short = list("shortNames");
    let used: Vec<String> = short
        .iter()
        .filter(|name| taken.resources.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    if used.is_empty() {
        put_list(&mut accepted, "shortNames", short);
    } else {
        note("ShortNamesConflict", shown(&used));
    }
    for (name, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let wanted = text(&names, name);
        if taken.kinds.contains(&wanted) {
            note(reason, format!("{wanted:?} is already in use"));
        } else {
            accepted.insert(name.to_owned(), wanted.into());
        }
    }
    put_list(&mut accepted, "categories", list("categories"));
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, why)) => ("False", *reason, why.clone()),
    };
    if before.as_object() != Some(&accepted) {
        object.set(&["status", "acceptedNames"], accepted);
    }
    set_condition(object, "NamesAccepted", status, reason, &message, now);
    if !is_established(object) {
        match conflict {
            // The CRD controller serves the kind before it stores this condition.
            None => set_condition(
                object,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            ),
            Some(_) => set_condition(
                object,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                now,
            ),
        }
    }
    approve(object, &group, now);
}

fn put_list(accepted: &mut serde_json::Map<String, Value>, name: &str, list: Vec<String>) {
    if list.is_empty() {
        accepted.remove(name);
    } else {
        accepted.insert(name.to_owned(), list.into());
    }
}

fn shown(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Sets the approval condition of a definition in one of Kubernetes' own groups.
fn approve(object: &mut Object, group: &str, now: &Value) {
    if !is_protected(group) {
        return;
    }
    let annotation = object.annotation(APPROVED).unwrap_or_default().to_owned();
    let (status, reason, message) = if annotation.is_empty() {
        let why = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        ("False", "MissingAnnotation", why)
    } else if annotation.starts_with("unapproved") {
        ("False", "UnapprovedAnnotation", format!("not approved: {annotation:?}"))
    } else {
        ("True", "ApprovedAnnotation", format!("approved in {annotation}"))
    };
    set_condition(object, "KubernetesAPIApprovalPolicyConformant", status, reason, &message, now);
}

#[derive(Default)]
struct Taken {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

/// Returns the names that other definitions use in a group.
fn taken(group: &str, others: &[&Object]) -> Taken {
    let mut taken = Taken::default();
    for other in others.iter().filter(|other| other.str_at(&["spec", "group"]) == group) {
        let Some(names) = other.at(&["status", "acceptedNames"]) else { continue };
        let text = |name: &str| names[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        taken.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        let short = names["shortNames"].as_array().into_iter().flatten();
        taken.resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
        taken.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
    taken
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::condition;

    fn definition(name: &str, names: Value) -> Object {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        let mut all = json!({"plural": plural, "singular": format!("{plural}1"), "kind": plural.to_uppercase(),
            "listKind": format!("{plural}List")});
        json_patch::merge(&mut all, &names);
        Object::from_value(json!({
            "metadata": {"name": name}, "spec": {"group": group, "names": all},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
        }))
    }

    fn conditions(object: &Object) -> Vec<String> {
        let all = object.at(&["status", "conditions"]).and_then(Value::as_array);
        let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        let show = |c: &Value| {
            format!("{}={} {} {}", text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"))
        };
        all.into_iter().flatten().map(show).collect()
    }

    #[test]
    fn names_in_use_are_not_accepted() {
        let now = json!("2026-01-02T03:04:05Z");
        let mut first = definition("as.example.com", json!({"shortNames": ["s"]}));
        accept(&mut first, &[], &now);
        let established = [
            "NamesAccepted=True NoConflicts no conflicts found",
            "Established=True InitialNamesAccepted the initial names have been accepted",
        ];
        assert_eq!(conditions(&first), established);
        let accepted = json!({"plural": "as", "singular": "as1", "kind": "AS", "listKind": "asList", "shortNames": ["s"]});
        assert_eq!(first.0["status"]["acceptedNames"], accepted);
        let before = first.clone();
        accept(&mut first, &[], &json!("later"));
        assert_eq!(first, before, "accepting again changes nothing");

        for (case, name, names, want) in [
            ("1 no conflict", "bs.example.com", json!({}), established.to_vec()),
            ("2 another group", "as.example.org", json!({}), established.to_vec()),
            (
                "3 short name",
                "bs.example.com",
                json!({"shortNames": ["s"]}),
                vec![
                    "NamesAccepted=False ShortNamesConflict \"s\" is already in use",
                    "Established=False NotAccepted not all names are accepted",
                ],
            ),
            (
                "4 kind",
                "bs.example.com",
                json!({"kind": "AS"}),
                vec![
                    "NamesAccepted=False KindConflict \"AS\" is already in use",
                    "Established=False NotAccepted not all names are accepted",
                ],
            ),
        ] {
            let mut other = definition(name, names);
            accept(&mut other, &[&first], &now);
            assert_eq!(conditions(&other), want, "{case}");
        }
    }

    #[test]
    fn established_kind_stays_established_despite_name_conflicts() {
        let now = json!("2026-01-02T03:04:05Z");
        let mut first = definition("as.example.com", json!({}));
        accept(&mut first, &[], &now);
        let other = {
            let mut other = definition("bs.example.com", json!({"shortNames": ["x"]}));
            accept(&mut other, &[], &now);
            other
        };
        first.set(&["spec", "names", "shortNames"], json!(["x"]));
        accept(&mut first, &[&other], &now);
        assert_eq!(condition(&first, "Established"), "True");
        assert_eq!(condition(&first, "NamesAccepted"), "False");
        assert_eq!(first.at(&["status", "acceptedNames", "shortNames"]), None);
    }
}
