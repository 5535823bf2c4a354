use serde_json::{Value, json};

use super::*;
use crate::admission::testing::{Facts, Write};

fn namespaces(labels: Value) -> Facts {
    Facts::new(&[("namespaces", json!({"metadata": {"name": "n", "labels": labels}}))])
}

fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
    for (name, value) in spec.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    json!({"metadata": {"name": "p"}, "spec": all})
}

fn refused(labels: Value, pod: Value) -> Option<String> {
    let mut write = Write::create("pods", pod).in_namespace("n");
    let got = write.validate(&PodSecurity, &namespaces(labels));
    got.err().map(|error| error.message.split("violates PodSecurity ").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn pods_must_meet_the_enforced_level() {
    let baseline = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    for (spec, want) in [
        (json!({}), None),
        (json!({"hostPID": true, "hostIPC": true}), Some("host namespaces (hostPID=true, hostIPC=true)")),
        (
            json!({"containers": [{"name": "c", "securityContext": {"privileged": true}}]}),
            Some("privileged (container \"c\" must not set securityContext.privileged=true)"),
        ),
        (
            json!({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}),
            Some("hostPort (container \"c\" uses hostPort 80)"),
        ),
        (
            json!({"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}}),
            Some(
                "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set)",
            ),
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}}),
            Some("forbidden sysctls (kernel.msgmax)"),
        ),
        (
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            Some("forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")"),
        ),
        (
            json!({"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]}),
            Some("probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")"),
        ),
        (
            json!({"hostUsers": false, "containers": [{"name": "c", "securityContext": {"procMount": "Unmasked"}}]}),
            None,
        ),
    ] {
        let want = want.map(|why| format!("\"baseline:latest\": {why}"));
        assert_eq!(refused(baseline.clone(), pod(spec.clone())), want, "{spec}");
    }
}

#[test]
fn old_versions_have_fewer_checks() {
    let old = json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.7"});
    assert_eq!(
        refused(old, pod(json!({}))),
        Some("\"restricted:v1.7\": runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)".to_owned())
    );
}

#[test]
fn labels_must_be_levels() {
    let bad = json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": "odd"}}});
    let mut write = Write::create("namespaces", bad);
    let error = write.validate(&PodSecurity, &Facts::none()).expect_err("no level");
    assert!(error.message.contains("must be one of privileged, baseline, restricted"), "{}", error.message);
}

#[test]
fn stricter_labels_warn_about_pods() {
    let labelled = |level: &str| json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": level}}});
    let host = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": {"hostNetwork": true}});
    let mut other = host.clone();
    other["metadata"]["name"] = "a".into();
    let facts = Facts::new(&[("pods", host), ("pods", other)]);
    let mut write = Write::update("namespaces", labelled("privileged"), labelled("baseline"));
    assert_eq!(
        write.warnings(&PodSecurity, &facts),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): host namespaces"
        ]
    );
}

#[test]
fn pods_that_stricter_labels_check_are_bounded_in_bytes() {
    let labelled = |level: &str| json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": level}}});
    let pods = (0..40).map(|at| {
        let metadata = json!({
            "name": format!("p{at:02}"), "namespace": "n", "annotations": {"a": "x".repeat(1 << 20)},
            "ownerReferences": [{"uid": "u", "controller": true}],
        });
        ("pods", json!({"metadata": metadata, "spec": {"hostNetwork": true}}))
    });
    let facts = Facts::new(&pods.collect::<Vec<_>>());
    let mut write = Write::update("namespaces", labelled("privileged"), labelled("baseline"));
    assert_eq!(
        write.warnings(&PodSecurity, &facts),
        [
            "new PodSecurity enforce level only checked against the first 23 of 40 existing pods",
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "p00 (and 22 other pods): host namespaces"
        ]
    );
    assert_eq!(facts.decoded.objects.get(), 23);
}

#[test]
fn templates_only_warn() {
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let object = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"hostNetwork": true}}}});
    let mut write = Write::create("deployments", object).in_namespace("n");
    assert_eq!(
        write.warnings(&PodSecurity, &namespaces(labels)),
        ["would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"]
    );
}
