//! A bound on the number of values in a document. In memory a value takes more than its text: `{}` in a list of
//! containers is 3 bytes, about 700 in memory, and several thousand with its defaults.

use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::Value;

/// Maximum weight of a document. Objects that a client would write have about 20 bytes for each value, so a body of
/// 3 MiB weighs less than half of this.
pub(super) const MAX_WEIGHT: u64 = 500_000;
/// The weight of an object with members; that of any other value is 1.
pub(super) const OBJECT: usize = 8;

/// The remaining weight that the rest of a document may have.
#[derive(Debug)]
pub(super) struct ValueBudget(Steps);

impl ValueBudget {
    pub(super) fn new() -> Self {
        Self(Steps::new(MAX_WEIGHT))
    }

    /// Accounts for a value that is not an object.
    pub(super) fn value(&self) -> Result<(), String> {
        self.0.take(1).map_err(too_many)
    }

    /// Accounts for an object.
    pub(super) fn object(&self) -> Result<(), String> {
        self.0.take(OBJECT).map_err(too_many)
    }
}

/// Takes one step for each unit of the weight of a value.
///
/// # Errors
/// The value weighs more.
pub(crate) fn weigh(value: &Value, weight: &Steps) -> Result<(), OutOfSteps> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => weight.take(1),
        Value::Array(items) => {
            weight.take(1)?;
            items.iter().try_for_each(|item| weigh(item, weight))
        }
        Value::Object(members) => {
            weight.take(OBJECT)?;
            members.values().try_for_each(|member| weigh(member, weight))
        }
    }
}

fn too_many(OutOfSteps: OutOfSteps) -> String {
    format!(
        "the document has too many values: an object counts as {OBJECT}, any other value as 1, the limit is {MAX_WEIGHT}"
    )
}

/// Checks JSON text before it is parsed as a whole. Invalid text passes; its parser reports the error.
///
/// # Errors
/// The text has too many values.
pub(crate) fn check_json(text: &[u8]) -> Result<(), String> {
    let budget = ValueBudget::new();
    let mut in_string = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            // An empty object takes no memory of its own.
            b'{' if !in_string && bytes.as_slice().first() != Some(&b'}') => budget.object()?,
            b',' | b'[' | b'{' if !in_string => budget.value()?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_of_strings_are_counted() {
        let limit = usize::try_from(MAX_WEIGHT).expect("a small number");
        let list = |item: &str, count: usize| format!("[{}0]", item.repeat(count));
        for (case, text, fits) in [
            ("numbers", list("0,", limit - 1), true),
            ("more numbers", list("0,", limit), false),
            ("objects", list("{\"\":0},", limit / (OBJECT + 1) - 1), true),
            ("more objects", list("{\"\":0},", limit / OBJECT), false),
            ("empty objects", list("{},", limit / 2 - 1), true),
            ("text", format!("\"{}\"", ",{".repeat(limit)), true),
            ("text with quotes", format!("\"{}\"", "\\\",".repeat(limit)), true),
        ] {
            assert_eq!(check_json(text.as_bytes()).is_ok(), fits, "{case}");
        }
    }
}
