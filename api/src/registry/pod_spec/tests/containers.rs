//! Tests of containers, their resources, probes and hooks.

use serde_json::{Value, json};

use super::*;

#[test]
fn containers_are_validated() {
    let c = |field: &'static str| field;
    check(vec![
        (
            "two of a name",
            spec(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
            vec![cause(DUPLICATE, "spec.containers[1].name", "Duplicate value: \"c\"")],
        ),
        (
            "blank around the image",
            container(json!({"image": " i"})),
            invalid("spec.containers[0].image", "\" i\"", "must not have leading or trailing whitespace"),
        ),
        (
            "pull policy",
            container(json!({"imagePullPolicy": "X"})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].imagePullPolicy",
                "Unsupported value: \"X\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            )],
        ),
        (
            "message policy",
            container(json!({"terminationMessagePolicy": "X"})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].terminationMessagePolicy",
                "Unsupported value: \"X\": supported values: \"File\", \"FallbackToLogsOnError\"",
            )],
        ),
        (
            "init container named like a container",
            spec(json!({"initContainers": [{"name": "c", "image": "i"}]})),
            vec![cause(DUPLICATE, "spec.initContainers[0].name", "Duplicate value: \"c\"")],
        ),
        (
            "init container with a probe",
            spec(
                json!({"initContainers": [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]}),
            ),
            vec![cause(
                FORBIDDEN,
                "spec.initContainers[0].livenessProbe",
                "Forbidden: may not be set for init containers without restartPolicy=Always",
            )],
        ),
        (
            "sidecar with a probe",
            spec(json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always",
                "livenessProbe": {"exec": {"command": ["x"]}}}]})),
            vec![],
        ),
        (
            "restart policy of a container",
            container(json!({"restartPolicy": "X"})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].restartPolicy",
                "Unsupported value: \"X\": supported values: \"Always\", \"Never\", \"OnFailure\"",
            )],
        ),
        (
            "restart rules without a policy",
            container(
                json!({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}),
            ),
            vec![cause(
                REQUIRED,
                "spec.containers[0].restartPolicy",
                "Required value: must specify restartPolicy when restart rules are used",
            )],
        ),
        (
            "ephemeral container with ports and no target",
            spec(json!({"ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "x",
                "ports": [{"containerPort": 1}]}]})),
            vec![
                cause(NOT_FOUND, "spec.ephemeralContainers[0].targetContainerName", "Not found: \"x\""),
                cause(
                    FORBIDDEN,
                    "spec.ephemeralContainers[0].ports",
                    "Forbidden: cannot be set for an Ephemeral Container",
                ),
            ],
        ),
        (
            "resize policy",
            merged(
                container(
                    json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
                ),
                json!({"restartPolicy": "Never"}),
            ),
            invalid(
                c("spec.containers[0].resizePolicy"),
                "\"RestartContainer\"",
                "must be 'NotRequired' when `restartPolicy` is 'Never'",
            ),
        ),
    ]);
}

