//! Measures what `kubectl get pv` of many volumes costs, without a network: a list as a table, and as a list.
//! `cargo run --release -p orlop-apiserver --example table_bench`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use orlop_apiserver::authentication::in_process;
use orlop_apiserver::{ApiService, Config, Server};
use orlop_store::memory::{Memory, MemoryOptions};
use tower::ServiceExt as _;

const VOLUMES: usize = 5000;
const PATH: &str = "/api/v1/persistentvolumes";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn volume(number: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"pvc-{number:08}-5ad6-4f6c-9c63-3bfe3a1a6a11","annotations":{{"pv.kubernetes.io/provisioned-by":"csi.example.com","volume.kubernetes.io/provisioner-deletion-secret-name":""}},"labels":{{"zone":"a"}}}},"spec":{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"10Gi"}},"claimRef":{{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":"team-{}","name":"data-{number}","uid":"u-{number}"}},"csi":{{"driver":"csi.example.com","volumeHandle":"vol-{number}","fsType":"ext4","volumeAttributes":{{"storage.kubernetes.io/csiProvisionerIdentity":"1700000000000-8081-csi.example.com"}}}},"nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"topology.kubernetes.io/zone","operator":"In","values":["a"]}}]}}]}}}},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"fast","volumeMode":"Filesystem"}}}}"#,
        number % 50
    )
}

async fn ask(service: &ApiService, accept: &str) -> usize {
    let request = Request::get(PATH).header("accept", accept).body(Body::empty());
    let response = service.clone().oneshot(request.expect("a request")).await.expect("an answer");
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.expect("a frame").data_ref().map_or(0, |data| data.len());
    }
    length
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let store = Arc::new(Memory::with(MemoryOptions::default()));
    let server = Server::start(store, Config::default()).await.expect("a server");
    let service = in_process(server.service(), orlop_auth::UserInfo::admin());
    for number in 0..VOLUMES {
        let request = Request::post(PATH).header("content-type", "application/json");
        let request = request.body(Body::from(volume(number))).expect("a request");
        let response = service.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), 201);
    }
    for (what, accept) in [
        ("table", TABLE),
        ("list", "application/json"),
        ("metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    ] {
        let mut best = Duration::MAX;
        let mut length = 0;
        for _ in 0..9 {
            let start = Instant::now();
            length = ask(&service, accept).await;
            best = best.min(start.elapsed());
        }
        println!("{what}: {VOLUMES} volumes, {length} bytes, {best:?}, {:?} each", best / 5000);
    }
}
