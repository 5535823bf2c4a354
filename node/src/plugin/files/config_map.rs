//! Computes the files of a ConfigMap volume (upstream: pkg/volume/configmap). Pure.

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath};

use super::atomic_writer::{Content, Payload};
use super::payload::{mode_of, put};

/// The files of a ConfigMap volume: all keys, or the requested ones.
///
/// # Errors
/// A key is missing, or a path leads out of the volume. The text is upstream's.
pub(super) fn files(
    into: &mut Payload,
    map: &ConfigMap,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: bool,
) -> Result<(), String> {
    let text = |key: &str| map.data.as_ref().and_then(|data| data.get(key)).map(|text| text.as_bytes());
    let binary =
        |key: &str| map.binary_data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let content = |bytes: &[u8], mode: u32| Content { bytes: bytes.to_vec(), mode, uid: None };
    let items = items.unwrap_or_default();
    if items.is_empty() {
        for (key, value) in map.data.iter().flatten() {
            put(into, key, content(value.as_bytes(), mode))?;
        }
        for (key, value) in map.binary_data.iter().flatten() {
            put(into, key, content(&value.0, mode))?;
        }
        return Ok(());
    }
    for item in items {
        match text(&item.key).or_else(|| binary(&item.key)) {
            Some(bytes) => put(into, &item.path, content(bytes, mode_of(item, mode)))?,
            None if optional => {}
            None => return Err(format!("configmap references non-existent config key: {}", item.key)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn shown(items: Value, optional: bool) -> Result<String, String> {
        let map: ConfigMap = serde_json::from_value(json!({
            "data": {"a": "text", "b": ""}, "binaryData": {"bin": "AP8="}
        }))
        .unwrap();
        let items: Option<Vec<KeyToPath>> = serde_json::from_value(items).unwrap();
        let mut payload = Payload::new();
        files(&mut payload, &map, items.as_deref(), 0o644, optional)?;
        let line = |(path, content): (&String, &Content)| {
            format!("{path}={}:{:o}", content.bytes.escape_ascii(), content.mode)
        };
        Ok(payload.iter().map(line).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn keys_become_files() {
        for (items, optional, want) in [
            (Value::Null, false, Ok("a=text:644 b=:644 bin=\\x00\\xff:644")),
            (json!([]), false, Ok("a=text:644 b=:644 bin=\\x00\\xff:644")),
            (json!([{"key": "a", "path": "d/x"}]), false, Ok("d/x=text:644")),
            (json!([{"key": "bin", "path": "./y//z", "mode": 256}]), false, Ok("y/z=\\x00\\xff:400")),
            (
                json!([{"key": "none", "path": "x"}]),
                false,
                Err("configmap references non-existent config key: none"),
            ),
            (json!([{"key": "none", "path": "x"}, {"key": "b", "path": "b"}]), true, Ok("b=:644")),
            (
                json!([{"key": "a", "path": "x/../../y"}]),
                false,
                Err("invalid path: must not contain '..': x/../../y"),
            ),
            (json!([{"key": "a", "path": "/x"}]), false, Err("invalid path: must be relative path: /x")),
        ] {
            let got = shown(items.clone(), optional);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{items}");
        }
    }
}
