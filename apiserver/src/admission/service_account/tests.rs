//! Tests of the plugin.

use serde_json::{Value, json};

use super::*;
use crate::admission::testing::{Facts, Write};

fn strict() -> ServiceAccount {
    ServiceAccount::new(true)
}

fn with_controller() -> ServiceAccount {
    ServiceAccount::new(false)
}

fn account(namespace: &str, name: &str, more: Value) -> (&'static str, Value) {
    let mut account = json!({"metadata": {"name": name, "namespace": namespace}});
    for (member, value) in more.as_object().into_iter().flatten() {
        match member.as_str() {
            "annotations" => account["metadata"]["annotations"] = value.clone(),
            member => account[member] = value.clone(),
        }
    }
    ("serviceaccounts", account)
}

/// The account `default`, and those of the tests.
fn facts() -> Facts {
    Facts::new(&[
        account("ns", "default", json!({})),
        account("ns", "silent", json!({"automountServiceAccountToken": false})),
        account("ns", "pulling", json!({"imagePullSecrets": [{"name": "registry"}]})),
        account(
            "ns",
            "strict",
            json!({
                "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"},
                "secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "registry"}],
            }),
        ),
    ])
}

fn pod(spec: Value) -> Write {
    Write::create("pods", json!({"metadata": {"name": "p"}, "spec": spec})).in_namespace("ns")
}

/// The items of a list; none if there is no list.
fn items<'v>(value: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The spec after the plugin, with the generated part of the volume's name cut off.
fn admitted(spec: Value) -> Value {
    let pod = pod(spec).mutate(&strict(), &facts()).expect("admitted");
    let mut spec = pod["spec"].clone();
    let cut = |name: &mut Value| {
        if let Some((prefix, suffix)) = name.as_str().and_then(|name| name.rsplit_once('-')) {
            assert_eq!(suffix.len(), 5, "{name}");
            *name = prefix.into();
        }
    };
    for volume in items(&mut spec, "volumes") {
        cut(&mut volume["name"]);
    }
    for list in ["initContainers", "containers"] {
        for container in items(&mut spec, list) {
            items(container, "volumeMounts").for_each(|mount| cut(&mut mount["name"]));
        }
    }
    spec
}

fn token_mount() -> Value {
    json!({
        "name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    })
}

#[test]
fn pods_get_the_default_account_and_its_token() {
    let spec = admitted(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}));
    assert_eq!(
        spec,
        json!({
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "initContainers": [{"name": "i", "volumeMounts": [token_mount()]}],
            "containers": [{"name": "c", "volumeMounts": [token_mount()]}],
            "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ]}}],
        })
    );
}

#[test]
fn mounts_of_containers_are_respected() {
    let own = json!({"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    let spec = admitted(json!({
        "containers": [{"name": "a", "volumeMounts": [own]}, {"name": "b", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}],
    }));
    assert_eq!(spec["containers"][0]["volumeMounts"].as_array().expect("mounts").len(), 1);
    assert_eq!(spec["containers"][1]["volumeMounts"][1], token_mount());
    let spec = admitted(json!({"containers": [{"name": "a", "volumeMounts": [own]}]}));
    assert_eq!(spec.get("volumes"), None, "no container needs the volume");
}

#[test]
fn second_run_reuses_the_volume() {
    let mut write = pod(json!({"containers": [{"name": "c"}]}));
    let first = write.mutate(&strict(), &facts()).expect("admitted");
    let second = write.mutate(&strict(), &facts()).expect("admitted");
    assert_eq!(first, second);
}

#[test]
fn pod_decides_about_the_token_before_the_account() {
    let containers = json!([{"name": "c"}]);
    for (account, of_pod, want) in [
        ("default", None, true),
        ("default", Some(false), false),
        ("silent", None, false),
        ("silent", Some(true), true),
    ] {
        let mut spec = json!({"serviceAccountName": account, "containers": containers});
        if let Some(of_pod) = of_pod {
            spec["automountServiceAccountToken"] = of_pod.into();
        }
        assert_eq!(admitted(spec)["volumes"].is_array(), want, "{account} {of_pod:?}");
    }
}

#[test]
fn pull_secrets_of_the_account_are_the_default() {
    let spec = admitted(json!({"serviceAccountName": "pulling"}));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    let spec = admitted(json!({"serviceAccountName": "pulling", "imagePullSecrets": [{"name": "own"}]}));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "own"}]));
}

#[test]
fn unknown_accounts_are_rejected() {
    let error =
        pod(json!({"serviceAccountName": "nosuch"})).mutate(&strict(), &facts()).expect_err("unknown");
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            403,
            "pods \"p\" is forbidden: error looking up service account ns/nosuch: serviceaccount \"nosuch\" not found"
        )
    );
    let error = pod(json!({})).validate(&strict(), &facts()).expect_err("a policy removed the name");
    assert_eq!(error.message, "pods \"p\" is forbidden: no service account specified for pod ns/p");
}

#[test]
fn without_the_controller_pods_need_no_account() {
    let spec = json!({"serviceAccountName": "nosuch", "containers": [{"name": "c"}]});
    let same = pod(spec.clone()).mutate(&with_controller(), &facts()).expect("does not apply");
    assert_eq!(same["spec"], spec);
    pod(json!({})).validate(&with_controller(), &facts()).expect("does not apply");
    let with = Facts::new(&[account("default", "default", json!({}))]);
    pod(spec).mutate(&with_controller(), &with).expect_err("the controller runs");
}

