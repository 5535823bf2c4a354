//! Applies the pod failure policy of a Job to a failed pod. Pure functions.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::ResourceExt;

/// The effect of a failed pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// It counts as a failure.
    Count,
    /// It does not count.
    Ignore,
    /// It counts, and its index has failed.
    FailIndex,
    /// It counts, and the Job fails with this message.
    FailJob(String),
}

/// The action of the first rule that matches the pod. Without one, the pod counts as a failure.
pub fn effect(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Effect {
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    for (at, rule) in rules.iter().enumerate() {
        let found = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(requirement), _) => exit_code(pod, requirement).map(|(container, code)| {
                format!("Container {container} for pod {} failed with exit code {code}", key(pod))
            }),
            (None, Some(patterns)) => condition_type(pod.status.as_ref(), patterns)
                .map(|condition| format!("Pod {} has condition {condition}", key(pod))),
            (None, None) => None,
        };
        let Some(found) = found else { continue };
        return match rule.action.as_str() {
            "Ignore" => Effect::Ignore,
            "FailIndex" => Effect::FailIndex,
            "FailJob" => Effect::FailJob(format!("{found} matching FailJob rule at index {at}")),
            "Count" => Effect::Count,
            // The server admits no other action.
            _ => continue,
        };
    }
    Effect::Count
}

fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// The name and the exit code of the first container that matches, else of the first init container.
fn exit_code<'p>(
    pod: &'p Pod,
    requirement: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'p str, i32)> {
    let status = pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let mut codes = lists.into_iter().flatten().flatten().filter_map(|container: &ContainerStatus| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        Some((container.name.as_str(), code))
    });
    codes.find(|(container, code)| {
        let is_listed = requirement.values.contains(code);
        let is_named = requirement.container_name.as_deref().is_none_or(|name| name == *container);
        *code != 0
            && is_named
            && match requirement.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                _ => false,
            }
    })
}

fn condition_type<'p>(
    status: Option<&'p PodStatus>,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<&'p str> {
    let mut conditions = status?.conditions.iter().flatten();
    let matching = conditions.find(|condition| {
        patterns.iter().any(|pattern| {
            let status = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == condition.type_ && status == condition.status
        })
    });
    matching.map(|condition| condition.type_.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn failed(containers: &[(&str, i32)], init: &[(&str, i32)], condition: &str) -> Pod {
        let list = |codes: &[(&str, i32)]| -> Value {
            let one = |(name, code): &(&str, i32)| {
                json!({"name": name, "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": code}}})
            };
            codes.iter().map(one).collect()
        };
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "p"}, "status": {"phase": "Failed",
            "containerStatuses": list(containers), "initContainerStatuses": list(init),
            "conditions": [{"type": condition, "status": "True"}]}}),
        )
        .unwrap()
    }

    #[test]
    fn first_matching_rule_decides() {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [2, 3]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}]}))
        .unwrap();
        let fail = |text: &str| Effect::FailJob(text.to_owned());
        let table = [
            (
                "1 ctl-job-failure-policy",
                failed(&[("c", 42)], &[], ""),
                fail("Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 0"),
            ),
            ("2 another container", failed(&[("d", 42)], &[], ""), Effect::FailIndex),
            ("3 disrupted", failed(&[("c", 1)], &[], "DisruptionTarget"), Effect::Ignore),
            ("4 counted", failed(&[("c", 1)], &[], ""), Effect::Count),
            ("5 not listed", failed(&[("c", 9)], &[], ""), Effect::FailIndex),
            ("6 listed", failed(&[("c", 2)], &[], ""), Effect::Count),
            ("7 exit code 0 never matches", failed(&[("c", 0)], &[], ""), Effect::Count),
            ("8 init container", failed(&[("c", 0)], &[("i", 9)], ""), Effect::FailIndex),
            (
                "9 condition",
                failed(&[], &[], "ConfigIssue"),
                fail("Pod ns/p has condition ConfigIssue matching FailJob rule at index 4"),
            ),
        ];
        for (name, pod, wanted) in table {
            assert_eq!(effect(Some(&policy), &pod), wanted, "{name}");
        }
        assert_eq!(effect(None, &failed(&[("c", 42)], &[], "")), Effect::Count, "10 no policy");
    }
}
