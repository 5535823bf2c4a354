//! The bounds of documents that a light request decodes: each costs about a millisecond at most, whatever it contains. Pure.
//!
//! Bytes alone do not bound the cost: `{}` in a list of containers is three bytes of text, and takes as long as 300 bytes of an ordinary
//! object.

use orlop_codec::decode::{Media, estimate_body_weight, estimate_weight, weight_bound};

/// The most bytes of JSON that a light request decodes: of its body, of an object, or of the objects of a collection. 64 KiB of ordinary
/// JSON take about a millisecond.
pub(super) const LIGHT_BYTES: usize = 64 << 10;
/// The most weight of the values of such a document. A unit takes at most about 1.6 microseconds. A node with 20 KB weighs half of it.
const LIGHT_WEIGHT: u64 = 3_000;
/// The most bytes of YAML: its parser takes 20 times as long as that of JSON.
const LIGHT_YAML: usize = 4 << 10;
/// The most bytes of protobuf: an item with many absent fields takes 2 to 5 bytes.
const LIGHT_PROTOBUF: usize = 2 << 10;

/// Whether a body is cheap to decode.
pub(super) fn body(media: Media, body: &[u8]) -> bool {
    let most = match media {
        Media::Json => LIGHT_BYTES,
        Media::Yaml => LIGHT_YAML,
        Media::Protobuf => LIGHT_PROTOBUF,
    };
    // Anchors and aliases make a document longer than its text.
    let is_expanded = || media == Media::Yaml && body.iter().any(|byte| matches!(byte, b'*' | b'&'));
    let is_small = || media == Media::Json && weight_bound(body) <= LIGHT_WEIGHT;
    body.len() <= most && !is_expanded() && (is_small() || estimate_body_weight(media, body) <= LIGHT_WEIGHT)
}

/// Whether stored objects, in JSON, are cheap to decode together.
pub(super) fn documents<'d, D: Iterator<Item = &'d [u8]>>(documents: impl Fn() -> D) -> bool {
    // In this order, so that at most the bytes of a light request are read.
    is_within(documents(), LIGHT_BYTES as u64, |document| document.len() as u64)
        && (is_within(documents(), LIGHT_WEIGHT, weight_bound)
            || is_within(documents(), LIGHT_WEIGHT, estimate_weight))
}

