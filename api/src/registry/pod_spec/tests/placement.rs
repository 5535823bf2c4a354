//! Tests of security contexts and scheduling constraints.

use serde_json::{Value, json};

use super::*;

#[test]
fn security_contexts_are_validated() {
    let pod = |context: Value| spec(json!({ "securityContext": context }));
    let one = |context: Value| container(json!({ "securityContext": context }));
    let id = "must be between 0 and 2147483647, inclusive";
    check(vec![
        (
            "ids",
            pod(json!({"runAsUser": -1, "fsGroup": -1})),
            vec![
                cause(INVALID, "spec.securityContext.fsGroup", &format!("Invalid value: -1: {id}")),
                cause(INVALID, "spec.securityContext.runAsUser", &format!("Invalid value: -1: {id}")),
            ],
        ),
        (
            "privileged without escalation",
            one(
                json!({"privileged": true, "allowPrivilegeEscalation": false, "seccompProfile": {"type": "Unconfined"}}),
            ),
            vec![cause(
                INVALID,
                "spec.containers[0].securityContext",
                "Invalid value: {\"Capabilities\":null,\"Privileged\":true,\"SELinuxOptions\":null,\
                 \"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\
                 \"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\
                 \"SeccompProfile\":{\"Type\":\"Unconfined\",\"LocalhostProfile\":null},\"AppArmorProfile\":null}: \
                 cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            )],
        ),
        (
            "fsGroupChangePolicy",
            pod(json!({"fsGroupChangePolicy": "Never"})),
            vec![cause(
                UNSUPPORTED,
                "spec.securityContext.fsGroupChangePolicy",
                "Unsupported value: \"Never\": supported values: \"Always\", \"OnRootMismatch\"",
            )],
        ),
        (
            "sysctl twice",
            pod(
                json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "1"}]}),
            ),
            vec![cause(
                DUPLICATE,
                "spec.securityContext.sysctls[1].name",
                "Duplicate value: \"kernel.shm_rmid_forced\"",
            )],
        ),
        (
            "sysctl name",
            pod(json!({"sysctls": [{"name": "A", "value": "1"}]})),
            invalid(
                "spec.securityContext.sysctls[0].name",
                "\"A\"",
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ),
        ),
        (
            "seccomp without a profile",
            pod(json!({"seccompProfile": {"type": "Localhost"}})),
            vec![cause(
                REQUIRED,
                "spec.securityContext.seccompProfile.localhostProfile",
                "Required value: must be set when seccomp type is Localhost",
            )],
        ),
        (
            "host processes shared twice",
            merged(spec(json!({})), json!({"hostPID": true, "shareProcessNamespace": true})),
            invalid(
                "spec.securityContext.shareProcessNamespace",
                "true",
                "ShareProcessNamespace and HostPID cannot both be enabled",
            ),
        ),
        (
            "container's id",
            one(json!({"runAsGroup": -1})),
            invalid("spec.containers[0].securityContext.runAsGroup", "-1", id),
        ),
        (
            "AppArmor",
            one(json!({"appArmorProfile": {"type": "X"}})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].securityContext.appArmorProfile.type",
                "Unsupported value: \"X\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
            )],
        ),
        (
            "procMount",
            one(json!({"procMount": "Unmasked"})),
            invalid(
                "spec.containers[0].securityContext.procMount",
                "\"Unmasked\"",
                "`hostUsers` must be false to use `Unmasked`",
            ),
        ),
        (
            "user namespace on the host's network",
            spec(json!({"hostUsers": false, "hostNetwork": true})),
            vec![cause(FORBIDDEN, "spec.hostNetwork", "Forbidden: when `pod.Spec.HostUsers` is false")],
        ),
        (
            "Windows with Linux settings",
            merged(one(json!({"privileged": true})), json!({"os": {"name": "windows"}})),
            vec![cause(
                FORBIDDEN,
                "spec.containers[0].securityContext.privileged",
                "Forbidden: cannot be set for a windows pod",
            )],
        ),
        (
            "unknown system",
            spec(json!({"os": {"name": "plan9"}})),
            vec![cause(
                UNSUPPORTED,
                "spec.os",
                "Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
            )],
        ),
    ]);
}

#[test]
fn scheduling_constraints_are_validated() {
    let toleration = |toleration: Value| spec(json!({ "tolerations": [toleration] }));
    let anti = |term: Value| {
        spec(
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        )
    };
    let topology =
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey";
    check(vec![
        (
            "toleration operator",
            toleration(json!({"key": "a", "operator": "Is"})),
            vec![cause(
                UNSUPPORTED,
                "spec.tolerations[0].operator",
                "Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"",
            )],
        ),
        (
            "Exists with a value",
            toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
            invalid(
                "spec.tolerations[0].operator",
                "\"b\"",
                "value must be empty when `operator` is 'Exists'",
            ),
        ),
        (
            "no key",
            toleration(json!({"operator": "Equal", "value": "b"})),
            invalid(
                "spec.tolerations[0].operator",
                "\"Equal\"",
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ),
        ),
        (
            "seconds without NoExecute",
            toleration(json!({"key": "a", "operator": "Exists", "tolerationSeconds": 5})),
            invalid(
                "spec.tolerations[0].effect",
                "\"\"",
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ),
        ),
        (
            "no node selector terms",
            spec(
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}),
            ),
            vec![cause(
                REQUIRED,
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
                "Required value: must have at least one node selector term",
            )],
        ),
        (
            "anti-affinity without a topology",
            anti(json!({"labelSelector": {}, "topologyKey": ""})),
            vec![
                cause(REQUIRED, topology, "Required value: can not be empty"),
                cause(INVALID, topology, "Invalid value: \"\": name part must be non-empty"),
                cause(INVALID, topology, &format!("Invalid value: \"\": {PART}")),
            ],
        ),
        (
            "key in both lists",
            anti(
                json!({"labelSelector": {}, "topologyKey": "z", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]}),
            ),
            invalid(
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]",
                "\"a\"",
                "exists in both matchLabelKeys and mismatchLabelKeys",
            ),
        ),
        (
            "weight",
            spec(json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}}})),
            invalid(
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
                "0",
                "must be in the range 1-100",
            ),
        ),
        (
            "spread",
            spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]}),
            ),
            vec![
                cause(
                    INVALID,
                    "spec.topologySpreadConstraints[0].maxSkew",
                    "Invalid value: 0: must be greater than zero",
                ),
                cause(
                    REQUIRED,
                    "spec.topologySpreadConstraints[0].topologyKey",
                    "Required value: can not be empty",
                ),
                cause(
                    UNSUPPORTED,
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable",
                    "Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                ),
            ],
        ),
        (
            "spread twice",
            spec(json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]})),
            vec![cause(
                DUPLICATE,
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
                "Duplicate value: \"{z, DoNotSchedule}\"",
            )],
        ),
        (
            "domains of a soft constraint",
            spec(json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}]})),
            invalid(
                "spec.topologySpreadConstraints[0].minDomains",
                "1",
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ),
        ),
        (
            "gate twice",
            spec(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]})),
            vec![cause(DUPLICATE, "spec.schedulingGates[1]", "Duplicate value: \"a\"")],
        ),
    ]);
}
