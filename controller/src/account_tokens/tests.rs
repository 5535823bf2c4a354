//! Tests of the decisions, one row per case, and of the controllers on the fake API server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cleaner::{self, Fate, fate, is_unused, limits};
use super::mounted::secret_names;
use super::secrets::{self, Missing, missing, without};
use super::signer::{TokenSigner, TokenSubject};
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn options() -> Options {
    let sign = |subject: &TokenSubject| {
        let TokenSubject { namespace, secret, account, uid } = subject;
        Some(format!("{namespace}.{secret}.{account}.{uid}"))
    };
    Options {
        token_signer: Some(TokenSigner::new(sign)),
        root_ca: Some("CA".to_owned()),
        legacy_token_clean_up_period: 2 * DAY,
        ..Options::default()
    }
}

#[test]
fn missing_parts_are_found() {
    let all = Missing { token: true, namespace: true, root_ca: true };
    for (case, data, root_ca, want) in [
        ("1 empty", json!({}), Some("CA"), Some(all)),
        // "dA==" is "t", "bg==" is "n", "Q0E=" is "CA".
        ("2 complete", json!({"token": "dA==", "namespace": "bg==", "ca.crt": "Q0E="}), Some("CA"), None),
        (
            "3 other certificates",
            json!({"token": "dA==", "namespace": "bg==", "ca.crt": "dA=="}),
            Some("CA"),
            Some(Missing { token: false, namespace: false, root_ca: true }),
        ),
        ("4 no certificates are known", json!({"token": "dA==", "namespace": "bg=="}), None, None),
        (
            "5 an empty token",
            json!({"token": "", "namespace": "bg=="}),
            None,
            Some(Missing { token: true, namespace: false, root_ca: false }),
        ),
    ] {
        let secret: Secret = serde_json::from_value(json!({"metadata": {}, "data": data})).unwrap();
        assert_eq!(missing(&secret, root_ca), want, "{case}");
    }
}

#[test]
fn deleted_secret_leaves_the_list_of_its_account() {
    let account = |listed: Value| -> ServiceAccount {
        serde_json::from_value(json!({"metadata": {"name": "a", "uid": "u"}, "secrets": listed})).unwrap()
    };
    let both = || account(json!([{"name": "t"}, {"name": "other"}]));
    let rest = account(json!([{"name": "other"}]));
    for (case, account, uid, want) in [
        ("1 listed", both(), "u", Some(rest.clone())),
        ("2 no UID in the Secret", both(), "", Some(rest.clone())),
        ("3 another account", both(), "v", None),
        ("4 not listed", rest.clone(), "u", None),
        ("5 no list", account(Value::Null), "u", None),
    ] {
        assert_eq!(without(account, "t", uid), want, "{case}");
    }
}

#[test]
fn unused_tokens_are_marked_and_deleted() {
    let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
    let period = 10 * DAY;
    assert_eq!(limits("2026-11-16", now, period), None, "recorded for less than the period");
    assert_eq!(limits("tomorrow", now, period), None);
    let limits = limits("2026-11-15", now, period).unwrap();
    assert_eq!(
        (limits.used.to_string(), limits.today.to_string()),
        ("2026-11-16".into(), "2026-11-26".into())
    );
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-11-17T00:00:00Z");
    let token = |created: &str, labels: Value, deleted: Value| -> Secret {
        let metadata = json!({"name": "t", "creationTimestamp": created, "labels": labels, "deletionTimestamp": deleted});
        serde_json::from_value(json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"}))
            .unwrap()
    };
    let used = |date: &str| json!({"kubernetes.io/legacy-token-last-used": date});
    for (case, secret, want) in [
        ("1 never used", token(old, json!({}), Value::Null), true),
        ("2 new", token(new, json!({}), Value::Null), false),
        ("3 used long ago", token(old, used("2026-11-15"), Value::Null), true),
        ("4 used in the period", token(old, used("2026-11-16"), Value::Null), false),
        ("5 malformed date", token(old, used("never"), Value::Null), false),
        ("6 being deleted", token(old, json!({}), json!(new)), false),
    ] {
        assert_eq!(is_unused(&secret, &limits), want, "{case}");
    }
    let invalid =
        |date: &str| token(old, json!({"kubernetes.io/legacy-token-invalid-since": date}), Value::Null);
    for (case, secret, want) in [
        ("1 not marked", token(old, json!({}), Value::Null), Fate::Mark),
        ("2 malformed mark", invalid("x"), Fate::Mark),
        ("3 marked in the period", invalid("2026-11-16"), Fate::Stay),
        ("4 marked long ago", invalid("2026-11-15"), Fate::Delete),
    ] {
        assert_eq!(fate(&secret, &limits), want, "{case}");
    }
}

#[test]
fn secrets_of_a_pod_are_found_everywhere() {
    let pod: Pod = serde_json::from_value(json!({"spec": {
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
            {"name": "F", "value": "x"}], "envFrom": [{"secretRef": {"name": "env-from"}}]}],
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "init"}}]}],
        "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "ephemeral"}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "volume"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "m"}}]}},
            {"name": "c", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
            {"name": "d", "azureFile": {"secretName": "azure", "shareName": "s"}},
            {"name": "e", "emptyDir": {}}]}}))
    .unwrap();
    let names = ["azure", "csi", "env", "env-from", "ephemeral", "init", "projected", "pull", "volume"];
    assert!(secret_names(&pod).iter().eq(names), "{:?}", secret_names(&pod));
}