#[test]
fn container_resources_are_validated() {
    let with = |resources: Value| container(json!({ "resources": resources }));
    let path = "spec.containers[0].resources.requests";
    check(vec![
        (
            "more than the limit",
            with(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
            invalid(path, "\"2\"", "must be less than or equal to cpu limit of 1"),
        ),
        (
            "negative",
            with(json!({"requests": {"memory": "-1"}})),
            invalid(
                "spec.containers[0].resources.requests[memory]",
                "\"-1\"",
                "must be greater than or equal to 0",
            ),
        ),
        (
            "not of containers",
            with(json!({"requests": {"storage": "1"}})),
            invalid(
                "spec.containers[0].resources.requests[storage]",
                "\"storage\"",
                "must be a standard resource for containers",
            ),
        ),
        (
            "unknown",
            with(json!({"requests": {"x": "1"}})),
            vec![
                cause(
                    INVALID,
                    "spec.containers[0].resources.requests[x]",
                    "Invalid value: \"x\": must be a standard resource type or fully qualified",
                ),
                cause(
                    INVALID,
                    "spec.containers[0].resources.requests[x]",
                    "Invalid value: \"x\": must be a standard resource for containers",
                ),
            ],
        ),
        (
            "huge pages alone",
            with(json!({"requests": {"hugepages-2Mi": "2Mi"}})),
            vec![
                cause(
                    REQUIRED,
                    "spec.containers[0].resources.limits",
                    "Required value: Limit must be set for non overcommitable resources",
                ),
                cause(
                    FORBIDDEN,
                    "spec.containers[0].resources",
                    "Forbidden: HugePages require cpu or memory",
                ),
            ],
        ),
        (
            "part of an extended resource",
            with(json!({"limits": {"example.com/x": "500m"}})),
            vec![
                cause(
                    INVALID,
                    "spec.containers[0].resources.limits[example.com/x]",
                    "Invalid value: \"500m\": must be an integer",
                ),
                cause(
                    INVALID,
                    "spec.containers[0].resources.requests[example.com/x]",
                    "Invalid value: \"500m\": must be an integer",
                ),
            ],
        ),
        (
            "less of an extended resource than its limit",
            with(json!({"limits": {"example.com/x": "2"}, "requests": {"example.com/x": "1"}})),
            invalid(path, "\"1\"", "must be equal to example.com/x limit of 2"),
        ),
        (
            "claim of a device that the pod has not",
            with(json!({"claims": [{"name": "x"}]})),
            vec![cause(NOT_FOUND, "spec.containers[0].resources.claims[0].name", "Not found: \"x\"")],
        ),
        (
            "more than the pod",
            merged(with(json!({"limits": {"cpu": "2"}})), json!({"resources": {"limits": {"cpu": "1"}}})),
            invalid(
                "spec.resources.containers[0][cpu].limits",
                "\"2\"",
                "must be less than or equal to pod limits of 1",
            ),
        ),
    ]);
}

#[test]
fn probes_and_hooks_are_validated() {
    let liveness = |probe: Value| container(json!({ "livenessProbe": probe }));
    check(vec![
        (
            "no handler",
            liveness(json!({})),
            vec![cause(
                REQUIRED,
                "spec.containers[0].livenessProbe",
                "Required value: must specify a handler type",
            )],
        ),
        (
            "two handlers",
            liveness(json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}})),
            vec![cause(
                FORBIDDEN,
                "spec.containers[0].livenessProbe.tcpSocket",
                "Forbidden: may not specify more than 1 handler type",
            )],
        ),
        (
            "no command",
            liveness(json!({"exec": {}})),
            required("spec.containers[0].livenessProbe.exec.command"),
        ),
        (
            "threshold",
            liveness(json!({"exec": {"command": ["x"]}, "successThreshold": 2})),
            invalid("spec.containers[0].livenessProbe.successThreshold", "2", "must be 1"),
        ),
        (
            "negative",
            liveness(json!({"exec": {"command": ["x"]}, "initialDelaySeconds": -1})),
            invalid(
                "spec.containers[0].livenessProbe.initialDelaySeconds",
                "-1",
                "must be greater than or equal to 0",
            ),
        ),
        (
            "port and scheme",
            liveness(json!({"httpGet": {"port": 0, "scheme": "FTP"}})),
            vec![
                cause(
                    INVALID,
                    "spec.containers[0].livenessProbe.httpGet.port",
                    "Invalid value: 0: must be between 1 and 65535, inclusive",
                ),
                cause(
                    UNSUPPORTED,
                    "spec.containers[0].livenessProbe.httpGet.scheme",
                    "Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                ),
            ],
        ),
        (
            "readiness with a grace period",
            container(
                json!({"readinessProbe": {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 5}}),
            ),
            invalid(
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds",
                "5",
                "must not be set for readinessProbes",
            ),
        ),
        (
            "sleep longer than the grace period",
            container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            invalid(
                "spec.containers[0].lifecycle.preStop.sleep",
                "31",
                "must be non-negative and less than terminationGracePeriodSeconds (30)",
            ),
        ),
    ]);
}
