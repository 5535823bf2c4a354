//! Tests of the decision, and of the controller on the fake API server. The cases that begin with `ctl-ep-` are named after
//! recorded answers of kube-controller-manager.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::decide::{self, Decision, is_mirrored};
use super::run;
use crate::endpoints::testing::{endpoints, ip, service};
use crate::options::Options;
use crate::testing::{FakeApi, merge_into};
use crate::workload::testing::every_write_fails_once;

fn object(more: Value) -> Value {
    let mut object = json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": "s", "uid": "uid-e", "labels": {"golden": "x"}},
        "subsets": [{"addresses": [{"ip": "10.9.1.1"}, {"ip": "10.9.1.2", "hostname": "h"}],
            "notReadyAddresses": [{"ip": "10.9.1.3"}], "ports": [{"port": 80, "protocol": "TCP"}]}]});
    merge_into(&mut object, &more);
    object
}

fn without_selector() -> Value {
    service(json!({"spec": {"selector": null}}))
}

fn typed(more: Value) -> Endpoints {
    serde_json::from_value(object(more)).unwrap()
}

fn decide(object: &Endpoints, existing: &[Arc<EndpointSlice>], most: usize) -> Decision {
    decide::decide(object, existing, most).unwrap()
}

#[test]
fn excluded_endpoints_and_locks_are_not_mirrored() {
    assert!(is_mirrored(&typed(json!({}))), "1");
    let label = |value: &str| {
        typed(json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": value}}}))
    };
    assert!(!is_mirrored(&label("true")), "2 ctl-ep-no-mirror");
    assert!(is_mirrored(&label("false")), "3");
    let lock = json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
    assert!(!is_mirrored(&typed(lock)), "4");
}

#[test]
fn slice_has_the_addresses_labels_and_annotations_of_the_endpoints() {
    let annotations = json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"});
    let object = typed(json!({"metadata": {"annotations": annotations}}));
    let decision = decide(&object, &[], 1000);
    assert_eq!((decision.invalid, decision.skipped), (0, 0));
    let [slice] = decision.changes.create.as_slice() else { panic!("{decision:?}") };
    assert_eq!(
        serde_json::to_value(slice).unwrap(),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"generateName": "s-", "namespace": "ns", "annotations": {"a": "b"},
                "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
                    "golden": "x", "kubernetes.io/service-name": "s"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "s", "uid": "uid-e",
                    "controller": true, "blockOwnerDeletion": true}]},
            "endpoints": [{"addresses": ["10.9.1.1"], "conditions": {"ready": true}},
                {"addresses": ["10.9.1.2"], "conditions": {"ready": true}, "hostname": "h"},
                {"addresses": ["10.9.1.3"], "conditions": {"ready": false}}],
            "ports": [{"name": "", "protocol": "TCP", "port": 80}]}),
        "1 ctl-ep-no-selector"
    );
    let mut stored = slice.clone();
    stored.metadata.name = Some("s-1".to_owned());
    stored.metadata.resource_version = Some("7".to_owned());
    let stored = Arc::new(stored);
    assert_eq!(decide(&object, &[Arc::clone(&stored)], 1000).changes, Default::default(), "2 no change");

    // Name, changed Endpoints, names and versions of updated slices, number of created and deleted ones.
    let changed = |label: &str| json!({"metadata": {"annotations": {"a": "b"}, "labels": {"golden": label}}});
    let ports = json!([{"addresses": [{"ip": "10.9.1.4"}], "ports": [{"port": 81, "name": "p"}]}]);
    let table: [(&str, Value, usize, usize, usize); 5] = [
        ("3 another label", changed("y"), 0, 1, 0),
        ("4 other ports reuse the slice", json!({"subsets": ports}), 0, 1, 0),
        ("5 no addresses", json!({"subsets": []}), 0, 0, 1),
        ("6 another family", json!({"subsets": [{"addresses": [{"ip": "fd00::1"}]}]}), 1, 0, 1),
        (
            "7 both families",
            json!({"metadata": {"annotations": {"a": "b"}}, "subsets": [{"addresses": [{"ip": "fd00::1"},
                {"ip": "10.9.1.1"}, {"ip": "10.9.1.2", "hostname": "h"}], "notReadyAddresses": [{"ip": "10.9.1.3"}],
                "ports": [{"port": 80, "protocol": "TCP"}]}]}),
            1,
            0,
            0,
        ),
    ];
    for (name, more, created, updated, deleted) in table {
        let changes = decide(&typed(more), &[Arc::clone(&stored)], 1000).changes;
        let counts = (changes.create.len(), changes.update.len(), changes.delete.len());
        assert_eq!(counts, (created, updated, deleted), "{name}");
        for slice in &changes.update {
            let version = slice.metadata.resource_version.as_deref();
            assert_eq!((slice.metadata.name.as_deref(), version), (Some("s-1"), Some("7")), "{name}");
        }
    }
    let twice: Vec<Arc<EndpointSlice>> = vec![Arc::clone(&stored), stored];
    assert_eq!(decide(&object, &twice, 1000).changes.delete.len(), 1, "8 a surplus slice");
}