fn token_secret(name: &str, account: &str) -> Value {
    json!({"kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"namespace": "default", "name": name, "annotations": {"kubernetes.io/service-account.name": account}}})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")}})
}

#[tokio::test(start_paused = true)]
async fn secret_gets_a_token_until_its_account_is_deleted() {
    let api = FakeApi::new();
    api.seed(account("a"));
    api.seed(token_secret("t", "a"));
    api.seed(token_secret("lost", "none"));
    api.seed(
        json!({"kind": "Secret", "type": "Opaque", "metadata": {"namespace": "default", "name": "other"}}),
    );
    let _running = api.start(&[secrets::run], options());
    api.settle().await;
    let secret = api.get_as::<Secret>("default/t").unwrap();
    let data = secret.data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    assert_eq!(
        (text("token"), text("namespace"), text("ca.crt")),
        ("default.t.a.uid-a".into(), "default".into(), "CA".into())
    );
    assert_eq!(secret.metadata.annotations.unwrap()["kubernetes.io/service-account.uid"], "uid-a");
    assert_eq!(api.get("secrets", "default/lost"), None, "its account does not exist");
    api.delete("serviceaccounts", "default/a");
    api.settle().await;
    assert_eq!(api.get("secrets", "default/t"), None);
    assert!(api.get("secrets", "default/other").is_some());
}

#[tokio::test(start_paused = true)]
async fn account_with_the_same_name_gets_no_token_of_the_former_one() {
    let api = FakeApi::new();
    let mut secret = token_secret("t", "a");
    secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("uid-of-the-former-one");
    api.seed(account("a"));
    api.seed(secret);
    let _running = api.start(&[secrets::run], options());
    api.settle().await;
    assert_eq!(api.get("secrets", "default/t"), None);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        let mut account = account("a");
        account["secrets"] = json!([{"name": "t"}]);
        api.seed(account);
        api.seed(token_secret("t", "a"));
        api.seed(token_secret("lost", "none"));
    };
    let act = |api: &FakeApi| {
        api.delete("secrets", "default/t");
    };
    let api = survives_faults(&[secrets::run], options(), seed, act).await;
    assert_eq!(api.get("serviceaccounts", "default/a").unwrap()["secrets"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn unused_auto_generated_token_is_deleted_after_two_periods() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "kube-system",
        "name": "kube-apiserver-legacy-service-account-token-tracking"}, "data": {"since": "2020-01-01"}}));
    let mut listing = account("a");
    listing["secrets"] = json!([{"name": "auto"}, {"name": "mounted"}]);
    api.seed(listing);
    for name in ["auto", "mounted", "manual"] {
        let mut secret = token_secret(name, "a");
        secret["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        api.seed(secret);
    }
    api.seed(json!({"kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
        "spec": {"containers": [], "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]}}));
    let _running = api.start(&[cleaner::run], options());
    api.settle().await;
    let is_marked = |name: &str| {
        let secret = api.get("secrets", &format!("default/{name}")).unwrap();
        secret["metadata"]["labels"].get("kubernetes.io/legacy-token-invalid-since").is_some()
    };
    assert_eq!(["auto", "mounted", "manual"].map(is_marked), [true, false, false]);
    tokio::time::sleep(5 * DAY).await;
    assert_eq!(api.get("secrets", "default/auto"), None);
    assert!(
        api.get("secrets", "default/mounted").is_some() && api.get("secrets", "default/manual").is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_listed_page_by_page() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "kube-system",
        "name": "kube-apiserver-legacy-service-account-token-tracking"}, "data": {"since": "2020-01-01"}}));
    let name = |n: usize| format!("t{n:04}");
    let mut listing = account("a");
    listing["secrets"] = (0..1_100).map(|n| json!({"name": name(n)})).collect();
    api.seed(listing);
    // No account can have this name, and the other Secrets are cleaned up nevertheless.
    api.seed(token_secret("impossible", "a/b"));
    for n in 0..1_100 {
        let mut secret = token_secret(&name(n), "a");
        // The last page contains the only old one.
        let created = if n == 1_099 { "2020-01-01T00:00:00Z" } else { "2100-01-01T00:00:00Z" };
        secret["metadata"]["creationTimestamp"] = json!(created);
        api.seed(secret);
    }
    let _running = api.start(&[cleaner::run], options());
    api.settle().await;
    assert_eq!(api.requests().iter().filter(|request| *request == "GET /api/v1/secrets").count(), 3);
    let labels = api.get("secrets", "default/t1099").unwrap()["metadata"]["labels"].clone();
    assert!(labels.get("kubernetes.io/legacy-token-invalid-since").is_some());
}

#[tokio::test(start_paused = true)]
async fn secret_for_an_impossible_account_is_not_retried() {
    let api = FakeApi::new();
    api.seed(account("a"));
    api.seed(token_secret("impossible", "a/b"));
    api.seed(token_secret("t", "a"));
    let shutdown = CancellationToken::new();
    let context = api.context(options(), &shutdown);
    let failing = context.failing.clone();
    tokio::spawn(secrets::run(context));
    api.settle().await;
    assert!(api.get("secrets", "default/impossible").unwrap().get("data").is_none());
    assert!(api.get("secrets", "default/t").unwrap().get("data").is_some());
    let has_failed = || failing.metrics().contains("serviceaccount-token-controller");
    assert!(!has_failed(), "{}", failing.metrics());
    api.delete("secrets", "default/impossible");
    api.settle().await;
    assert!(!has_failed(), "{}", failing.metrics());
    shutdown.cancel();
}