/// Whether the measures of all documents together are at most `most`.
fn is_within<'d>(
    mut documents: impl Iterator<Item = &'d [u8]>,
    most: u64,
    measure: impl Fn(&'d [u8]) -> u64,
) -> bool {
    let mut sum = 0;
    documents.all(|document| {
        sum += measure(document);
        sum <= most
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set_of_fields(names: usize) -> Value {
        (0..names).map(|nth| (format!("f:field{nth}"), json!({}))).collect::<serde_json::Map<_, _>>().into()
    }

    /// Managed fields of a controller that owns some fields of the specification and of a list.
    fn managed_fields(manager: &str, names: usize) -> Value {
        let item = json!({".": {}, "f:lastHeartbeatTime": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
        let conditions: serde_json::Map<String, Value> =
            (0..5).map(|nth| (format!("k:{{\"type\":\"T{nth}\"}}"), item.clone())).collect();
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:metadata": {"f:labels": set_of_fields(names)},
            "f:spec": set_of_fields(names), "f:status": {"f:conditions": conditions}}})
    }

    fn lease() -> Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "n", "namespace": "kube-node-lease", "managedFields": [managed_fields("kubelet", 4)]},
            "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2026-01-02T03:04:05.000006Z"}})
    }

    fn pod() -> Value {
        let container = |nth: usize| {
            json!({"name": format!("c{nth}"), "image": "registry.example/app:1.2.3", "imagePullPolicy": "Always",
                "env": (0..10).map(|nth| json!({"name": format!("E{nth}"), "value": "some text"})).collect::<Vec<_>>(),
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": (0..5).map(|nth| json!({"name": format!("v{nth}"), "mountPath": "/v"})).collect::<Vec<_>>(),
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 80}}, "securityContext": {}})
        };
        let volumes: Vec<Value> =
            (0..5).map(|nth| json!({"name": format!("v{nth}"), "emptyDir": {}})).collect();
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"app": "a"},
                "managedFields": [managed_fields("kube-controller-manager", 20), managed_fields("kubelet", 20)]},
            "spec": {"containers": [container(0), container(1), container(2)], "volumes": volumes,
                "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}})
    }

    fn node() -> Value {
        let image = |nth: usize| {
            let name = format!("registry.example/team/some/application/image-{nth}");
            json!({"names": [format!("{name}@sha256:{}", "0".repeat(64)), format!("{name}:v1.2.3"), format!("{name}:latest-stable-build")], "sizeBytes": 123_456})
        };
        let condition = |nth: usize| {
            json!({"type": format!("T{nth}"), "status": "False", "reason": "R", "message": "some text",
                "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "labels": set_of_fields(20), "managedFields": [
                managed_fields("kubelet", 40), managed_fields("kube-controller-manager", 10)]},
            "spec": {"podCIDRs": ["10.0.0.0/24"]},
            "status": {"images": (0..50).map(image).collect::<Vec<_>>(),
                "conditions": (0..5).map(condition).collect::<Vec<_>>()}})
    }

    fn filled(object: &str, list: &str, item: &str, count: usize) -> String {
        let items = vec![item; count].join(",");
        format!("{{\"kind\":\"{object}\",\"spec\":{{\"{list}\":[{items}]}}}}")
    }

    #[test]
    fn ordinary_documents_are_light_and_attacks_are_not() {
        let node = node().to_string();
        let weight = estimate_weight(node.as_bytes());
        assert!(node.len() > 18_000 && weight < LIGHT_WEIGHT / 2, "{} bytes, weight {weight}", node.len());
        let bomb = format!("x: &a [{}]\ny: [{}]\n", "{\"\": 0}, ".repeat(100), "*a, ".repeat(100));
        let config_map =
            |bytes: usize| json!({"kind": "ConfigMap", "data": {"a": "{,[\n".repeat(bytes / 4)}}).to_string();
        let protobuf = |item: &[u8], count: usize| {
            let length = item.len() * count;
            let [low, high] =
                [length & 0x7f | 0x80, length >> 7].map(|bits| u8::try_from(bits).expect("a byte"));
            [b"k8s\0\x12".as_slice(), &[low, high], &item.repeat(count)].concat()
        };
        let apply = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 1, "template": pod()["spec"]}});
        for (case, media, text, want) in [
            ("1 a Lease", Media::Json, lease().to_string().into_bytes(), true),
            ("2 a pod", Media::Json, pod().to_string().into_bytes(), true),
            ("3 a node with 50 images", Media::Json, node.clone().into_bytes(), true),
            ("4 a ConfigMap", Media::Json, config_map(40_000).into_bytes(), true),
            ("5 a long ConfigMap", Media::Json, config_map(70_000).into_bytes(), false),
            ("6 a merge patch", Media::Json, br#"{"metadata":{"labels":{"a":"b"}}}"#.to_vec(), true),
            ("7 empty containers", Media::Json, filled("Pod", "containers", "{}", 400).into_bytes(), false),
            ("8 20,000 of them", Media::Json, filled("Pod", "containers", "{}", 20_000).into_bytes(), false),
            ("9 numbers", Media::Json, filled("Pod", "a", "0", 4_000).into_bytes(), false),
            ("10 empty members", Media::Json, filled("Pod", "a", "{\"b\":{}}", 400).into_bytes(), false),
            ("11 an apply by kubectl", Media::Yaml, apply.to_string().into_bytes(), true),
            ("12 a ConfigMap in YAML", Media::Yaml, b"kind: ConfigMap\ndata:\n  a: b\n".to_vec(), true),
            ("13 long YAML", Media::Yaml, format!("a: {}\n", "x".repeat(5_000)).into_bytes(), false),
            ("14 aliases", Media::Yaml, bomb.into_bytes(), false),
            ("15 one alias", Media::Yaml, b"a: &a x\nb: *a\n".to_vec(), false),
            ("16 anchors", Media::Yaml, b"a: &a [&b [&c [x]]]\n".to_vec(), false),
            (
                "17 YAML with empty items",
                Media::Yaml,
                format!("a: [{}]", "{},".repeat(1_000)).into_bytes(),
                false,
            ),
            (
                "18 a quote before them",
                Media::Yaml,
                format!("a: 5\"\nb: [{}]", "{},".repeat(1_000)).into_bytes(),
                false,
            ),
            ("19 objects in lines", Media::Yaml, "- a: 0\n".repeat(500).into_bytes(), false),
            (
                "20 small objects in protobuf",
                Media::Protobuf,
                protobuf(b"\x0a\x0d\x0a\x07default\x12\x00\x1a\x00", 100),
                true,
            ),
            ("21 empty volumes", Media::Protobuf, protobuf(&[10, 0], 900), false),
            ("22 small volumes", Media::Protobuf, protobuf(&[10, 2, 10, 0], 450), false),
            (
                "23 long protobuf",
                Media::Protobuf,
                protobuf(b"\x0a\x7faaaaaaaaaaaaaaaaaaaaaaaaaaaa", 70),
                false,
            ),
            ("24 nothing", Media::Json, Vec::new(), true),
        ] {
            let weight = estimate_body_weight(media, &text);
            assert!(media != Media::Json || weight_bound(&text) >= weight, "{case}: the bound");
            assert_eq!(body(media, &text), want, "{case}: {} bytes, weight {weight}", text.len());
            let is_stored_form = media == Media::Json;
            assert!(
                !is_stored_form || documents(|| std::iter::once(text.as_slice())) == want,
                "{case}: stored"
            );
        }
        let of_nodes = |count: usize| documents(|| std::iter::repeat_n(node.as_bytes(), count));
        assert!(of_nodes(1) && !of_nodes(4), "the bounds apply to all documents together");
    }
}
