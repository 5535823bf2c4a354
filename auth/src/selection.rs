//! The requirements of the selectors of a list, watch or deletecollection, for authorizers.
//!
//! Upstream: apiserver `pkg/endpoints/filters/authorization.go`, authorization `resourceAttributesFrom` of the webhook authorizer.

use orlop_apimachinery::{fields, labels};
use serde_json::{Value, json};

/// How the value of a field or label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionOperator {
    /// The value is one of the given values.
    In,
    /// The value is none of the given values, or absent.
    NotIn,
    /// There is a value.
    Exists,
    /// There is no value.
    DoesNotExist,
}

impl SelectionOperator {
    /// The operator with this name in an access review.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];
        all.into_iter().find(|operator| operator.name() == name)
    }

    /// The name in an access review.
    pub fn name(self) -> &'static str {
        match self {
            SelectionOperator::In => "In",
            SelectionOperator::NotIn => "NotIn",
            SelectionOperator::Exists => "Exists",
            SelectionOperator::DoesNotExist => "DoesNotExist",
        }
    }
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionRequirement {
    /// The field or label.
    pub key: String,
    /// The comparison.
    pub operator: SelectionOperator,
    /// The values.
    pub values: Vec<String>,
}

/// The requirements of both selectors of a request. Empty ones require nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The requirements of the field selector.
    pub fields: Vec<SelectionRequirement>,
    /// The requirements of the label selector.
    pub labels: Vec<SelectionRequirement>,
}

impl Selection {
    /// The requirements of selectors. Upstream: a selector that cannot be parsed requires nothing.
    pub fn parse(fields: &str, labels: &str) -> Self {
        let fields = fields::Selector::parse(fields).map(|selector| of_fields(&selector));
        let labels = labels::Selector::parse(labels).map(|selector| of_labels(&selector));
        Selection { fields: fields.unwrap_or_default(), labels: labels.unwrap_or_default() }
    }

    /// Whether a field must have this value.
    pub fn requires_field(&self, field: &str, value: &str) -> bool {
        let is_it = |one: &SelectionRequirement| {
            one.operator == SelectionOperator::In && one.key == field && one.values == [value]
        };
        self.fields.iter().any(is_it)
    }

    /// About how many bytes of memory the requirements occupy.
    pub fn size(&self) -> usize {
        let texts = |one: &SelectionRequirement| {
            one.key.len() + one.values.iter().map(|value| value.len() + 24).sum::<usize>() + 48
        };
        self.fields.iter().chain(&self.labels).map(texts).sum()
    }
}

/// The requirements of a field selector.
pub fn of_fields(selector: &fields::Selector) -> Vec<SelectionRequirement> {
    let requirement = |term: &fields::Term| SelectionRequirement {
        key: term.field.clone(),
        operator: if term.equal { SelectionOperator::In } else { SelectionOperator::NotIn },
        values: vec![term.value.clone()],
    };
    selector.terms().iter().map(requirement).collect()
}

/// The requirements of a label selector, without the comparisons of numbers, which access reviews do not have.
pub fn of_labels(selector: &labels::Selector) -> Vec<SelectionRequirement> {
    use labels::Operator;
    let requirement = |one: &labels::Requirement| {
        let operator = match one.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => SelectionOperator::In,
            Operator::NotIn | Operator::NotEquals => SelectionOperator::NotIn,
            Operator::Exists => SelectionOperator::Exists,
            Operator::DoesNotExist => SelectionOperator::DoesNotExist,
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(SelectionRequirement { key: one.key().to_owned(), operator, values: one.values().to_vec() })
    };
    selector.requirements().iter().filter_map(requirement).collect()
}

/// The requirements as an access review contains them; `None` if there are none.
pub fn shown(requirements: &[SelectionRequirement]) -> Option<Value> {
    let one = |requirement: &SelectionRequirement| {
        let mut shown = json!({"key": requirement.key, "operator": requirement.operator.name()});
        if !requirement.values.is_empty() {
            shown["values"] = json!(requirement.values);
        }
        shown
    };
    let all: Vec<Value> = requirements.iter().map(one).collect();
    (!all.is_empty()).then(|| json!({ "requirements": all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_requirements() {
        let fields = fields::Selector::parse("spec.nodeName=n,status.phase!=Failed").expect("a selector");
        assert_eq!(
            shown(&of_fields(&fields)),
            Some(json!({"requirements": [
                {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
                {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]},
            ]}))
        );
        let labels = labels::Selector::parse("a in (x,y),b!=z,c,!d,e>5").expect("a selector");
        assert_eq!(
            shown(&of_labels(&labels)),
            Some(json!({"requirements": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "b", "operator": "NotIn", "values": ["z"]},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist"},
            ]}))
        );
        assert_eq!(shown(&[]), None);
        let parsed = Selection::parse("spec.nodeName=n", "a in");
        assert!(parsed.requires_field("spec.nodeName", "n") && parsed.labels.is_empty(), "{parsed:?}");
    }

    #[test]
    fn only_one_value_is_required() {
        let selection = |text: &str| Selection {
            fields: of_fields(&fields::Selector::parse(text).expect("a selector")),
            labels: Vec::new(),
        };
        assert!(selection("spec.nodeName=n").requires_field("spec.nodeName", "n"));
        assert!(!selection("spec.nodeName!=n").requires_field("spec.nodeName", "n"));
        assert!(!selection("spec.nodeName=m").requires_field("spec.nodeName", "n"));
        assert!(!Selection::default().requires_field("spec.nodeName", "n"));
    }
}
