//! A capacity of a device, and the amounts that requests may consume of it.

use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::collection::{each_unique, items};
use crate::registry::workload::given;
use crate::validate::{FieldErrors, Path};

const MOST_VALUES: usize = 10;
const BOTH: &str =
    "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";

/// Validates a capacity. `is_shared` is set if several requests can share the device.
pub(super) fn validate_capacity(capacity: &Value, is_shared: bool, path: &Path, errors: &mut FieldErrors) {
    let Some(policy) = given(capacity, "requestPolicy") else { return };
    let path = path.child("requestPolicy");
    if !is_shared {
        return errors.forbidden(&path, "allowMultipleAllocations must be true");
    }
    let Some(total) = Amount::of(capacity, "value") else { return };
    let (values, range) = (items(policy, "validValues"), given(policy, "validRange"));
    let default = Amount::of(policy, "default");
    match (values.is_empty(), range, default) {
        (false, Some(_), _) => errors.forbidden(&path, BOTH),
        (false, None, None) => {
            errors.required(&path.child("default"), "required when validValues is defined");
        }
        (true, Some(_), None) => {
            errors.required(&path.child("default"), "required when validRange is defined");
        }
        (false, None, Some(default)) => {
            validate_values(values, &default, &total, &path.child("validValues"), errors);
        }
        (true, Some(range), Some(default)) => {
            validate_range(range, &default, &total, &path.child("validRange"), errors);
        }
        (true, None, _) => {}
    }
}

/// A quantity with its text.
struct Amount<'a> {
    text: &'a str,
    value: Quantity,
}

impl<'a> Amount<'a> {
    fn of(object: &'a Value, field: &str) -> Option<Self> {
        given(object, field).and_then(Self::parse)
    }

    /// `None` if the value is not a quantity; the decoder of the object rejects such values.
    fn parse(value: &'a Value) -> Option<Self> {
        let text = value.as_str()?;
        Some(Amount { text, value: Quantity::parse(text).ok()? })
    }
}

fn validate_values(
    values: &[Value],
    default: &Amount<'_>,
    total: &Amount<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let amounts: Vec<Amount<'_>> = values.iter().filter_map(Amount::parse).collect();
    for (at, pair) in amounts.windows(2).enumerate() {
        if pair[0].value > pair[1].value {
            errors.invalid(&path.index(at + 1), pair[1].text, "values must be sorted in ascending order");
        }
    }
    let number =
        |value: &Value| Amount::parse(value).map_or(0, |amount| amount.value.value()).to_string().into();
    each_unique(values, MOST_VALUES, number, path, errors, |value, path, errors| {
        if let Some(amount) = Amount::parse(value)
            && amount.value > total.value
        {
            let why = format!("option is larger than capacity value: {}", total.text);
            errors.invalid(path, amount.text, &why);
        }
    });
    if !amounts.iter().any(|amount| amount.value == default.value) {
        errors.invalid(path, default.text, "default value is not valid according to the requestPolicy");
    }
}

fn validate_range(
    range: &Value,
    default: &Amount<'_>,
    total: &Amount<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(min) = Amount::of(range, "min") else {
        return errors.required(&path.child("min"), "required when validRange is defined");
    };
    if min.value > total.value {
        let why = format!("min is larger than capacity value: {}", total.text);
        errors.invalid(&path.child("min"), min.text, &why);
    }
    if default.value < min.value {
        let why = format!("default is less than min: {}", min.text);
        errors.invalid(&path.child("default"), default.text, &why);
    }
    let max = Amount::of(range, "max");
    if let Some(max) = &max {
        if min.value > max.value {
            errors.invalid(&path.child("max"), min.text, &format!("min is larger than max: {}", max.text));
        }
        if max.value > total.value {
            let why = format!("max is larger than capacity value: {}", total.text);
            errors.invalid(&path.child("max"), max.text, &why);
        }
        if default.value > max.value {
            let why = format!("default is more than max: {}", max.text);
            errors.invalid(&path.child("default"), default.text, &why);
        }
    }
    let Some(step) = Amount::of(range, "step") else { return };
    let path = path.child("step");
    if step.value.is_zero() || step.value.is_negative() {
        return errors.invalid(&path, step.text, "must be greater than zero");
    }
    let first = min.value.plus(&step.value);
    if first > total.value {
        let why = format!("one step {first} is larger than capacity value: {}", total.text);
        errors.invalid(&path, step.text, &why);
    }
    for amount in [Some(default), max.as_ref()].into_iter().flatten() {
        let distance = i128::from(amount.value.value()) - i128::from(min.value.value());
        if distance % i128::from(step.value.value().max(1)) != 0 {
            let why = format!("value is not a multiple of a given step ({}) from ({})", step.text, min.text);
            errors.invalid(&path, amount.text, &why);
        }
    }
}
