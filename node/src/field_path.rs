//! Fields of a pod as text, for downwardAPI volumes and for environment variables (upstream: pkg/fieldpath).
//! Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use orlop_apimachinery::names::qualified_name;
use orlop_apimachinery::quoted;

/// Why a field path cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// There is no such field, or it is not exposed. The text is upstream's.
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
    /// The field is not a map.
    #[error("fieldPath \"{0}\" does not support subscript")]
    NoMap(String),
    /// The key is not a valid label or annotation key.
    #[error("invalid key subscript in {path}: {why}")]
    Key {
        /// The whole path.
        path: String,
        /// The fault of the key.
        why: String,
    },
}

/// Resolves a field that a volume may expose: name, namespace, UID, labels and annotations, all of them or one.
///
/// # Errors
/// The path is none of these.
pub fn of_metadata(pod: &Pod, path: &str) -> Result<String, FieldError> {
    let meta = &pod.metadata;
    if let Some((field, key)) = subscripted(path) {
        // The prefix of an annotation may contain capitals.
        let (map, checked) = match field {
            "metadata.annotations" => (&meta.annotations, key.to_lowercase()),
            "metadata.labels" => (&meta.labels, key.to_owned()),
            _ => return Err(FieldError::NoMap(path.to_owned())),
        };
        let wrong = qualified_name(&checked);
        if !wrong.is_empty() {
            return Err(FieldError::Key { path: path.to_owned(), why: wrong.join(";") });
        }
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    match path {
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.name" => Ok(meta.name.clone().unwrap_or_default()),
        "metadata.namespace" => Ok(meta.namespace.clone().unwrap_or_default()),
        "metadata.uid" => Ok(meta.uid.clone().unwrap_or_default()),
        _ => Err(FieldError::Unsupported(path.to_owned())),
    }
}

/// Resolves a field for an environment variable: the fields that volumes may expose, and those that are known
/// once the pod has its node and addresses.
///
/// # Errors
/// The path is none of these.
pub fn of_pod(pod: &Pod, path: &str) -> Result<String, FieldError> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let value = match path {
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" => status.and_then(|status| status.host_ip.clone()),
        "status.podIP" => status.and_then(|status| status.pod_ip.clone()),
        "status.hostIPs" => {
            let ips = status.and_then(|status| status.host_ips.as_ref());
            ips.map(|ips| ips.iter().map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(","))
        }
        "status.podIPs" => {
            let ips = status.and_then(|status| status.pod_ips.as_ref());
            ips.map(|ips| ips.iter().map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(","))
        }
        _ => return of_metadata(pod, path),
    };
    Ok(value.unwrap_or_default())
}

/// Splits `metadata.labels['key']` into its two parts.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// Formats a map for a volume: lines of `key="value"`, sorted by key.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"b": "2", "a/b": "1", "a-b": ""},
                "annotations": {"Up.example/Key": "x", "text": "line\n\t\"q\" \\ \u{1}\u{7f}é\u{301}\u{200b}\u{e0001}'"}},
            "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": []},
            "status": {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "podIP": "2.2.2.2",
                "podIPs": [{"ip": "2.2.2.2"}, {"ip": "::2"}]},
        }))
        .unwrap()
    }

    #[test]
    fn metadata_fields_are_resolved() {
        let text = r#"Up.example/Key="x"
text="line\n\t\"q\" \\ \x01\x7fé"#;
        let text = format!("{text}\u{301}\\u200b\\U000e0001'\"");
        for (path, want) in [
            ("metadata.name", Ok("p")),
            ("metadata.namespace", Ok("ns")),
            ("metadata.uid", Ok("u-1")),
            ("metadata.labels", Ok("a-b=\"\"\na/b=\"1\"\nb=\"2\"")),
            ("metadata.annotations", Ok(text.as_str())),
            ("metadata.labels['a/b']", Ok("1")),
            ("metadata.labels['none']", Ok("")),
            ("metadata.annotations['Up.example/Key']", Ok("x")),
            ("metadata.annotations['none']", Ok("")),
            ("metadata.name['x']", Err("fieldPath \"metadata.name['x']\" does not support subscript")),
            ("['x']", Err("unsupported fieldPath: ['x']")),
            ("metadata.labels['x'", Err("unsupported fieldPath: metadata.labels['x'")),
            ("metadata.generateName", Err("unsupported fieldPath: metadata.generateName")),
            ("spec.nodeName", Err("unsupported fieldPath: spec.nodeName")),
            ("", Err("unsupported fieldPath: ")),
        ] {
            let got = of_metadata(&pod(), path).map_err(|error| error.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{path}");
        }
        let error = of_metadata(&pod(), "metadata.labels['Up.example/x']").unwrap_err().to_string();
        assert!(error.starts_with("invalid key subscript in metadata.labels['Up.example/x']: "), "{error}");
        let error = of_metadata(&pod(), "metadata.annotations['a b']").unwrap_err().to_string();
        assert!(error.starts_with("invalid key subscript in metadata.annotations['a b']: "), "{error}");
        assert_eq!(of_metadata(&Pod::default(), "metadata.labels"), Ok(String::new()));
    }

    #[test]
    fn fields_of_a_running_pod_are_resolved() {
        for (path, want) in [
            ("spec.nodeName", "n"),
            ("spec.serviceAccountName", "sa"),
            ("status.hostIP", "1.1.1.1"),
            ("status.hostIPs", "1.1.1.1,::1"),
            ("status.podIP", "2.2.2.2"),
            ("status.podIPs", "2.2.2.2,::2"),
            ("metadata.labels['b']", "2"),
        ] {
            assert_eq!(of_pod(&pod(), path).unwrap(), want, "{path}");
            let empty = of_pod(&Pod::default(), path).unwrap();
            assert_eq!(empty, "", "{path}");
        }
        assert!(of_pod(&pod(), "status.phase").is_err());
    }
}
