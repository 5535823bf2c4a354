//! Label selectors: `app in (web,db),tier!=front,!old`.
//!
//! Upstream: apimachinery `pkg/labels`, and `metav1.LabelSelector` in objects.

mod key_rule;
mod parse;

#[cfg(test)]
mod tests;

use std::fmt::{self, Display};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use self::key_rule::KeyRule;
use crate::{names, quoted};

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

/// One requirement of a [`Selector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted and without duplicates.
    values: Vec<String>,
}

/// How the value of a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `k in (a,b)`
    In,
    /// `k notin (a,b)`; also matches without the label.
    NotIn,
    /// `k=v`
    Equals,
    /// `k==v`
    DoubleEquals,
    /// `k!=v`; also matches without the label.
    NotEquals,
    /// `k`
    Exists,
    /// `!k`
    DoesNotExist,
    /// `k>5`, both integers
    GreaterThan,
    /// `k<5`, both integers
    LessThan,
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

impl Requirement {
    /// Creates a requirement.
    ///
    /// # Errors
    /// Returns upstream's error text for all its problems.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Requirement, String> {
        values.sort_unstable();
        values.dedup();
        let mut errors: Vec<String> = check_key("key", key).err().into_iter().collect();
        let mut wrong = |detail: &str| {
            let shown: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            errors.push(format!("values: Invalid value: [{}]: {detail}", shown.join(",")));
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                wrong("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                wrong("exact-match compatibility requires one single value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                wrong("values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    wrong("for 'Gt', 'Lt' operators, exactly one value is required");
                }
                for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
                    errors.push(format!(
                        "values[{i}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                        quoted(value)
                    ));
                }
            }
            Operator::In
            | Operator::NotIn
            | Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::Exists
            | Operator::DoesNotExist => {}
        }
        for (i, value) in values.iter().enumerate() {
            let texts = names::label_value(value);
            if !texts.is_empty() {
                let texts = texts.join("; ");
                errors.push(format!("values[{i}][{key}]: Invalid value: {}: {texts}", quoted(value)));
            }
        }
        match errors.as_slice() {
            [] => Ok(Requirement { key: key.to_owned(), operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The comparison operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values to compare with, sorted.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

/// Validates a label key; `path` is the prefix of the error.
fn check_key(path: &str, key: &str) -> Result<(), String> {
    let texts = names::qualified_name(key);
    if texts.is_empty() {
        return Ok(());
    }
    Err(format!("{path}: Invalid value: {}: {}", quoted(key), texts.join("; ")))
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

impl Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
