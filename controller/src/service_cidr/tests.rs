//! Tests of the decision, one row per case, and of the controller on the fake API server.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::{Value, json};

use super::decide::{Action, decide};
use super::prefix::Prefix;
use super::run;
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

const NOW: &str = "2026-11-26T12:00:00Z";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

#[test]
fn prefixes_are_compared() {
    let prefix = |text: &str| Prefix::parse(text).unwrap();
    for (one, other, contains, overlaps) in [
        ("10.0.0.0/16", "10.0.1.0/24", true, true),
        ("10.0.1.0/24", "10.0.0.0/16", false, true),
        ("10.0.0.0/24", "10.0.0.0/24", true, true),
        ("10.0.0.0/24", "10.0.1.0/24", false, false),
        ("0.0.0.0/0", "10.0.1.0/24", true, true),
        ("0.0.0.0/0", "fd00::/64", false, false),
        ("fd00::/32", "fd00::/64", true, true),
    ] {
        let found = (prefix(one).contains(&prefix(other)), prefix(one).overlaps(&prefix(other)));
        assert_eq!(found, (contains, overlaps), "{one} {other}");
    }
    for (range, ip, wanted) in [
        ("10.0.0.0/24", "10.0.0.1", true),
        ("10.0.0.0/24", "10.0.0.0", false),
        ("10.0.0.0/24", "10.0.0.255", false),
        ("10.0.0.0/24", "10.0.1.1", false),
        ("10.0.0.0/24", "fd00::1", false),
        ("fd00::/120", "fd00::ff", true),
        ("fd00::/120", "fd00::", false),
        ("10.0.0.1/32", "10.0.0.1", false),
        ("0.0.0.0/0", "1.2.3.4", true),
    ] {
        assert_eq!(prefix(range).allocates(ip.parse().unwrap()), wanted, "{range} {ip}");
    }
    for wrong in ["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/-1"] {
        assert_eq!(Prefix::parse(wrong), None, "{wrong}");
    }
}

fn range(name: &str, cidrs: &[&str], deleted: Option<&str>) -> Arc<ServiceCIDR> {
    let metadata = json!({"name": name, "deletionTimestamp": deleted, "finalizers": [FINALIZER]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {"cidrs": cidrs}})).unwrap())
}

