//! `Priority`: a pod's priority class becomes a number (upstream: plugin/pkg/admission/priority).
//!
//! Classes of users are not stored: there are the two that are built in, and none.

use serde_json::Value;

use super::chain::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::object::Object;
use crate::status::ApiError;

/// The built-in classes.
const CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
/// Priority of a pod that names no class.
const NO_CLASS: i64 = 0;
/// What every class that there is says about preemption.
const POLICY: &str = "PreemptLowerPriority";

pub(super) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        if !request.is("", "pods") {
            return Ok(());
        }
        match request.operation {
            Operation::Create => resolve(request),
            Operation::Update => {
                keep(request);
                Ok(())
            }
            Operation::Delete => Ok(()),
        }
    }
}

/// A client that does not know the fields that were filled in leaves them out of its update;
/// validation would take that for a change.
fn keep(request: &mut Request<'_>) {
    let (Some(pod), Some(old)) = (request.object.as_deref_mut(), request.old) else { return };
    for path in [["spec", "priority"], ["spec", "preemptionPolicy"]] {
        if let Some(value) = old.at(&path) {
            pod.set_default(&path, value.clone());
        }
    }
}

fn resolve(request: &mut Request<'_>) -> Result<(), ApiError> {
    let Some(pod) = request.object.as_deref() else { return Ok(()) };
    let priority = priority_of(pod).map_err(|why| request.refuse(&why))?;
    if let Some(pod) = request.object.as_deref_mut() {
        pod.set(&["spec", "priority"], priority);
        pod.set(&["spec", "preemptionPolicy"], POLICY);
    }
    Ok(())
}

/// The pod's priority, or why it is refused.
fn priority_of(pod: &Object) -> Result<i64, String> {
    let class = pod.str_at(&["spec", "priorityClassName"]);
    let priority = match CLASSES.iter().find(|(name, _)| *name == class) {
        Some((_, priority)) => *priority,
        None if class.is_empty() => NO_CLASS,
        None => return Err(format!("no PriorityClass with name {class} was found")),
    };
    if let Some(given) =
        pod.at(&["spec", "priority"]).and_then(Value::as_i64).filter(|given| *given != priority)
    {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
             controller computed {priority} from the given PriorityClass name"
        ));
    }
    let policy = pod.str_at(&["spec", "preemptionPolicy"]);
    if !policy.is_empty() && policy != POLICY {
        return Err(format!(
            "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority \
             admission controller computed {POLICY} from the given PriorityClass name"
        ));
    }
    Ok(priority)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{Facts, Write};

    #[test]
    fn creates() {
        for (case, spec, want) in [
            ("1 no class", json!({}), Ok(0)),
            (
                "2 cluster critical",
                json!({"priorityClassName": "system-cluster-critical"}),
                Ok(2_000_000_000),
            ),
            ("3 node critical", json!({"priorityClassName": "system-node-critical"}), Ok(2_000_001_000)),
            (
                "4 unknown class",
                json!({"priorityClassName": "nosuch"}),
                Err("pods \"p\" is forbidden: no PriorityClass with name nosuch was found"),
            ),
            ("5 the same number", json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}), Ok(0)),
            (
                "6 another number",
                json!({"priority": 5}),
                Err(
                    "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
                ),
            ),
            (
                "7 another policy",
                json!({"preemptionPolicy": "Never"}),
                Err(
                    "pods \"p\" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
                ),
            ),
        ] {
            let mut write = Write::create("pods", json!({"metadata": {"name": "p"}, "spec": spec}));
            match (write.mutate(&Priority, &Facts::none()), want) {
                (Ok(pod), Ok(priority)) => {
                    assert_eq!(pod["spec"]["priority"], json!(priority), "{case}");
                    assert_eq!(pod["spec"]["preemptionPolicy"], json!(POLICY), "{case}");
                }
                (Err(error), Err(message)) => {
                    assert_eq!((error.code, error.message.as_str()), (403, message), "{case}");
                }
                (got, want) => panic!("{case}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn updates_keep_what_was_filled_in() {
        let old = json!({"metadata": {"name": "p"}, "spec": {"priority": 7, "preemptionPolicy": "Never"}});
        let new = json!({"metadata": {"name": "p"}, "spec": {"preemptionPolicy": "PreemptLowerPriority"}});
        let got = Write::update("pods", old, new).mutate(&Priority, &Facts::none()).expect("never refuses");
        assert_eq!(got["spec"], json!({"priority": 7, "preemptionPolicy": "PreemptLowerPriority"}));
    }

    #[test]
    fn a_generated_name_shows_as_its_prefix() {
        let pod = json!({"metadata": {"generateName": "web-"}, "spec": {"priorityClassName": "x"}});
        let error = Write::create("pods", pod).mutate(&Priority, &Facts::none()).expect_err("unknown class");
        assert_eq!(error.message, "pods \"web-\" is forbidden: no PriorityClass with name x was found");
    }
}
