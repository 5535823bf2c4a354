//! Applies the success policy of an indexed Job. Pure functions.

use k8s_openapi::api::batch::v1::SuccessPolicy;

use super::indexes::Indexes;

/// The message about the first rule that the completed indexes satisfy.
pub fn met_rule(policy: Option<&SuccessPolicy>, limit: i64, completed: &Indexes) -> Option<String> {
    if completed.is_empty() {
        return None;
    }
    let met = policy?.rules.iter().position(|rule| {
        let has_enough = |done: i64| rule.succeeded_count.is_some_and(|count| done >= i64::from(count));
        match &rule.succeeded_indexes {
            Some(required) => {
                let required = Indexes::parse(required, limit);
                let done = required.common(completed);
                !required.is_empty() && (done == required.len() || has_enough(done))
            }
            None => has_enough(completed.len()),
        }
    })?;
    Some(format!("Matched rules at index {met}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn rules_require_indexes_or_a_number() {
        let table = [
            ("1 ctl-job-success-policy", json!([{"succeededIndexes": "1"}]), "1", Some(0)),
            ("2 another index", json!([{"succeededIndexes": "1"}]), "0,2", None),
            ("3 all of the indexes", json!([{"succeededIndexes": "0,2-4"}]), "0-3", None),
            (
                "4 enough of the indexes",
                json!([{"succeededIndexes": "0,2-4", "succeededCount": 2}]),
                "0-2",
                Some(0),
            ),
            ("5 a number", json!([{"succeededCount": 3}]), "1,3,5", Some(0)),
            ("6 not enough", json!([{"succeededCount": 3}]), "1,3", None),
            ("7 second rule", json!([{"succeededIndexes": "9"}, {"succeededCount": 1}]), "1", Some(1)),
            ("8 indexes out of range", json!([{"succeededIndexes": "10"}]), "1", None),
            ("9 nothing completed", json!([{"succeededCount": 0}]), "", None),
        ];
        for (name, rules, completed, wanted) in table {
            let policy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let met = met_rule(Some(&policy), 10, &Indexes::parse(completed, 10));
            assert_eq!(met, wanted.map(|at: usize| format!("Matched rules at index {at}")), "{name}");
        }
        assert_eq!(met_rule(None, 10, &Indexes::parse("1", 10)), None, "10 no policy");
    }
}
