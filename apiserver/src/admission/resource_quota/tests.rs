use serde_json::{Value, json};

use super::*;
use crate::admission::testing::{Facts, Write};

fn quota(name: &str, hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn claim(size: &str, class: &str) -> Value {
    json!({"metadata": {"name": "c", "namespace": "n"},
        "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}})
}

/// The effect of a write of a claim as text: `at:used` of each charge, or the rejection.
fn outcome(plural: &str, subresource: &str, object: &Value, old: Option<&Value>, quotas: &[Value]) -> String {
    let of = |value: &Value| Object::from_value(value.clone());
    let quotas: Vec<Object> = quotas.iter().map(of).collect();
    let (object, old) = (of(object), old.map(of));
    let write = Counted {
        resource: Resource::new("", plural),
        subresource,
        object: &object,
        old: old.as_ref(),
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
    };
    match charges(&quotas, &write) {
        Err(why) => why,
        Ok(charges) => charges
            .iter()
            .map(|charge| format!("{}:{}", charge.at, amounts::show(&charge.used)))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

#[test]
fn claims_are_charged() {
    let storage = |hard: &str, used: &str| {
        quota("q", json!({"requests.storage": hard}), json!({"requests.storage": used}))
    };
    let new = claim("5Gi", "gold");
    let bigger = claim("7Gi", "gold");
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    let scoped = |operator: &str| {
        let mut quota = storage("10Gi", "0");
        quota["spec"]["scopeSelector"] =
            json!({"matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": operator}]});
        quota
    };
    for (case, old, quotas, want) in [
        ("1 no quota", None, vec![], ""),
        ("2 room", None, vec![storage("10Gi", "5Gi")], "0:requests.storage=10Gi"),
        ("3 nothing is used", None, vec![storage("10Gi", "0")], "0:requests.storage=5Gi"),
        (
            "4 no room",
            None,
            vec![storage("10Gi", "8Gi")],
            "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: requests.storage=10Gi",
        ),
        ("5 of pods alone", None, vec![quota("q", json!({"pods": "0"}), json!({"pods": "0"}))], ""),
        (
            "6 only exceeded resources are listed",
            None,
            vec![quota(
                "q",
                json!({"requests.storage": "4Gi", "persistentvolumeclaims": "5", gold: "1Gi"}),
                json!({"requests.storage": "0", "persistentvolumeclaims": "1", gold: "512Mi"}),
            )],
            "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=5Gi,requests.storage=5Gi, \
             used: gold.storageclass.storage.k8s.io/requests.storage=512Mi,requests.storage=0, \
             limited: gold.storageclass.storage.k8s.io/requests.storage=1Gi,requests.storage=4Gi",
        ),
        (
            "7 another class",
            None,
            vec![quota(
                "q",
                json!({"iron.storageclass.storage.k8s.io/requests.storage": "0"}),
                json!({"iron.storageclass.storage.k8s.io/requests.storage": "0"}),
            )],
            "",
        ),
        (
            "8 not counted yet",
            None,
            vec![quota(
                "q",
                json!({"requests.storage": "10Gi", "persistentvolumeclaims": "3"}),
                json!({"requests.storage": "0"}),
            )],
            "status unknown for quota: q, resources: persistentvolumeclaims,requests.storage",
        ),
        ("9 growth", Some(&new), vec![storage("10Gi", "5Gi")], "0:requests.storage=7Gi"),
        (
            "10 growth without room",
            Some(&new),
            vec![storage("6Gi", "5Gi")],
            "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=5Gi, limited: requests.storage=6Gi",
        ),
        ("11 no change", Some(&bigger), vec![storage("1Gi", "7Gi")], ""),
        (
            "12 two quotas",
            None,
            vec![
                storage("10Gi", "1Gi"),
                quota(
                    "p",
                    json!({"count/persistentvolumeclaims": "5"}),
                    json!({"count/persistentvolumeclaims": "1"}),
                ),
            ],
            "0:requests.storage=6Gi 1:count/persistentvolumeclaims=2",
        ),
        ("13 not in scope", None, vec![scoped("Exists")], ""),
        ("14 in scope", None, vec![scoped("DoesNotExist")], "0:requests.storage=5Gi"),
    ] {
        let object = if old.is_some() { &bigger } else { &new };
        assert_eq!(outcome("persistentvolumeclaims", "", object, old, &quotas), want, "{case}");
    }
    let smaller = outcome("persistentvolumeclaims", "", &new, Some(&bigger), &[storage("10Gi", "7Gi")]);
    assert_eq!(smaller, "", "what is given back is counted by the controller");
}

#[test]
fn uncounted_quota_is_updated() {
    let mut fresh = quota("q", json!({"requests.storage": "1Gi"}), json!({}));
    fresh["status"] = json!({});
    let new = claim("5Gi", "");
    assert_eq!(outcome("persistentvolumeclaims", "", &new, None, std::slice::from_ref(&fresh)), "0:");
    assert_eq!(
        outcome("persistentvolumeclaims", "", &new, Some(&new), std::slice::from_ref(&fresh)),
        "",
        "no change"
    );
    assert_eq!(outcome("configmaps", "", &new, None, &[fresh]), "", "not its business");
}

#[test]
fn status_of_a_claim_is_charged_but_not_rejected() {
    let storage = quota("q", json!({"requests.storage": "6Gi"}), json!({"requests.storage": "5Gi"}));
    let old = claim("5Gi", "");
    let mut given = old.clone();
    given["status"] = json!({"phase": "Bound", "capacity": {"storage": "9Gi"}});
    assert_eq!(
        outcome("persistentvolumeclaims", "status", &given, Some(&old), std::slice::from_ref(&storage)),
        ""
    );
    given["status"]["allocatedResources"] = json!({"storage": "9Gi"});
    let got = outcome("persistentvolumeclaims", "status", &given, Some(&old), &[storage]);
    assert_eq!(got, "0:requests.storage=9Gi", "beyond the limit, and yet it is so");
}

#[test]
fn pods_and_other_objects_are_charged() {
    let pod = |requests: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]}});
    let cpu =
        quota("q", json!({"requests.cpu": "1", "pods": "3"}), json!({"requests.cpu": "500m", "pods": "1"}));
    let with = outcome("pods", "", &pod(json!({"cpu": "200m"})), None, std::slice::from_ref(&cpu));
    assert_eq!(with, "0:pods=2,requests.cpu=700m");
    let without = outcome("pods", "", &pod(json!({})), None, std::slice::from_ref(&cpu));
    assert_eq!(without, "failed quota: q: must specify requests.cpu for: a");
    let resized =
        outcome("pods", "resize", &pod(json!({"cpu": "800m"})), Some(&pod(json!({"cpu": "200m"}))), &[cpu]);
    assert_eq!(
        resized,
        "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1"
    );
    let maps = quota(
        "q",
        json!({"configmaps": "1", "count/configmaps": "9"}),
        json!({"configmaps": "1", "count/configmaps": "1"}),
    );
    let map = outcome("configmaps", "", &json!({"metadata": {"name": "m"}}), None, &[maps]);
    assert_eq!(map, "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1");
}

