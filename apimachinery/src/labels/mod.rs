//! Label selectors: `app in (web,db),tier!=front,!old`.
//!
//! Upstream: apimachinery `pkg/labels`, and `metav1.LabelSelector` in objects.

mod key_rule;
mod parse;
mod requirement;

#[cfg(test)]
mod tests;

use std::fmt::{self, Display};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use self::key_rule::KeyRule;
pub use self::requirement::{Operator, Requirement};
use crate::quoted;

/// Requirements that must all match. The default selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    /// The requirements of each key, sorted by key.
    rules: Vec<KeyRule>,
    /// The number of keys that must be set.
    required: usize,
    /// Matches nothing, regardless of the requirements.
    nothing: bool,
}

impl Selector {
    /// Returns a selector that matches everything.
    pub fn everything() -> Self {
        Selector::default()
    }

    /// Returns a selector that matches nothing, the meaning of an absent `LabelSelector`.
    pub fn nothing() -> Self {
        Selector { nothing: true, ..Selector::default() }
    }

    /// Parses a selector; the empty string matches everything.
    ///
    /// # Errors
    /// Returns upstream's error text.
    pub fn parse(text: &str) -> Result<Selector, String> {
        parse::requirements(text).map(Selector::new)
    }

    /// Converts the `LabelSelector` of an object; an empty one matches everything.
    ///
    /// # Errors
    /// Returns upstream's error text for the first invalid requirement.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.clone()])?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", quoted(other))),
            };
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(Requirement::new(&expression.key, operator, values)?);
        }
        Ok(Selector::new(requirements))
    }

    fn new(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let rules: Vec<KeyRule> = requirements.chunk_by(|a, b| a.key == b.key).map(KeyRule::new).collect();
        let required = rules.iter().filter(|rule| rule.requires_label()).count();
        Selector { requirements, rules, required, nothing: false }
    }

    /// Returns whether labels match. The cost is that of looking up each label, however many requirements there are:
    /// a selector of 64 KiB has 9,000, and a list compares it with every object.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        if self.nothing {
            return false;
        }
        if self.rules.is_empty() {
            return true;
        }
        let mut found = 0;
        for (key, value) in labels {
            let Ok(at) = self.rules.binary_search_by(|rule| rule.key.as_str().cmp(key)) else { continue };
            let rule = &self.rules[at];
            if !rule.accepts(value) {
                return false;
            }
            found += usize::from(rule.requires_label());
        }
        found == self.required
    }

    /// Returns whether the selector matches everything.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}
