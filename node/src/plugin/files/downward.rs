//! Computes the files of a downwardAPI volume (upstream: pkg/volume/downwardapi). Pure.

use std::collections::HashMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};

use super::payload::{Files, SharedContent, aggregate, put};
use crate::field_path;
use crate::resource_field::{self, Amounts};

/// Whether a file needs the capacity of the node.
pub(super) fn needs_node(items: &[DownwardAPIVolumeFile]) -> bool {
    items.iter().any(|item| item.field_ref.is_none() && item.resource_field_ref.is_some())
}

/// The files. Lines are sorted.
///
/// # Errors
/// Upstream's text for each field that cannot be resolved. Or the volume is too large.
pub(super) fn files(
    into: &mut Files,
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    allocatable: Option<&Amounts>,
    mode: u32,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    // One copy per field, however many items refer to it.
    let mut fields: HashMap<&str, Result<Bytes, String>> = HashMap::new();
    for item in items {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => {
                let of_pod = || field_path::of_metadata(pod, &field.field_path);
                let read = || of_pod().map(|text| sorted(&text)).map_err(|error| error.to_string());
                fields.entry(&field.field_path).or_insert_with(read).clone()
            }
            (None, Some(selector)) => resource_field::of_named(pod, selector, allocatable)
                .map(|text| sorted(&text))
                .map_err(|error| error.to_string()),
            (None, None) => Ok(Bytes::new()),
        };
        let mode = item.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(mode);
        let file = content.and_then(|bytes| put(into, &item.path, SharedContent { bytes, mode, uid: None }));
        wrong.extend(file.err());
    }
    aggregate(wrong)
}

fn sorted(text: &str) -> Bytes {
    let mut lines: Vec<_> = text.split('\n').collect();
    lines.sort_unstable();
    lines.join("\n").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pod_fields_become_files() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1", "a-b": "2"},
                "annotations": {"n": "two\nlines"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]}
        }))
        .unwrap();
        let node: Amounts = serde_json::from_value(json!({"memory": "2Gi"})).unwrap();
        let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
        let resource = |name: &str, divisor: &str| {
            json!({"path": "f", "mode": 0o400,
                "resourceFieldRef": {"containerName": "c", "resource": name, "divisor": divisor}})
        };
        for (items, want) in [
            (json!([field("metadata.name")]), Ok("f=p:644")),
            // `=` sorts after `-`.
            (json!([field("metadata.labels")]), Ok("f=a-b=\"2\"\na=\"1\":644")),
            (json!([field("metadata.annotations['n']")]), Ok("f=lines\ntwo:644")),
            (json!([resource("requests.cpu", "1m")]), Ok("f=250:400")),
            (json!([resource("limits.memory", "1Mi")]), Ok("f=2048:400")),
            (json!([{"path": "f"}]), Ok("f=:644")),
            (json!([]), Ok("")),
            (json!([field("spec.nodeName")]), Err("unsupported fieldPath: spec.nodeName")),
            (
                json!([field("x"), resource("limits.x", "1"), field("x")]),
                Err("[unsupported fieldPath: x, Unsupported container resource : limits.x]"),
            ),
        ] {
            let asked: Vec<DownwardAPIVolumeFile> = serde_json::from_value(items.clone()).unwrap();
            let mut payload = Files::default();
            let outcome = files(&mut payload, &asked, &pod, Some(&node), 0o644);
            let line = |(path, file): (&String, &SharedContent)| {
                format!("{path}={}:{:o}", String::from_utf8_lossy(&file.bytes), file.mode)
            };
            let got = outcome.map(|()| payload.iter().map(line).collect::<String>());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{items}");
        }
        let items =
            |item: Value| serde_json::from_value::<Vec<DownwardAPIVolumeFile>>(json!([item])).unwrap();
        assert!(needs_node(&items(resource("limits.cpu", "1"))));
        assert!(!needs_node(&items(field("metadata.name"))));
    }

    #[test]
    fn items_of_one_field_share_its_content() {
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {"name": "p", "annotations": {"a": "x".repeat(256 << 10)}}}),
        )
        .unwrap();
        let item = |path: usize| json!({"path": path.to_string(), "fieldRef": {"fieldPath": "metadata.annotations"}});
        let items = |n: usize| -> Vec<DownwardAPIVolumeFile> {
            (0..n).map(|path| serde_json::from_value(item(path)).unwrap()).collect()
        };
        let mut payload = Files::default();
        files(&mut payload, &items(3), &pod, None, 0o644).unwrap();
        let places: Vec<_> = payload.iter().map(|(_, content)| content.bytes.as_ptr()).collect();
        assert_eq!(places, [places[0]; 3]);
        let error = files(&mut Files::default(), &items(40_000), &pod, None, 0o644).unwrap_err();
        assert_eq!(error, "the files of the volume are larger than 64 MiB");
    }
}
