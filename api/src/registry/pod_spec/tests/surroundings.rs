//! Tests of ports, variables, mounts and devices.

use serde_json::{Value, json};

use super::*;

#[test]
fn ports_and_variables_are_validated() {
    let one_port = |port: Value| container(json!({ "ports": [port] }));
    let one_variable = |variable: Value| container(json!({ "env": [variable] }));
    check(vec![
        ("port zero", one_port(json!({})), required("spec.containers[0].ports[0].containerPort")),
        (
            "port too high",
            one_port(json!({"containerPort": 65536})),
            invalid(
                "spec.containers[0].ports[0].containerPort",
                "65536",
                "must be between 1 and 65535, inclusive",
            ),
        ),
        (
            "port name",
            one_port(json!({"containerPort": 1, "name": "1"})),
            invalid("spec.containers[0].ports[0].name", "\"1\"", "must contain at least one letter (a-z)"),
        ),
        (
            "protocol",
            one_port(json!({"containerPort": 1, "protocol": "X"})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].ports[0].protocol",
                "Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            )],
        ),
        (
            "names and host ports twice",
            container(json!({"ports": [{"containerPort": 1, "hostPort": 80, "name": "a"},
                {"containerPort": 2, "hostPort": 80, "name": "a"}]})),
            vec![
                cause(DUPLICATE, "spec.containers[0].ports[1].name", "Duplicate value: \"a\""),
                cause(DUPLICATE, "spec.containers[0].ports[1].hostPort", "Duplicate value: \"TCP//80\""),
            ],
        ),
        (
            "another port on the host's network",
            merged(one_port(json!({"containerPort": 1, "hostPort": 2})), json!({"hostNetwork": true})),
            invalid(
                "spec.containers[0].ports[0].hostPort",
                "2",
                "must match `containerPort` when `hostNetwork` is true",
            ),
        ),
        ("variable without a name", one_variable(json!({})), required("spec.containers[0].env[0].name")),
        (
            "variable name",
            one_variable(json!({"name": "a=b"})),
            invalid(
                "spec.containers[0].env[0].name",
                "\"a=b\"",
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ),
        ),
        (
            "value and source",
            one_variable(
                json!({"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            ),
            invalid(
                "spec.containers[0].env[0].valueFrom",
                "\"\"",
                "may not be specified when `value` is not empty",
            ),
        ),
        (
            "no source",
            one_variable(json!({"name": "a", "valueFrom": {}})),
            invalid(
                "spec.containers[0].env[0].valueFrom",
                "\"\"",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ),
        ),
        (
            "two sources",
            one_variable(
                json!({"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"},
                "secretKeyRef": {"name": "s", "key": "k"}}}),
            ),
            invalid(
                "spec.containers[0].env[0].valueFrom",
                "\"\"",
                "may not have more than one field specified at a time",
            ),
        ),
        (
            "unknown field",
            one_variable(json!({"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.bad"}}})),
            invalid(
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
                "\"spec.bad\"",
                "error converting fieldPath: field label not supported: spec.bad",
            ),
        ),
        (
            "field that is not for variables",
            one_variable(json!({"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
                "Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            )],
        ),
        (
            "unknown resource",
            one_variable(json!({"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.x"}}})),
            vec![cause(
                UNSUPPORTED,
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource",
                "Unsupported value: \"limits.x\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\"",
            )],
        ),
        (
            "divisor",
            one_variable(
                json!({"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}),
            ),
            invalid(
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor",
                "\"limits.cpu\"",
                "only divisor's values 1m and 1 are supported with the cpu resource",
            ),
        ),
        (
            "envFrom without a source",
            container(json!({"envFrom": [{}]})),
            invalid(
                "spec.containers[0].envFrom",
                "\"\"",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
        ),
        (
            "envFrom without a name",
            container(json!({"envFrom": [{"configMapRef": {"name": ""}}]})),
            required("spec.containers[0].envFrom[0].configMapRef.name"),
        ),
    ]);
}

#[test]
fn mounts_and_devices_are_validated() {
    let volumes = json!([{"name": "v"}, {"name": "b", "persistentVolumeClaim": {"claimName": "x"}}]);
    let with = |changes: Value| merged(container(changes), json!({"volumes": volumes}));
    check(vec![
        (
            "path twice",
            with(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}),
            ),
            invalid("spec.containers[0].volumeMounts[1].mountPath", "\"/a\"", "must be unique"),
        ),
        (
            "absolute sub path",
            with(json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/x"}]})),
            invalid("spec.containers[0].volumeMounts.subPath", "\"/x\"", "must be a relative path"),
        ),
        (
            "sub path upwards",
            with(json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "x/../y"}]})),
            invalid("spec.containers[0].volumeMounts.subPath", "\"x/../y\"", "must not contain '..'"),
        ),
        (
            "both sub paths",
            with(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}]}),
            ),
            invalid(
                "spec.containers[0].volumeMounts[0].subPathExpr",
                "\"y\"",
                "subPathExpr and subPath are mutually exclusive",
            ),
        ),
        (
            "bidirectional",
            with(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]}),
            ),
            vec![cause(
                FORBIDDEN,
                "spec.containers[0].volumeMounts.mountPropagation",
                "Forbidden: Bidirectional mount propagation is available only to privileged containers",
            )],
        ),
        (
            "recursively read only",
            with(json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]})),
            vec![cause(
                FORBIDDEN,
                "spec.containers[0].volumeMounts.recursiveReadOnly",
                "Forbidden: may only be specified when readOnly is true",
            )],
        ),
        ("device", with(json!({"volumeDevices": [{"name": "b", "devicePath": "/dev/x"}]})), vec![]),
        (
            "device of an empty directory",
            with(json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]})),
            invalid(
                "spec.containers[0].volumeDevices[0].name",
                "\"v\"",
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
        ),
        (
            "mount and device",
            with(json!({"volumeMounts": [{"name": "b", "mountPath": "/a"}],
                "volumeDevices": [{"name": "b", "devicePath": "/dev/x"}]})),
            vec![
                cause(
                    INVALID,
                    "spec.containers[0].volumeMounts[0].name",
                    "Invalid value: \"b\": must not already exist in volumeDevices",
                ),
                cause(
                    INVALID,
                    "spec.containers[0].volumeDevices[0].name",
                    "Invalid value: \"b\": must not already exist in volumeMounts",
                ),
            ],
        ),
        (
            "device path upwards",
            with(json!({"volumeDevices": [{"name": "b", "devicePath": "/../x"}]})),
            invalid(
                "spec.containers[0].volumeDevices[0].devicePath",
                "\"/../x\"",
                "can not contain backsteps ('..')",
            ),
        ),
    ]);
}

