use super::*;

/// A spec with all defaults, and `changes` applied.
fn complete(changes: Value) -> Value {
    let mut spec = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
    });
    for (key, value) in changes.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

/// A container with all defaults, and `changes` applied.
fn container_with(changes: Value) -> Value {
    let mut container = json!({
        "name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
    });
    for (key, value) in changes.as_object().expect("an object") {
        container[key] = value.clone();
    }
    container
}

#[test]
fn pod_specs_are_defaulted() {
    for (case, given, want) in [
        (
            "bare",
            json!({"containers": [{"name": "c", "image": "i"}]}),
            complete(json!({"containers": [container_with(json!({}))]})),
        ),
        (
            "old service account",
            json!({"serviceAccount": "x"}),
            complete(json!({"serviceAccount": "x", "serviceAccountName": "x"})),
        ),
        (
            "new service account wins",
            json!({"serviceAccount": "x", "serviceAccountName": "y"}),
            complete(json!({"serviceAccount": "y", "serviceAccountName": "y"})),
        ),
        (
            "host network",
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]}),
            complete(json!({"hostNetwork": true, "containers": [container_with(
                json!({"ports": [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]}))]})),
        ),
        (
            "requests from limits",
            json!({"initContainers": [{"name": "c", "image": "i", "resources": {
                "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}]}),
            complete(json!({"initContainers": [container_with(json!({"resources": {
                "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}}))]})),
        ),
        (
            "probes and hooks",
            json!({"containers": [{"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 80}},
                "readinessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3}, "startupProbe": {"grpc": {"port": 9}},
                "lifecycle": {"preStop": {"httpGet": {"port": "web"}}}}]}),
            complete(json!({"containers": [container_with(json!({
                "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
                    "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "readinessProbe": {"exec": {"command": ["x"]}, "timeoutSeconds": 1, "periodSeconds": 3,
                    "successThreshold": 1, "failureThreshold": 3},
                "startupProbe": {"grpc": {"port": 9, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10,
                    "successThreshold": 1, "failureThreshold": 3},
                "lifecycle": {"preStop": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTP"}}},
            }))]})),
        ),
        (
            "env",
            json!({"containers": [{"name": "c", "image": "i", "env": [
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "F", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}]}]}),
            complete(json!({"containers": [container_with(json!({"env": [
                {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
                {"name": "F", "valueFrom": {"fileKeyRef": {
                    "key": "k", "path": "p", "volumeName": "v", "optional": false}}}]}))]})),
        ),
    ] {
        let mut spec = given.as_object().expect("an object").clone();
        pod_spec(&mut spec, Owner::Pod(""));
        assert_eq!(Value::Object(spec), want, "{case}");
    }
}

#[test]
fn templates_get_no_pod_only_defaults() {
    let given = json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i",
        "ports": [{"containerPort": 8080}], "resources": {"limits": {"cpu": "1"}}}]});
    let mut spec = given.as_object().expect("an object").clone();
    pod_spec(&mut spec, Owner::Template);
    let mut want = complete(json!({"hostNetwork": true, "containers": [container_with(json!({
        "ports": [{"containerPort": 8080, "protocol": "TCP"}], "resources": {"limits": {"cpu": "1"}}}))]}));
    want.as_object_mut().expect("an object").remove("enableServiceLinks");
    assert_eq!(Value::Object(spec), want);
}

#[test]
fn pull_policy_depends_on_the_tag() {
    for (image, want) in [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:v1", "IfNotPresent"),
        ("example.com/app:v1", "IfNotPresent"),
        ("example.com:5000/app", "Always"),
        ("example.com:5000/app:v1", "IfNotPresent"),
        ("Registry/app", "Always"),
        ("i@sha256:0123", "IfNotPresent"),
        ("i:latest@sha256:0123", "Always"),
        ("", "IfNotPresent"),
        ("Upper", "IfNotPresent"),
        ("a b", "IfNotPresent"),
    ] {
        assert_eq!(pull_policy(image), want, "{image:?}");
    }
}

#[test]
fn quantities_are_rounded_up_to_thousandths() {
    for (given, want) in [
        ("100u", Some("1m")),
        ("1500u", Some("2m")),
        ("1n", Some("1m")),
        ("999999999n", Some("1")),
        ("-100u", Some("-1m")),
        ("100m", None),
        ("1Gi", None),
    ] {
        assert_eq!(rounded_to_milli(given).as_deref(), want, "{given}");
    }
}
