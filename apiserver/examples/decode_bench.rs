//! Measures how long it takes to decode a body: `cargo run --release --example decode_bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use orlop_apiserver::registry;
use orlop_codec::decode::{FieldValidation, Media, decode_object};

/// A pod of about 1.5 KB, as a client writes it.
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"default","labels":{"app":"web","tier":"front","pod-template-hash":"7d9c6b5f4"},"annotations":{"example.com/owner":"team-a","example.com/note":"a note of some length that says nothing"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d9c6b5f4","uid":"5f0f5c9e-1c55-4c1f-9d1c-0d5d1e6b7a11","controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-0"}},{"name":"config","configMap":{"name":"web-config","defaultMode":420}}],"containers":[{"name":"web","image":"registry.example.com/web:1.2.3","args":["--port","8080","--verbose"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"MODE","value":"production"},{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"config","mountPath":"/etc/web","readOnly":true}],"readinessProbe":{"httpGet":{"path":"/ready","port":"http","scheme":"HTTP"},"periodSeconds":10,"timeoutSeconds":1},"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}}"#;

fn main() {
    let Some(kind) = registry::by_resource("", "v1", "pods") else { return };
    let decode = || decode_object(kind, Media::Json, POD.as_bytes(), FieldValidation::Strict);
    if let Err(error) = decode() {
        println!("the body was refused: {error}");
        return;
    }
    let typed = time(|| {
        black_box(decode().is_ok());
    });
    let plain = time(|| {
        black_box(serde_json::from_str::<serde_json::Value>(POD).is_ok());
    });
    println!("{} bytes: decode {typed:?}, serde_json into a Value {plain:?}", POD.len());
}

/// The best mean of several rounds.
fn time(mut work: impl FnMut()) -> Duration {
    const RUNS: u32 = 2000;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..RUNS {
            work();
        }
        start.elapsed() / RUNS
    };
    (0..5).map(round).min().unwrap_or_default()
}