#[test]
fn overridden_hostnames_exclude_other_hostnames() {
    let network = "Forbidden: may not be specified when hostNetwork is true";
    let fqdn = "Forbidden: may not be specified when setHostnameAsFQDN is true";
    for (case, change, want) in [
        ("a subdomain", json!({"hostnameOverride": "a.example.com"}), vec![]),
        ("64 characters", json!({"hostnameOverride": "a".repeat(64)}), vec![]),
        (
            "65 characters",
            json!({"hostnameOverride": "a".repeat(65)}),
            vec!["Too long: may not be more than 64 bytes"],
        ),
        (
            "capitals",
            json!({"hostnameOverride": "A"}),
            vec!["Invalid value: \"A\": a lowercase RFC 1123 subdomain"],
        ),
        (
            "empty",
            json!({"hostnameOverride": ""}),
            vec!["Invalid value: \"\": a lowercase RFC 1123 subdomain"],
        ),
        ("with the host's network", json!({"hostnameOverride": "a", "hostNetwork": true}), vec![network]),
        ("with the pod's own network", json!({"hostnameOverride": "a", "hostNetwork": false}), vec![]),
        ("with the name of the pod", json!({"hostnameOverride": "a", "setHostnameAsFQDN": true}), vec![fqdn]),
        ("without the name of the pod", json!({"hostnameOverride": "a", "setHostnameAsFQDN": false}), vec![]),
        ("with a hostname", json!({"hostnameOverride": "a", "hostname": "b", "subdomain": "c"}), vec![]),
        (
            "with both",
            json!({"hostnameOverride": "a", "hostNetwork": true, "setHostnameAsFQDN": true}),
            vec![fqdn, network],
        ),
    ] {
        let mut change = spec(change).as_object().expect("an object").clone();
        defaults::pod_spec(&mut change, Owner::Pod("p"));
        let mut errors = FieldErrors::new();
        validate(&Value::Object(change), Owner::Pod("p"), &Path::new("spec"), &mut errors);
        assert_eq!(errors.causes().len(), want.len(), "{case}: {:?}", errors.causes());
        for (cause, want) in errors.causes().iter().zip(want) {
            assert_eq!(cause.field, "spec.hostnameOverride", "{case}");
            assert!(cause.message.starts_with(want), "{case}: {}", cause.message);
        }
    }
}
