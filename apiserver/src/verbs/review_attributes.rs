//! The request that an access review asks about.
//!
//! Upstream: pkg/registry/authorization/util/helpers.go.

use serde_json::Value;

use orlop_api::object::Object;
use orlop_apimachinery::{fields, labels};
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget, required_fields};

/// The request, and what of its selectors the decision ignores.
pub(super) fn attributes(question: &Object) -> (RequestInfo, Vec<&'static str>) {
    if let Some(Value::Object(_)) = question.at(&["spec", "nonResourceAttributes"]) {
        let text = |name: &str| question.str_at(&["spec", "nonResourceAttributes", name]).to_owned();
        let asked = RequestInfo { verb: text("verb").into(), target: RequestTarget::Path(text("path")) };
        return (asked, Vec::new());
    }
    let text = |name: &str| question.str_at(&["spec", "resourceAttributes", name]).to_owned();
    let selector = |name: &str| question.at(&["spec", "resourceAttributes", name]);
    let (required_fields, fields) = selected_fields(selector("fieldSelector"));
    let target = ResourceTarget {
        group: text("group"),
        version: text("version"),
        namespace: text("namespace"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        required_fields,
    };
    let asked = RequestInfo { verb: text("verb").into(), target: RequestTarget::Resource(target) };
    (asked, fields.into_iter().chain(ignored_labels(selector("labelSelector"))).collect())
}

fn raw(selector: &Value) -> &str {
    selector["rawSelector"].as_str().unwrap_or_default()
}

/// The fields that a selector requires. Only requirements with the operator `In` or `NotIn` and one value are supported.
fn selected_fields(selector: Option<&Value>) -> (Vec<(String, String)>, Option<&'static str>) {
    const ALL: &str = "spec.resourceAttributes.fieldSelector ignored due to parse error";
    const PART: &str = "spec.resourceAttributes.fieldSelector partially ignored due to parse error";
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return (Vec::new(), None) };
    let Some(requirements) = selector["requirements"].as_array().filter(|list| !list.is_empty()) else {
        return match fields::Selector::parse(raw(selector)) {
            Ok(selector) => (required_fields(&selector), None),
            Err(_) => (Vec::new(), Some(ALL)),
        };
    };
    let mut required = Vec::new();
    let mut supported = 0;
    for requirement in requirements {
        let key = requirement["key"].as_str().unwrap_or_default();
        let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
        match (requirement["operator"].as_str(), values) {
            (Some("In"), [value]) => {
                supported += 1;
                required.push((key.to_owned(), value.as_str().unwrap_or_default().to_owned()));
            }
            (Some("NotIn"), [_]) => supported += 1,
            _ => {}
        }
    }
    let ignored = match supported {
        0 => Some(ALL),
        count if count < requirements.len() => Some(PART),
        _ => None,
    };
    (required, ignored)
}

/// What of a label selector cannot be parsed. Authorizers do not use the labels.
fn ignored_labels(selector: Option<&Value>) -> Option<&'static str> {
    const ALL: &str = "spec.resourceAttributes.labelSelector ignored due to parse error";
    const PART: &str = "spec.resourceAttributes.labelSelector partially ignored due to parse error";
    let selector = selector.filter(|selector| selector.is_object())?;
    let Some(requirements) = selector["requirements"].as_array().filter(|list| !list.is_empty()) else {
        return labels::Selector::parse(raw(selector)).is_err().then_some(ALL);
    };
    let is_known = |requirement: &&Value| {
        matches!(requirement["operator"].as_str(), Some("In" | "NotIn" | "Exists" | "DoesNotExist"))
    };
    match requirements.iter().filter(is_known).count() {
        0 => Some(ALL),
        count if count < requirements.len() => Some(PART),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_selectors_become_required_fields() {
        let one = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let all = "spec.resourceAttributes.fieldSelector ignored due to parse error";
        let part = "spec.resourceAttributes.fieldSelector partially ignored due to parse error";
        for (selector, want, ignored) in [
            (Value::Null, &[][..], None),
            (json!({"rawSelector": "spec.nodeName=n,a!=b"}), &["spec.nodeName=n"], None),
            (json!({"rawSelector": "a"}), &[], Some(all)),
            (json!({"requirements": [one("a", "In", &["b"]), one("c", "NotIn", &["d"])]}), &["a=b"], None),
            (json!({"requirements": [one("a", "In", &["b", "c"])]}), &[], Some(all)),
            (
                json!({"requirements": [one("a", "In", &["b"]), one("c", "Exists", &[])]}),
                &["a=b"],
                Some(part),
            ),
        ] {
            let spec = json!({"spec": {"resourceAttributes": {"fieldSelector": selector}}});
            let (asked, found) = attributes(&Object::from_value(spec));
            let RequestTarget::Resource(target) = asked.target else { panic!("a resource") };
            let fields: Vec<String> =
                target.required_fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
            assert_eq!(
                (fields.as_slice(), found.first().copied()),
                (&want.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>()[..], ignored),
                "{selector}"
            );
        }
    }

    #[test]
    fn wrong_label_selectors_are_reported() {
        let all = "spec.resourceAttributes.labelSelector ignored due to parse error";
        let part = "spec.resourceAttributes.labelSelector partially ignored due to parse error";
        for (selector, want) in [
            (json!({"rawSelector": "a in (b)"}), None),
            (json!({"rawSelector": "a in"}), Some(all)),
            (json!({"requirements": [{"key": "a", "operator": "Exists"}]}), None),
            (json!({"requirements": [{"key": "a", "operator": "Is"}]}), Some(all)),
            (
                json!({"requirements": [{"key": "a", "operator": "Is"}, {"key": "a", "operator": "Exists"}]}),
                Some(part),
            ),
        ] {
            let spec = json!({"spec": {"resourceAttributes": {"labelSelector": selector}}});
            assert_eq!(attributes(&Object::from_value(spec)).1.first().copied(), want, "{selector}");
        }
    }
}