#[test]
fn while_the_controller_is_stopped_pods_of_new_namespaces_need_no_account() {
    let with = Facts::new(&[account("default", "default", json!({}))]);
    for spec in [json!({}), json!({"serviceAccountName": "default"})] {
        let same = pod(spec.clone()).mutate(&with_controller(), &with).expect("does not apply");
        assert_eq!(same["spec"], spec);
        pod(spec.clone()).validate(&with_controller(), &with).expect("does not apply");
        pod(spec).mutate(&strict(), &with).expect_err("the controller is part of the process");
    }
    let mirror = json!({"metadata": {"name": "p", "annotations": {MIRROR_POD: "h"}}, "spec": {"serviceAccountName": "default"}});
    let mirror = Write::create("pods", mirror).in_namespace("ns").mutate(&with_controller(), &with);
    mirror.expect_err("mirror pods are always checked");
}

/// Otherwise a user could disable the plugin by deleting the account.
#[test]
fn plugin_that_has_seen_the_controller_applies_until_the_process_ends() {
    let plugin = with_controller();
    let unknown = || pod(json!({"serviceAccountName": "nosuch"}));
    unknown().mutate(&plugin, &facts()).expect("does not apply yet");
    let with = Facts::new(&[account("default", "default", json!({}))]);
    unknown().mutate(&plugin, &with).expect_err("the controller runs");
    unknown().mutate(&plugin, &facts()).expect_err("the account default/default is deleted");
}

#[test]
fn default_account_is_awaited_if_it_is_missing() {
    let waits = |pod: Value, always: bool, facts: &Facts| {
        ServiceAccount::new(always).awaits_default_account(&Object::from_value(pod), "ns", facts)
    };
    let unnamed = json!({"spec": {}});
    assert!(waits(unnamed.clone(), true, &Facts::none()));
    assert!(waits(json!({"spec": {"serviceAccountName": "default"}}), true, &Facts::none()));
    assert!(!waits(json!({"spec": {"serviceAccountName": "other"}}), true, &Facts::none()));
    assert!(!waits(unnamed.clone(), false, &Facts::none()), "no controller will create it");
    assert!(!waits(unnamed, true, &facts()), "it exists");
    let mirror = json!({"metadata": {"annotations": {MIRROR_POD: "h"}}});
    assert!(!waits(mirror, true, &Facts::none()));
}

#[test]
fn mirror_pods_refer_to_no_accounts_and_secrets() {
    for (spec, want) in [
        (json!({}), None),
        (json!({"serviceAccountName": "default"}), Some("a mirror pod may not reference service accounts")),
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            Some("a mirror pod may not reference secrets"),
        ),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            Some("a mirror pod may not use ServiceAccountToken volume projections"),
        ),
    ] {
        let pod = json!({"metadata": {"name": "p", "annotations": {MIRROR_POD: "h"}}, "spec": spec});
        let result = Write::create("pods", pod.clone()).in_namespace("ns").mutate(&strict(), &facts());
        match want {
            None => assert_eq!(result.expect("admitted"), pod, "unchanged"),
            Some(want) => {
                let message = result.expect_err(want).message;
                assert_eq!(message, format!("pods \"p\" is forbidden: {want}"));
            }
        }
    }
}

#[test]
fn account_can_limit_the_secrets_of_its_pods() {
    let no = |what: &str| {
        format!("{what} is not allowed because service account strict does not reference that secret")
    };
    let env = |name: &str| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
    let from = |name: &str| json!([{"secretRef": {"name": name}}]);
    for (spec, want) in [
        (json!({"volumes": [{"name": "v", "secret": {"secretName": "mine"}}]}), String::new()),
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "other"}}]}),
            no("volume with secret.secretName=\"other\""),
        ),
        (json!({"containers": [{"name": "c", "env": env("mine"), "envFrom": from("mine")}]}), String::new()),
        (
            json!({"containers": [{"name": "c", "env": env("other")}]}),
            no("container c with envVar E referencing secret.secretName=\"other\""),
        ),
        (
            json!({"initContainers": [{"name": "c", "envFrom": from("other")}]}),
            no("init container c with envFrom referencing secret.secretName=\"other\""),
        ),
        (
            json!({"imagePullSecrets": [{"name": "registry"}, {"name": "other"}]}),
            "imagePullSecrets[1].name=\"other\" is not allowed because service account strict does not reference that imagePullSecret".to_owned(),
        ),
    ] {
        let mut spec = spec;
        spec["serviceAccountName"] = "strict".into();
        let result = pod(spec.clone()).mutate(&strict(), &facts());
        let got = result.err().map(|error| error.message.replace("pods \"p\" is forbidden: ", ""));
        assert_eq!(got.unwrap_or_default(), want, "{spec}");
    }
    let old = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "strict"}});
    let mut new = old.clone();
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "env": env("other")}]);
    let mut write = Write::update("pods", old, new).in_namespace("ns").to("ephemeralcontainers");
    let error = write.validate(&strict(), &facts()).expect_err("not mountable");
    assert!(
        error
            .message
            .ends_with(&no("ephemeral container e with envVar E referencing secret.secretName=\"other\""))
    );
}
