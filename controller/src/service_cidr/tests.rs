//! Tests of the decision, one row per case, and of the controller on the fake API server.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::decide::{Action, decide};
use super::prefix::Prefix;
use super::run;
use super::table::RangeTable;
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

const NOW: &str = "2026-11-26T12:00:00Z";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

#[test]
fn prefixes_are_compared() {
    let prefix = |text: &str| Prefix::parse(text).unwrap();
    for (one, other, contains) in [
        ("10.0.0.0/16", "10.0.1.0/24", true),
        ("10.0.1.0/24", "10.0.0.0/16", false),
        ("10.0.0.0/24", "10.0.0.0/24", true),
        ("10.0.0.0/24", "10.0.1.0/24", false),
        ("0.0.0.0/0", "10.0.1.0/24", true),
        ("0.0.0.0/0", "fd00::/64", false),
        ("fd00::/32", "fd00::/64", true),
    ] {
        assert_eq!(prefix(one).contains(&prefix(other)), contains, "{one} {other}");
        assert_eq!(Prefix::around(prefix(other).first(), prefix(one).length()) == prefix(one), contains);
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

fn table(ranges: &[Arc<ServiceCIDR>], addresses: &[&str]) -> RangeTable {
    let mut table = RangeTable::default();
    for range in ranges {
        table.put(&range.metadata.name.as_deref().unwrap().into(), Some(range));
    }
    for address in addresses {
        table.put_address(address.parse().unwrap(), true);
    }
    table
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
        let found = match decide(&range, &table(&all, &addresses), now) {
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
        let table = table(&all, &["10.0.0.5"]);
        let is_released = |range: &&Arc<ServiceCIDR>| decide(range, &table, now) == Action::Release;
        let mut found: Vec<&str> =
            all.iter().filter(is_released).filter_map(|range| range.metadata.name.as_deref()).collect();
        found.sort_unstable();
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn changes_queue_the_waiting_ranges_in_their_neighbourhood() {
    let deleted = Some("2026-11-26T11:00:00Z");
    let mut table = table(
        &[
            range("all", &["0.0.0.0/0"], deleted),
            range("large", &["10.0.0.0/16", "fd00::/32"], deleted),
            range("live", &["10.0.0.0/16"], None),
            range("same", &["10.0.1.0/24"], deleted),
            range("small", &["10.0.1.128/25"], deleted),
            range("other", &["10.0.2.0/24"], deleted),
            range("six", &["fd00::/64"], deleted),
        ],
        &[],
    );
    let near = |table: &RangeTable, prefix: &str| -> Vec<String> {
        let prefix = Prefix::parse(prefix).unwrap();
        table.waiting_near(&prefix).map(|name| name.to_string()).collect()
    };
    assert_eq!(near(&table, "10.0.1.0/24"), ["all", "large", "same", "small"]);
    assert_eq!(near(&table, "10.0.0.0/15"), ["all", "large", "same", "small", "other"]);
    assert_eq!(near(&table, "11.0.0.0/8"), ["all"]);
    assert_eq!(near(&table, "fd00:0:0:1::/64"), ["large"]);
    let waiting_for: Vec<String> =
        table.waiting_for("10.0.1.255".parse().unwrap()).map(|name| name.to_string()).collect();
    assert_eq!(waiting_for, ["all", "large"], "it is the last address of the other ranges");
    // A change of the condition concerns no other range, an old and a new prefix do.
    let prefixes =
        |found: Vec<Prefix>| found.iter().map(|prefix| prefix.first().to_string()).collect::<Vec<_>>();
    let same = range("same", &["10.0.1.0/24"], deleted);
    assert_eq!(prefixes(table.put(&"same".into(), Some(&same))), Vec::<String>::new());
    let moved = range("same", &["10.0.3.0/24"], deleted);
    assert_eq!(prefixes(table.put(&"same".into(), Some(&moved))), ["10.0.1.0", "10.0.3.0"]);
    assert_eq!(prefixes(table.put(&"same".into(), None)), ["10.0.3.0"]);
    assert_eq!(near(&table, "10.0.3.0/24"), ["all", "large"]);
}

/// Ranges that are being deleted, four with each prefix, and one address in each prefix.
fn many(count: usize) -> (Vec<Arc<ServiceCIDR>>, Vec<String>) {
    let deleted = Some("2026-11-26T11:00:00Z");
    let cidr = |n: usize| format!("10.{}.{}.0/24", n / 4 / 256, n / 4 % 256);
    let ranges = (0..count).map(|n| range(&format!("r{n}"), &[&cidr(n), "10.0.0.0/8"], deleted));
    let addresses = (0..count).map(|n| format!("10.{}.{}.{}", n / 4 / 256, n / 4 % 256, 1 + n % 4));
    (ranges.collect(), addresses.collect())
}

#[test]
fn cost_is_linear_in_the_ranges() {
    let now: Timestamp = NOW.parse().unwrap();
    assert_linear("ServiceCIDRs", 200, many, |(ranges, addresses)| {
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let table = table(ranges, &addresses);
        let released = ranges.iter().filter(|range| decide(range, &table, now) == Action::Release).count();
        assert_eq!(released, ranges.len() - 1, "one remains for the addresses");
    });
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
