//! One requirement of a selector: a key, an operator and values.

use std::fmt::{self, Display};

use crate::{names, quoted};

/// One requirement of a [`Selector`](super::Selector).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    /// Sorted and without duplicates.
    pub(super) values: Vec<String>,
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
pub(super) fn check_key(path: &str, key: &str) -> Result<(), String> {
    let texts = names::qualified_name(key);
    if texts.is_empty() {
        return Ok(());
    }
    Err(format!("{path}: Invalid value: {}: {}", quoted(key), texts.join("; ")))
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
