//! All requirements of a selector for one key, merged so that a value is compared in the time of a few lookups.

use std::collections::BTreeSet;

use super::requirement::{Operator, Requirement};

/// The requirement on the label of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRule {
    /// The key of the label.
    pub(super) key: String,
    /// The label must be set.
    required: bool,
    /// The label must not be set.
    forbidden: bool,
    /// The values that every `In` lists; `None` without an `In`.
    allowed: Option<BTreeSet<String>>,
    /// The values that a `NotIn` lists.
    denied: BTreeSet<String>,
    /// The value must be an integer above this.
    above: Option<i64>,
    /// The value must be an integer below this.
    below: Option<i64>,
}

impl KeyRule {
    /// Merges requirements for the same key. There is at least one.
    pub(super) fn new(requirements: &[Requirement]) -> Self {
        let mut rule = KeyRule {
            key: requirements.first().map(|one| one.key.clone()).unwrap_or_default(),
            required: false,
            forbidden: false,
            allowed: None,
            denied: BTreeSet::new(),
            above: None,
            below: None,
        };
        for one in requirements {
            let bound = || one.values.first().and_then(|value| value.parse::<i64>().ok());
            match one.operator {
                Operator::In | Operator::Equals | Operator::DoubleEquals => {
                    rule.required = true;
                    let listed = |value: &String| one.values.binary_search(value).is_ok();
                    rule.allowed = Some(match rule.allowed.take() {
                        None => one.values.iter().cloned().collect(),
                        Some(allowed) => allowed.into_iter().filter(listed).collect(),
                    });
                }
                Operator::NotIn | Operator::NotEquals => rule.denied.extend(one.values.iter().cloned()),
                Operator::Exists => rule.required = true,
                Operator::DoesNotExist => rule.forbidden = true,
                Operator::GreaterThan => {
                    rule.required = true;
                    rule.above = rule.above.max(bound());
                }
                Operator::LessThan => {
                    rule.required = true;
                    rule.below = [rule.below, bound()].into_iter().flatten().min();
                }
            }
        }
        rule
    }

    /// Whether the selector does not match if the label is missing.
    pub(super) fn requires_label(&self) -> bool {
        self.required
    }

    /// Whether the label may have this value.
    pub(super) fn accepts(&self, value: &str) -> bool {
        if self.forbidden || self.denied.contains(value) {
            return false;
        }
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(value)) {
            return false;
        }
        if self.above.is_none() && self.below.is_none() {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else { return false };
        self.above.is_none_or(|bound| number > bound) && self.below.is_none_or(|bound| number < bound)
    }
}
