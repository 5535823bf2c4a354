//! Queries of a fake API.
#![allow(clippy::unwrap_used)]
use k8s_openapi::api::core::v1::{Node, NodeStatus};

use crate::cluster_view::ClusterView as _;
use orlop_test_support::FakeApi;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::model::Code;
use super::*;

fn question(name: &str, object: Value) -> Question {
    Question {
        api_version: "v1".to_owned(),
        resource: "pods".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some("ns".to_owned()),
        name: name.to_owned(),
        object,
    }
}

#[tokio::test]
async fn only_some_claims_of_a_pod_are_explained() {
    let api = FakeApi::new();
    let volumes: Vec<Value> = (0..100)
        .map(|n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}}))
        .collect();
    for n in 0..100 {
        api.seed(
            json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": format!("c{n}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        );
    }
    let pod = json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"containers": [], "volumes": volumes}});
    let shutdown = CancellationToken::new();
    let service = Service::default();
    service.look_at(api.client(), Informers::new(api.client(), shutdown.clone()), Settings::default());
    let why = service.explain(&question("p", pod)).await.unwrap();
    let codes = |code: Code| why.causes.iter().filter(|cause| cause.code == code).count();
    assert_eq!((codes(Code::ClaimNotBound), codes(Code::ClaimsLeftOut)), (CLAIMS, 1));
    let lists = api.requests().iter().filter(|request| request.contains("involvedObject")).count();
    assert!(lists <= CLAIMS + 1, "{lists} lists of events");
    shutdown.cancel();
}

#[tokio::test]
async fn ended_query_finds_nothing_and_nodes_are_read_once() {
    let api = FakeApi::new();
    let shutdown = CancellationToken::new();
    let live = Live::start(Informers::new(api.client(), shutdown.clone())).await;
    let mut node = Node { status: Some(NodeStatus::default()), ..Node::default() };
    node.metadata.name = Some("n".to_owned());
    node.metadata.resource_version = Some("1".to_owned());
    live.nodes.apply(node);
    let view = || View::new(Arc::clone(&live), Settings::default(), FetchedObjects::default());
    let ended = view();
    drop(Ended(Arc::clone(&ended.ended)));
    assert_eq!((ended.nodes().len(), ended.node("n").is_some()), (0, false));
    let going = view();
    assert_eq!((going.nodes().len(), going.node("n").is_some()), (1, true));
    assert!(Arc::ptr_eq(&going.nodes()[0], &going.nodes()[0]));
    assert!(Arc::ptr_eq(&going.volume_limits("n"), &going.volume_limits("n")));
    shutdown.cancel();
}
