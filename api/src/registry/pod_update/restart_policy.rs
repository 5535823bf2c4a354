//! Whether a container that has terminated is restarted (upstream: pkg/api/v1/pod, ContainerShouldRestart).

use k8s_openapi::api::core::v1 as api;

/// Whether some container may restart all containers of the pod.
pub(super) fn restarts_all(spec: &api::PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == "RestartAllContainers")
}

/// Whether the container is restarted after this exit code. The first rule that matches decides, then the policy of
/// the container, then the policy of the pod.
pub(super) fn restarts(container: &api::Container, spec: &api::PodSpec, exit_code: i32) -> bool {
    let own = container.restart_policy.as_deref();
    let mut rules = container.restart_policy_rules.iter().flatten();
    let rule = rules.find(|rule| own.is_some() && matches(rule, exit_code));
    if rule.is_some_and(|rule| rule.action == "Restart") {
        return true;
    }
    match own.or(spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => exit_code != 0,
        Some(_) | None => true,
    }
}

fn matches(rule: &api::ContainerRestartRule, exit_code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let is_listed = codes.values.iter().flatten().any(|code| *code == exit_code);
    match codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn restart_follows_rules_then_policies() {
        let rule = |action: &str, operator: &str| json!([{"action": action, "exitCodes": {"operator": operator, "values": [42]}}]);
        for (case, pod, own, rules, code, want) in [
            ("pod always", "Always", json!(null), json!(null), 0, true),
            ("pod on failure, success", "OnFailure", json!(null), json!(null), 0, false),
            ("pod on failure, failure", "OnFailure", json!(null), json!(null), 1, true),
            ("pod never", "Never", json!(null), json!(null), 1, false),
            ("own always", "Never", json!("Always"), json!(null), 0, true),
            ("own never", "Always", json!("Never"), json!(null), 1, false),
            ("own on failure", "Never", json!("OnFailure"), json!(null), 1, true),
            ("rule matches", "Never", json!("Never"), rule("Restart", "In"), 42, true),
            ("rule does not match", "Never", json!("Never"), rule("Restart", "In"), 1, false),
            ("rule excludes", "Never", json!("Never"), rule("Restart", "NotIn"), 1, true),
        ] {
            let spec = json!({"restartPolicy": pod, "containers": [
                {"name": "c", "restartPolicy": own, "restartPolicyRules": rules}]});
            let spec: api::PodSpec = serde_json::from_value(spec).expect("a spec");
            assert_eq!(restarts(&spec.containers[0], &spec, code), want, "{case}");
        }
    }

    #[test]
    fn one_rule_restarts_all_containers() {
        let with = |rules: Value| -> api::PodSpec {
            let containers = json!([{"name": "c", "restartPolicyRules": rules}]);
            serde_json::from_value(json!({ "containers": containers })).expect("a spec")
        };
        assert!(!restarts_all(&with(json!([{"action": "Restart"}]))));
        assert!(restarts_all(&with(json!([{"action": "RestartAllContainers"}]))));
    }
}