#[test]
fn invalid_and_surplus_addresses_are_counted() {
    let addresses =
        json!([{"ip": "x"}, {"ip": "10.9.1.1"}, {"ip": "010.9.1.2"}, {"ip": "10.9.1.3"}, {"ip": "10.9.1.4"}]);
    let decision = decide(&typed(json!({"subsets": [{"addresses": addresses}]})), &[], 2);
    // In the order of their texts: 010.9.1.2, 10.9.1.1, 10.9.1.3, 10.9.1.4, x.
    assert_eq!((decision.invalid, decision.skipped), (0, 3), "1");
    let slices: Vec<Value> =
        decision.changes.create.iter().map(|slice| serde_json::to_value(slice).unwrap()).collect();
    assert_eq!(endpoints(&slices), ["10.9.1.1 r", "10.9.1.2 r"], "1");
    let decision = decide(&typed(json!({"subsets": [{"addresses": [{"ip": "x"}, {"ip": "y"}]}]})), &[], 2);
    assert_eq!((decision.invalid, decision.skipped), (2, 2), "2");
}

/// A subset with the addresses and ports of these numbers.
fn subset(addresses: std::ops::Range<usize>, ports: std::ops::Range<usize>) -> Value {
    let ip = |n: usize| json!({"ip": ip(n)});
    let port = |n: usize| json!({"name": format!("p{n}"), "port": n + 1, "protocol": "TCP"});
    json!({"addresses": addresses.map(ip).collect::<Value>(), "ports": ports.map(port).collect::<Value>()})
}

#[test]
fn work_does_not_grow_with_the_product_of_addresses_and_ports() {
    let input = |n: usize| typed(json!({"subsets": [subset(0..n, 0..n)]}));
    assert_linear("1 one subset", 1_000, input, |object| {
        let changes = decide(object, &[], 1000).changes;
        assert_eq!(changes.create.len(), 1);
    });
    let input = |n: usize| {
        let subsets = (0..n).map(|nth| subset(nth..nth + 1, nth..nth + 1)).collect::<Value>();
        let object = typed(json!({"subsets": subsets}));
        let slices = decide(&object, &[], 1000).changes.create;
        let slices: Vec<_> = slices.into_iter().map(Arc::new).collect();
        (typed(json!({"subsets": [subset(0..n, 0..1)]})), slices)
    };
    assert_linear("2 surplus slices", 500, input, |(object, slices)| {
        assert_eq!(decide(object, slices, 1000).changes.delete.len(), slices.len() - 1);
    });
}

#[test]
fn endpoints_with_too_many_addresses_in_shared_subsets_are_an_error() {
    // Port n is in the first subset and in another one, so each port has its own addresses.
    let object = |ports: usize| {
        let others = (0..ports).map(|nth| subset(nth + 1000..nth + 1001, nth..nth + 1));
        let subsets: Value = [subset(0..999, 0..ports)].into_iter().chain(others).collect();
        typed(json!({"subsets": subsets}))
    };
    let decision = decide(&object(300), &[], 10);
    assert_eq!((decision.changes.create.len(), decision.skipped), (300, 300_000 - 300 * 10));
    assert!(decide::decide(&object(301), &[], 10).is_err());
}

