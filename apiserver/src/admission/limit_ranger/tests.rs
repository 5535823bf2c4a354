use serde_json::{Value, json};

use super::*;
use crate::admission::testing::{Facts, Write};

fn facts(limits: Value) -> Facts {
    Facts::new(&[(
        "limitranges",
        json!({"metadata": {"name": "r", "namespace": "n"}, "spec": {"limits": limits}}),
    )])
}

fn claim(size: &str) -> Value {
    json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}})
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn refusal(mut write: Write, facts: &Facts) -> Option<String> {
    write.validate(&LimitRanger, facts).err().map(|error| {
        assert_eq!(error.code, 403);
        error.message
    })
}

#[test]
fn claims_are_limited() {
    let facts = facts(
        json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}]),
    );
    let forbidden = |why: &str| Some(format!("persistentvolumeclaims \"c\" is forbidden: {why}"));
    let small = "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi";
    let large = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi";
    for (case, size, old, want) in [
        ("1 within", "1Gi", None, None),
        ("2 too small", "500Mi", None, forbidden(small)),
        ("3 too large", "11Gi", None, forbidden(large)),
        ("4 grows too large", "11Gi", Some("10Gi"), forbidden(large)),
        ("5 was too large before", "11Gi", Some("11Gi"), None),
    ] {
        let write = match old {
            None => Write::create("persistentvolumeclaims", claim(size)),
            Some(old) => Write::update("persistentvolumeclaims", claim(old), claim(size)),
        };
        assert_eq!(refusal(write.in_namespace("n"), &facts), want, "{case}");
    }
    let elsewhere = Write::create("persistentvolumeclaims", claim("500Mi")).in_namespace("m");
    assert_eq!(refusal(elsewhere, &facts), None);
    let status =
        Write::update("persistentvolumeclaims", claim("2Gi"), claim("500Mi")).in_namespace("n").to("status");
    assert_eq!(refusal(status, &facts), None);
    let mut going = claim("2Gi");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let going = Write::update("persistentvolumeclaims", going, claim("500Mi")).in_namespace("n");
    assert_eq!(refusal(going, &facts), None);
}

#[test]
fn containers_and_pods_are_limited() {
    let container = |requests: Value, limits: Value| json!({"name": "a", "resources": {"requests": requests, "limits": limits}});
    let one = |requests: Value, limits: Value| pod(json!([container(requests, limits)]));
    let two = |requests: Value, limits: Value| {
        pod(json!([container(requests.clone(), limits.clone()), container(requests, limits)]))
    };
    let of = |ty: &str, list: &str, amounts: Value| json!([{"type": ty, list: amounts}]);
    for (case, limits, pod, want) in [
        (
            "1 within",
            of("Container", "max", json!({"cpu": "1"})),
            one(json!({"cpu": "1"}), json!({"cpu": "1"})),
            "",
        ),
        (
            "2 too much",
            of("Container", "max", json!({"memory": "1Gi"})),
            one(json!({}), json!({"memory": "1536Mi"})),
            "maximum memory usage per Container is 1Gi, but limit is 1536Mi",
        ),
        (
            "3 no limit",
            of("Container", "max", json!({"memory": "1Gi"})),
            one(json!({"memory": "1Gi"}), json!({})),
            "maximum memory usage per Container is 1Gi.  No limit is specified",
        ),
        (
            "4 no request",
            of("Container", "min", json!({"cpu": "100m"})),
            one(json!({}), json!({})),
            "minimum cpu usage per Container is 100m.  No request is specified",
        ),
        (
            "5 too little",
            of("Container", "min", json!({"cpu": "100m"})),
            one(json!({"cpu": "50m"}), json!({})),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            "6 together",
            of("Pod", "max", json!({"cpu": "1"})),
            two(json!({"cpu": "600m"}), json!({"cpu": "600m"})),
            "maximum cpu usage per Pod is 1, but limit is 1200m",
        ),
        (
            "7 ratio",
            of("Container", "maxLimitRequestRatio", json!({"cpu": "2"})),
            one(json!({"cpu": "100m"}), json!({"cpu": "300m"})),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            "8 ratio of nothing",
            of("Pod", "maxLimitRequestRatio", json!({"cpu": "2"})),
            one(json!({"cpu": "0"}), json!({"cpu": "1"})),
            "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0",
        ),
        (
            "9 no limit to divide",
            of("Pod", "maxLimitRequestRatio", json!({"cpu": "2"})),
            one(json!({"cpu": "1"}), json!({})),
            "cpu max limit to request ratio per Pod is 2, but no limit is specified or limit is 0",
        ),
        (
            "10 several, each once",
            of("Container", "min", json!({"cpu": "1", "memory": "1Gi"})),
            two(json!({"cpu": "500m"}), json!({})),
            "[minimum cpu usage per Container is 1, but request is 500m, minimum memory usage per Container is 1Gi.  \
             No request is specified]",
        ),
    ] {
        let got = refusal(Write::create("pods", pod.clone()).in_namespace("n"), &facts(limits));
        let want = (!want.is_empty()).then(|| format!("pods \"p\" is forbidden: {want}"));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn containers_get_defaults() {
    let facts = facts(json!([
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m", "memory": "512Mi"}},
        {"type": "Pod", "max": {"cpu": "4"}},
    ]));
    let given = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "2Gi"}}}],
        "initContainers": [{"name": "i", "resources": {"requests": {"memory": "1Mi"}}}],
    }});
    let got =
        Write::create("pods", given).in_namespace("n").mutate(&LimitRanger, &facts).expect("never refuses");
    let resources = |pointer: &str| got.pointer(pointer).expect("is there")["resources"].clone();
    assert_eq!(
        resources("/spec/containers/0"),
        json!({"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(
        resources("/spec/containers/1"),
        json!({"requests": {"cpu": "2", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}})
    );
    assert_eq!(
        got["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; \
         memory request for container b; cpu request for init container i; cpu, memory limit for init container i"
    );
    let untouched = pod(json!([{"name": "a"}]));
    let again = Write::update("pods", untouched.clone(), untouched.clone())
        .in_namespace("n")
        .mutate(&LimitRanger, &facts);
    assert_eq!(again.expect("never refuses"), untouched, "a pod that is there stays as it is");
}
