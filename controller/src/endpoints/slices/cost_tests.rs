//! Tests of the work and of the limits for Services with many ports and pods.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_apimachinery::thread_time::assert_linear;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decide::{Decision, MOST_PORTS, Situation, decide};
use super::run;
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::selecting_spec;
use crate::endpoints::testing::{node, pod_with_port, service_with_ports};
use crate::options::Options;
use crate::testing::FakeApi;

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A Service with `ports` ports, and pods that the numbers of their port `http` describe.
struct Large {
    service: Service,
    pods: Vec<Arc<Pod>>,
}

impl Large {
    fn new(ports: usize, target: &Value, numbers: impl Iterator<Item = usize>) -> Self {
        let pods = numbers.enumerate().map(|(nth, number)| typed(pod_with_port(nth, number)));
        Self { service: typed(service_with_ports(ports, target)), pods: pods.map(Arc::new).collect() }
    }

    fn decide(&self, existing: &[Arc<EndpointSlice>], most: usize) -> Result<Decision, EndpointsError> {
        let (spec, _) = selecting_spec(&self.service).unwrap();
        let node = |_: &str| Some(Arc::new(Node::default()));
        let situation = Situation { service: &self.service, spec, pods: &self.pods, node: &node, most };
        decide(&situation, existing, "IPv4", &Mutex::default())
    }
}

#[test]
fn work_does_not_grow_with_the_product_of_pods_and_ports() {
    for (name, target) in [("1 numbers", json!(80)), ("2 a named port", json!("http"))] {
        let input = |n: usize| Large::new(n, &target, std::iter::repeat_n(80, n));
        assert_linear(name, 500, input, |large| {
            assert_eq!(large.decide(&[], usize::MAX).unwrap().changes.create.len(), 1, "{name}");
        });
    }
    let input = |n: usize| {
        let large = Large::new(1, &json!(80), 0..n);
        let slices = large.decide(&[], 1).unwrap().changes.create.into_iter().enumerate();
        let named = slices.map(|(nth, mut slice)| {
            slice.metadata.name = Some(format!("slice-{nth:09}"));
            Arc::new(slice)
        });
        let slices: Vec<_> = named.collect();
        (Large::new(1, &json!(81), 0..n), slices)
    };
    assert_linear("3 many slices", 500, input, |(large, slices)| {
        assert_eq!(large.decide(slices, 1).unwrap().changes.update.len(), slices.len());
    });
}

#[test]
fn slices_with_too_many_ports_are_an_error() {
    // Each port of the Service leads to another port of each pod, so each pod has its own slice.
    let slices = |pods: usize| Large::new(1_000, &json!("http"), 1..=pods).decide(&[], 100);
    assert_eq!(slices(MOST_PORTS / 1_000).unwrap().changes.create.len(), 500, "1");
    let error = slices(MOST_PORTS / 1_000 + 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "the EndpointSlices for Service ns/s would have 501000 ports in total, the maximum is 500000: use fewer \
        ports, or numbers as target ports, or more endpoints per slice",
        "2"
    );
}

#[tokio::test(start_paused = true)]
async fn service_with_too_many_ports_is_reported_and_not_retried() {
    let api = FakeApi::new();
    api.seed(node("n", "a", "1"));
    for nth in 0..=MOST_PORTS / 1_000 {
        api.seed(pod_with_port(nth, nth + 1));
    }
    api.seed(service_with_ports(1_000, &json!("http")));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(api.list("endpointslices").len(), 0);
    let events = api.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("Service ns/s Warning FailedToUpdateEndpointSlices Error updating"),
        "{events:?}"
    );
}