#[test]
fn only_writes_that_change_usage_are_charged() {
    let may =
        |group, plural, subresource, updates| may_count(Resource::new(group, plural), subresource, updates);
    for (case, got, want) in [
        ("claim", may("", "persistentvolumeclaims", "", false), true),
        ("claim grows", may("", "persistentvolumeclaims", "", true), true),
        ("claim's status", may("", "persistentvolumeclaims", "status", true), true),
        ("pod", may("", "pods", "", false), true),
        ("pod changes", may("", "pods", "", true), false),
        ("pod is resized", may("", "pods", "resize", true), true),
        ("pod is bound", may("", "pods", "binding", false), false),
        ("service", may("", "services", "", true), true),
        ("map changes", may("", "configmaps", "", true), false),
        ("account's token", may("", "serviceaccounts", "token", false), false),
        ("event", may("events.k8s.io", "events", "", false), false),
        ("deployment", may("apps", "deployments", "", false), true),
    ] {
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn plugin_rejects_writes_over_quota() {
    let full = quota("q", json!({"requests.storage": "1Gi"}), json!({"requests.storage": "1Gi"}));
    let facts = Facts::new(&[("resourcequotas", full)]);
    let refused = |namespace: &'static str| {
        let mut write = Write::create("persistentvolumeclaims", claim("1Gi", "")).in_namespace(namespace);
        write.validate(&ResourceQuota, &facts).err().map(|error| (error.code, error.message))
    };
    let why = "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: requests.storage=1Gi, \
               used: requests.storage=1Gi, limited: requests.storage=1Gi";
    assert_eq!(refused("n"), Some((403, why.to_owned())));
    assert_eq!(refused("other"), None);
    let mut delete = Write::delete("persistentvolumeclaims", claim("1Gi", "")).in_namespace("n");
    assert!(delete.validate(&ResourceQuota, &facts).is_ok());
}
