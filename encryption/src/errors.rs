//! Joins errors in upstream's form.

use std::collections::HashSet;

use orlop_store::TransformError;

/// Joins the errors of the providers that could not decrypt a value. The result is temporary if any of them may succeed later.
pub(crate) fn aggregate_failures(errors: &[TransformError]) -> Option<TransformError> {
    let text = aggregate(errors.iter().map(TransformError::to_string).collect())?;
    let is_temporary = errors.iter().any(TransformError::is_temporary);
    Some(if is_temporary { TransformError::temporary(text) } else { text.into() })
}

/// Joins errors; equal ones only once. `None` if there are none.
pub(crate) fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_temporary_failure_makes_the_result_temporary() {
        let (never, now) = (TransformError::from("no key"), TransformError::temporary("no plugin"));
        for (errors, want) in [
            (vec![], None),
            (vec![never.clone(), never.clone()], Some(never.clone())),
            (vec![now.clone()], Some(now.clone())),
            (vec![never, now], Some(TransformError::temporary("[no key, no plugin]"))),
        ] {
            assert_eq!(aggregate_failures(&errors), want, "{errors:?}");
        }
    }
}
