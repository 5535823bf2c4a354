//! `Priority`: resolves the priority class of a pod to a number, and allows one default class only
//! (upstream: plugin/pkg/admission/priority).

use serde_json::Value;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry::priority_class::{self, PREEMPT, is_default, value_of};
use crate::registry::{self, Kind};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Priority of a pod if there is no default class.
const NO_CLASS: i64 = 0;

pub(super) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if !request.is("", "pods") {
            return Ok(());
        }
        match request.operation {
            Operation::Create => resolve(request, lookup),
            Operation::Update => {
                keep(request);
                Ok(())
            }
            Operation::Delete => Ok(()),
        }
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation == Operation::Delete || !request.is(GROUP, PLURAL) {
            return Ok(());
        }
        let (Some(class), Some(kind)) = (request.object.as_deref(), classes()) else { return Ok(()) };
        if !is_default(class) {
            return Ok(());
        }
        match default_of(lookup.list(kind, None)) {
            Some(other) if other.name() != class.name() || request.operation == Operation::Create => {
                Err(request.refuse(&format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    other.name()
                )))
            }
            Some(_) | None => Ok(()),
        }
    }
}

const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";

fn classes() -> Option<&'static dyn Kind> {
    registry::by_resource(GROUP, "v1", PLURAL)
}

/// The default class. Keeps one class at a time, because there may be many large ones.
fn default_of(classes: impl Iterator<Item = Object>) -> Option<Object> {
    classes.fold(None, |found, class| priority_class::default_of(found.into_iter().chain([class]).collect()))
}

/// A client that does not know these fields omits them from its update, which validation would reject as a change.
fn keep(request: &mut Request<'_>) {
    let (Some(pod), Some(old)) = (request.object.as_deref_mut(), request.old) else { return };
    for path in [["spec", "priority"], ["spec", "preemptionPolicy"]] {
        if let Some(value) = old.at(&path) {
            pod.set_default(&path, value.clone());
        }
    }
}

fn resolve(request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let Some(pod) = request.object.as_deref() else { return Ok(()) };
    let class = class_of(pod, lookup).map_err(|why| request.refuse(&why))?;
    let priority = class.as_ref().map_or(NO_CLASS, value_of);
    let policy = class.as_ref().map_or("", |class| class.str_at(&["preemptionPolicy"]));
    let policy = if policy.is_empty() { PREEMPT } else { policy };
    check(pod, priority, policy).map_err(|why| request.refuse(&why))?;
    if let Some(pod) = request.object.as_deref_mut() {
        if let Some(class) = &class {
            pod.set(&["spec", "priorityClassName"], class.name());
        }
        pod.set(&["spec", "priority"], priority);
        pod.set(&["spec", "preemptionPolicy"], policy);
    }
    Ok(())
}

/// The class that the pod names, or the default class, if any.
fn class_of(pod: &Object, lookup: &dyn Lookup) -> Result<Option<Object>, String> {
    let Some(kind) = classes() else { return Ok(None) };
    match pod.str_at(&["spec", "priorityClassName"]) {
        "" => Ok(default_of(lookup.list(kind, None))),
        name => match lookup.get(kind, "", name) {
            Some(class) => Ok(Some(class)),
            None => Err(format!("no PriorityClass with name {name} was found")),
        },
    }
}

/// The fields of a pod must equal those of its class.
fn check(pod: &Object, priority: i64, policy: &str) -> Result<(), String> {
    if let Some(given) =
        pod.at(&["spec", "priority"]).and_then(Value::as_i64).filter(|given| *given != priority)
    {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
             controller computed {priority} from the given PriorityClass name"
        ));
    }
    let given = pod.str_at(&["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority \
             admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{Facts, Write};

    /// The system classes, and one of a user.
    fn facts(default: bool) -> Facts {
        let class = |name: &str, value: i64, policy: &str, default: bool| {
            let class = json!({
                "metadata": {"name": name}, "value": value, "preemptionPolicy": policy, "globalDefault": default,
            });
            ("priorityclasses", class)
        };
        Facts::new(&[
            class("system-cluster-critical", 2_000_000_000, PREEMPT, false),
            class("system-node-critical", 2_000_001_000, PREEMPT, false),
            class("mine", 7, "Never", default),
        ])
    }

    #[test]
    fn creates_resolve_the_class() {
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
            match (write.mutate(&Priority, &facts(false)), want) {
                (Ok(pod), Ok(priority)) => {
                    assert_eq!(pod["spec"]["priority"], json!(priority), "{case}");
                    assert_eq!(pod["spec"]["preemptionPolicy"], json!(PREEMPT), "{case}");
                }
                (Err(error), Err(message)) => {
                    assert_eq!((error.code, error.message.as_str()), (403, message), "{case}");
                }
                (got, want) => panic!("{case}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn user_classes_must_not_have_system_names() {
        let pod = |spec: Value| Write::create("pods", json!({"metadata": {"name": "p"}, "spec": spec}));
        let resolved = json!({"priorityClassName": "mine", "priority": 7, "preemptionPolicy": "Never"});
        let named = pod(json!({"priorityClassName": "mine"})).mutate(&Priority, &facts(false));
        assert_eq!(named.expect("a known class")["spec"], resolved);
        let unnamed = pod(json!({})).mutate(&Priority, &facts(true));
        assert_eq!(unnamed.expect("the default")["spec"], resolved, "the class for pods that name none");
        let other = pod(json!({"priorityClassName": "mine", "preemptionPolicy": PREEMPT}));
        let error = { other }.mutate(&Priority, &facts(false)).expect_err("another policy");
        assert!(error.message.contains("computed Never from"), "{}", error.message);
    }

    #[test]
    fn only_one_class_can_be_the_default() {
        let class = |name: &str| json!({"metadata": {"name": name}, "value": 1, "globalDefault": true});
        let taken = "priorityclasses.scheduling.k8s.io \"new\" is forbidden: PriorityClass mine is already marked \
                     as default. Only one default can exist";
        for (case, mut write, default, want) in [
            ("1 the first", Write::create("priorityclasses", class("new")), false, None),
            ("2 the second", Write::create("priorityclasses", class("new")), true, Some(taken)),
            ("3 itself", Write::update("priorityclasses", class("mine"), class("mine")), true, None),
            (
                "4 becomes the second",
                Write::update("priorityclasses", class("new"), class("new")),
                true,
                Some(taken),
            ),
            (
                "5 none",
                Write::create("priorityclasses", json!({"metadata": {"name": "new"}, "value": 1})),
                true,
                None,
            ),
        ] {
            let got = write.validate(&Priority, &facts(default));
            assert_eq!(got.as_ref().err().map(|error| error.message.as_str()), want, "{case}");
        }
    }

    #[test]
    fn updates_keep_the_resolved_fields() {
        let old = json!({"metadata": {"name": "p"}, "spec": {"priority": 7, "preemptionPolicy": "Never"}});
        let new = json!({"metadata": {"name": "p"}, "spec": {"preemptionPolicy": "PreemptLowerPriority"}});
        let got = Write::update("pods", old, new).mutate(&Priority, &Facts::none()).expect("never refuses");
        assert_eq!(got["spec"], json!({"priority": 7, "preemptionPolicy": "PreemptLowerPriority"}));
    }

    #[test]
    fn generated_name_is_reported_as_its_prefix() {
        let pod = json!({"metadata": {"generateName": "web-"}, "spec": {"priorityClassName": "x"}});
        let error = Write::create("pods", pod).mutate(&Priority, &Facts::none()).expect_err("unknown class");
        assert_eq!(error.message, "pods \"web-\" is forbidden: no PriorityClass with name x was found");
    }
}