#[tokio::test(start_paused = true)]
async fn controller_follows_endpoints_and_services() {
    let api = FakeApi::new();
    api.seed(object(json!({})));
    let options = Options { mirroring_max_endpoints_per_subset: 2, ..Options::default() };
    let _running = api.start(&[run], options);
    api.settle().await;
    let slices = || endpoints(&api.list("endpointslices"));
    assert_eq!(slices(), Vec::<String>::new(), "1 no Service");
    api.seed(without_selector());
    api.settle().await;
    assert_eq!(slices(), ["10.9.1.1 r", "10.9.1.2 r"], "2");
    assert_eq!(
        api.events(),
        [
            "Endpoints ns/s Warning TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per \
          Endpoints subset. 1 addresses were skipped"
        ]
    );
    api.patch(
        "endpoints",
        "ns/s",
        "",
        json!({"subsets": [{"addresses": [{"ip": "10.9.1.4"}], "ports": [{"port": 81, "name": "p"}]}]}),
    );
    api.settle().await;
    assert_eq!(slices(), ["10.9.1.4 r"], "3");
    let key = format!("ns/{}", api.list("endpointslices")[0]["metadata"]["name"].as_str().unwrap());
    api.delete("endpointslices", &key);
    api.settle().await;
    assert_eq!(slices(), ["10.9.1.4 r"], "4 deleted by another client");
    api.patch("services", "ns/s", "", json!({"spec": {"selector": {"app": "web"}}}));
    api.settle().await;
    assert_eq!(slices(), Vec::<String>::new(), "5 the Service has a selector");
    api.patch("services", "ns/s", "", json!({"spec": {"selector": null}}));
    api.settle().await;
    assert_eq!(slices(), ["10.9.1.4 r"], "6");
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    api.patch("endpoints", "ns/s", "", skip);
    api.settle().await;
    assert_eq!(slices(), Vec::<String>::new(), "7 excluded");
    let include = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": null}}});
    api.patch("endpoints", "ns/s", "", include);
    api.settle().await;
    assert_eq!(slices(), ["10.9.1.4 r"], "8");
    api.delete("endpoints", "ns/s");
    api.settle().await;
    assert_eq!(slices(), Vec::<String>::new(), "9 deleted");
}

/// The Endpoints or the Service exist, although the cache does not contain them after a restart.
#[tokio::test(start_paused = true)]
async fn i12_slices_of_undecodable_objects_are_not_deleted() {
    type Act = fn(&FakeApi);
    let rows: [(&str, Act, usize); 3] = [
        ("1 no Endpoints", |api| assert!(api.delete("endpoints", "ns/s")), 0),
        ("2 undecodable Endpoints", |api| drop(api.patch("endpoints", "ns/s", "", json!({"subsets": 7}))), 1),
        (
            "3 undecodable Service",
            |api| drop(api.patch("services", "ns/s", "", json!({"spec": {"clusterIP": 7}}))),
            1,
        ),
    ];
    for (case, act, kept) in rows {
        let api = FakeApi::new();
        api.seed(without_selector());
        api.seed(object(json!({})));
        let before = api.start(&[run], Options::default());
        api.settle().await;
        assert_eq!(api.list("endpointslices").len(), 1, "{case}");
        drop(before);
        api.settle().await;
        act(&api);
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        assert_eq!(api.list("endpointslices").len(), kept, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(without_selector());
        api.seed(object(json!({})));
    };
    let act = |api: &FakeApi| {
        let both = json!([{"addresses": [{"ip": "fd00::1"}]}]);
        api.patch("endpoints", "ns/s", "", json!({"subsets": both}));
    };
    every_write_fails_once(&[run], seed, act, |api, when| {
        assert_eq!(endpoints(&api.list("endpointslices")), ["fd00::1 r"], "{when}");
    })
    .await;
}
