//! Computes the files of a ConfigMap volume (upstream: pkg/volume/configmap). Pure.

use std::collections::HashMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath};

use super::payload::{Files, SharedContent, mode_of, put};

/// The files of a ConfigMap volume: all keys, or the requested ones.
///
/// # Errors
/// A key is missing, or a path leads out of the volume: the text is upstream's. Or the volume is too large.
pub(super) fn files(
    into: &mut Files,
    map: &ConfigMap,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: bool,
) -> Result<(), String> {
    let text = |key: &str| map.data.as_ref().and_then(|data| data.get(key)).map(|text| text.as_bytes());
    let binary =
        |key: &str| map.binary_data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let content = |bytes: Bytes, mode: u32| SharedContent { bytes, mode, uid: None };
    let items = items.unwrap_or_default();
    if items.is_empty() {
        for (key, value) in map.data.iter().flatten() {
            put(into, key, content(Bytes::copy_from_slice(value.as_bytes()), mode))?;
        }
        for (key, value) in map.binary_data.iter().flatten() {
            put(into, key, content(Bytes::copy_from_slice(&value.0), mode))?;
        }
        return Ok(());
    }
    // One copy per key, however many items refer to it.
    let mut copies: HashMap<&str, Bytes> = HashMap::new();
    for item in items {
        match text(&item.key).or_else(|| binary(&item.key)) {
            Some(bytes) => {
                let copy = copies.entry(&item.key).or_insert_with(|| Bytes::copy_from_slice(bytes));
                put(into, &item.path, content(copy.clone(), mode_of(item, mode)))?;
            }
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
        let mut payload = Files::default();
        files(&mut payload, &map, items.as_deref(), 0o644, optional)?;
        let line = |(path, content): (&String, &SharedContent)| {
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

    #[test]
    fn items_of_one_key_share_its_content() {
        let map: ConfigMap = serde_json::from_value(json!({"data": {"a": "text"}})).unwrap();
        let item = |path: usize| KeyToPath { key: "a".to_owned(), path: path.to_string(), mode: None };
        let mut payload = Files::default();
        files(&mut payload, &map, Some(&(0..3).map(item).collect::<Vec<_>>()), 0o644, false).unwrap();
        let places: Vec<_> = payload.iter().map(|(_, content)| content.bytes.as_ptr()).collect();
        assert_eq!(places, [places[0]; 3]);
    }

    #[test]
    fn large_content_with_many_items_is_rejected() {
        let map: ConfigMap = serde_json::from_value(json!({"data": {"a": "x".repeat(1 << 20)}})).unwrap();
        let item = |path: usize| KeyToPath { key: "a".to_owned(), path: path.to_string(), mode: None };
        let items: Vec<_> = (0..50_000).map(item).collect();
        let error = files(&mut Files::default(), &map, Some(&items), 0o644, false).unwrap_err();
        assert_eq!(error, "the files of the volume are larger than 64 MiB");
    }
}
