//! The request that an access review asks about.
//!
//! Upstream: pkg/registry/authorization/util/helpers.go.

use serde_json::Value;

use orlop_api::object::Object;
use orlop_apimachinery::{fields, labels};
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_auth::selection::{self, Selection, SelectionOperator, SelectionRequirement};

/// The request, and what of its selectors the decision ignores.
pub(super) fn attributes(question: &Object) -> (RequestInfo, Vec<&'static str>) {
    if let Some(Value::Object(_)) = question.at(&["spec", "nonResourceAttributes"]) {
        let text = |name: &str| question.str_at(&["spec", "nonResourceAttributes", name]).to_owned();
        let asked = RequestInfo { verb: text("verb").into(), target: RequestTarget::Path(text("path")) };
        return (asked, Vec::new());
    }
    let text = |name: &str| question.str_at(&["spec", "resourceAttributes", name]).to_owned();
    let selector = |name: &str| question.at(&["spec", "resourceAttributes", name]);
    let (fields, wrong_fields) = selected_fields(selector("fieldSelector"));
    let (labels, wrong_labels) = selected_labels(selector("labelSelector"));
    let target = ResourceTarget {
        group: text("group"),
        version: text("version"),
        namespace: text("namespace"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        selection: Selection { fields, labels },
    };
    let asked = RequestInfo { verb: text("verb").into(), target: RequestTarget::Resource(target) };
    (asked, wrong_fields.into_iter().chain(wrong_labels).collect())
}

/// Maximum size of the text of a selector, bytes: that of a URL, which has it in the request that the review asks about.
const RAW_SELECTOR_MAX: usize = 64 << 10;

/// The text of a selector; `None` if it is too long to be parsed.
fn raw(selector: &Value) -> Option<&str> {
    let text = selector["rawSelector"].as_str().unwrap_or_default();
    (text.len() <= RAW_SELECTOR_MAX).then_some(text)
}

/// The requirements of a field selector. Only those with the operator `In` or `NotIn` and one value are supported.
fn selected_fields(selector: Option<&Value>) -> (Vec<SelectionRequirement>, Option<&'static str>) {
    const ALL: &str = "spec.resourceAttributes.fieldSelector ignored due to parse error";
    const PART: &str = "spec.resourceAttributes.fieldSelector partially ignored due to parse error";
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return (Vec::new(), None) };
    let Some(requirements) = listed(selector) else {
        return match raw(selector).map(fields::Selector::parse) {
            Some(Ok(selector)) => (selection::of_fields(&selector), None),
            Some(Err(_)) | None => (Vec::new(), Some(ALL)),
        };
    };
    let is_supported = |one: &SelectionRequirement| {
        matches!(one.operator, SelectionOperator::In | SelectionOperator::NotIn) && one.values.len() == 1
    };
    let supported: Vec<_> = requirements.iter().filter_map(requirement).filter(is_supported).collect();
    let ignored = ignored(supported.len(), requirements.len(), ALL, PART);
    (supported, ignored)
}

/// The requirements of a label selector.
fn selected_labels(selector: Option<&Value>) -> (Vec<SelectionRequirement>, Option<&'static str>) {
    const ALL: &str = "spec.resourceAttributes.labelSelector ignored due to parse error";
    const PART: &str = "spec.resourceAttributes.labelSelector partially ignored due to parse error";
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return (Vec::new(), None) };
    let Some(requirements) = listed(selector) else {
        return match raw(selector).map(labels::Selector::parse) {
            Some(Ok(selector)) => (selection::of_labels(&selector), None),
            Some(Err(_)) | None => (Vec::new(), Some(ALL)),
        };
    };
    let known: Vec<_> = requirements.iter().filter_map(requirement).collect();
    let ignored = ignored(known.len(), requirements.len(), ALL, PART);
    (known, ignored)
}

/// The requirements of a selector in the review, if it lists them instead of a text.
fn listed(selector: &Value) -> Option<&[Value]> {
    selector["requirements"].as_array().map(Vec::as_slice).filter(|list| !list.is_empty())
}

/// A requirement in the review; `None` if its operator is unknown.
fn requirement(shown: &Value) -> Option<SelectionRequirement> {
    let values = shown["values"].as_array().into_iter().flatten();
    Some(SelectionRequirement {
        key: shown["key"].as_str().unwrap_or_default().to_owned(),
        operator: SelectionOperator::named(shown["operator"].as_str()?)?,
        values: values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect(),
    })
}

fn ignored(known: usize, all: usize, none: &'static str, part: &'static str) -> Option<&'static str> {
    match known {
        0 => Some(none),
        count if count < all => Some(part),
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
            let equal = target.selection.fields.iter().filter(|one| one.operator == SelectionOperator::In);
            let fields: Vec<String> = equal.map(|one| format!("{}={}", one.key, one.values[0])).collect();
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
            (json!({"rawSelector": vec!["a"; 30_000].join(",")}), None),
            // Longer than a URL.
            (json!({"rawSelector": vec!["a"; 40_000].join(",")}), Some(all)),
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