#[test]
fn range_is_deleted_after_its_addresses() {
    let now: Timestamp = NOW.parse().unwrap();
    let (long_ago, just_now) = (Some("2026-11-26T11:00:00Z"), Some("2026-11-26T11:59:56Z"));
    let own = || range("a", &["10.0.0.0/24"], long_ago);
    for (case, range, others, addresses, want) in [
        ("1 no addresses", own(), vec![], vec![], "release"),
        ("2 an address", own(), vec![], vec!["10.0.0.5"], "block"),
        ("3 an address of another range", own(), vec![], vec!["10.0.1.5"], "release"),
        ("4 a larger range", own(), vec![range("b", &["10.0.0.0/16"], None)], vec!["10.0.0.5"], "release"),
        ("5 the same range", own(), vec![range("b", &["10.0.0.0/24"], None)], vec!["10.0.0.5"], "release"),
        (
            "6 a smaller range with the address",
            own(),
            vec![range("b", &["10.0.0.0/28"], None)],
            vec!["10.0.0.5"],
            "release",
        ),
        (
            "7 a smaller range without the address",
            own(),
            vec![range("b", &["10.0.0.0/28"], None)],
            vec!["10.0.0.50"],
            "block",
        ),
        (
            "8 one of two families has a parent",
            range("a", &["10.0.0.0/24", "fd00::/64"], long_ago),
            vec![range("b", &["10.0.0.0/16"], None)],
            vec!["fd00::5"],
            "block",
        ),
        ("9 deleted 4 s ago", range("a", &["10.0.0.0/24"], just_now), vec![], vec![], "wait"),
    ] {
        let mut all = others;
        all.push(range.clone());
        let addresses: Vec<IpAddr> = addresses.iter().map(|ip: &&str| ip.parse().unwrap()).collect();
        let found = match decide(&range, &all, addresses.into_iter(), now) {
            Action::Release => "release",
            Action::Block(Some(ready)) if ready.reason == "Terminating" => "block",
            Action::Wait(left) if left == Duration::from_secs(6) => "wait",
            other => panic!("{case}: {other:?}"),
        };
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn ranges_that_are_deleted_together_do_not_replace_each_other() {
    let now: Timestamp = NOW.parse().unwrap();
    let (earlier, later) = (Some("2026-11-26T11:00:00Z"), Some("2026-11-26T11:01:00Z"));
    let range = |name: &str, cidr: &str, deleted: Option<&str>| range(name, &[cidr], deleted);
    let mut released = range("b", "10.0.0.0/24", later).as_ref().clone();
    released.metadata.finalizers = None;
    for (case, all, want) in [
        (
            "1 the same range",
            vec![range("a", "10.0.0.0/24", earlier), range("b", "10.0.0.0/24", later)],
            vec!["a"],
        ),
        (
            "2 at the same time",
            vec![range("b", "10.0.0.0/24", earlier), range("a", "10.0.0.0/24", earlier)],
            vec!["a"],
        ),
        (
            "3 the larger range is deleted first",
            vec![range("a", "10.0.0.0/24", later), range("b", "10.0.0.0/16", earlier)],
            vec!["b"],
        ),
        (
            "4 three of them",
            vec![
                range("a", "10.0.0.0/24", later),
                range("b", "10.0.0.0/24", earlier),
                range("c", "10.0.0.0/24", earlier),
            ],
            vec!["b", "c"],
        ),
        (
            "5 another range stays",
            vec![
                range("a", "10.0.0.0/24", earlier),
                range("b", "10.0.0.0/24", later),
                range("c", "10.0.0.0/16", None),
            ],
            vec!["a", "b"],
        ),
        (
            "6 the other is already released",
            vec![range("a", "10.0.0.0/24", earlier), Arc::new(released)],
            vec![],
        ),
    ] {
        let is_released = |range: &&Arc<ServiceCIDR>| {
            let addresses = ["10.0.0.5".parse::<IpAddr>().unwrap()];
            decide(range, &all, addresses.into_iter(), now) == Action::Release
        };
        let mut found: Vec<&str> =
            all.iter().filter(is_released).filter_map(|range| range.metadata.name.as_deref()).collect();
        found.sort_unstable();
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn only_a_deletion_without_a_larger_range_reads_the_addresses() {
    let now: Timestamp = NOW.parse().unwrap();
    let unread = std::iter::from_fn(|| -> Option<IpAddr> { panic!("an address is read") });
    let kept = range("a", &["10.0.0.0/24"], None);
    decide(&kept, &[kept.clone()], unread, now);
    let unread = std::iter::from_fn(|| -> Option<IpAddr> { panic!("an address is read") });
    let deleted = range("a", &["10.0.0.0/24"], Some("2026-11-26T11:00:00Z"));
    let all = [deleted.clone(), range("b", &["10.0.0.0/16"], None)];
    assert_eq!(decide(&deleted, &all, unread, now), Action::Release);
}

fn stored(name: &str, cidr: &str) -> Value {
    json!({"kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": [cidr]}})
}

fn ready(api: &FakeApi, name: &str) -> Value {
    let mut condition = api.get("servicecidrs", name).unwrap()["status"]["conditions"][0].clone();
    condition.as_object_mut().unwrap().remove("lastTransitionTime");
    condition
}

#[tokio::test(start_paused = true)]
async fn range_is_ready_and_stays_while_it_has_addresses() {
    let api = FakeApi::new();
    api.seed(stored("a", "10.0.0.0/24"));
    api.seed(json!({"kind": "IPAddress", "metadata": {"name": "10.0.0.5",
        "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}}}));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let want = json!({"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"});
    assert_eq!(ready(&api, "a"), want);
    assert_eq!(api.get("servicecidrs", "a").unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    api.delete("servicecidrs", "a");
    api.settle().await;
    assert_eq!(ready(&api, "a")["reason"], "Terminating");
    api.delete("ipaddresses", "10.0.0.5");
    api.settle().await;
    assert_eq!(api.get("servicecidrs", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(stored("a", "10.0.0.0/24"));
        api.seed(stored("b", "10.0.0.0/16"));
    };
    let act = |api: &FakeApi| {
        api.delete("servicecidrs", "a");
    };
    survives_faults(&[run], Options::default(), seed, act).await;
}
