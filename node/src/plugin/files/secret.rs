//! Computes the files of a Secret volume (upstream: pkg/volume/secret). Pure. No error contains their content.

use std::collections::HashMap;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{KeyToPath, Secret};

use super::payload::{Files, SharedContent, mode_of, put};

/// The files of a Secret volume: all keys, or the requested ones.
///
/// # Errors
/// A key is missing, or a path leads out of the volume: the text is upstream's. Or the volume is too large.
pub(super) fn files(
    into: &mut Files,
    secret: &Secret,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: bool,
) -> Result<(), String> {
    let content = |bytes: Bytes, mode: u32| SharedContent { bytes, mode, uid: None };
    let items = items.unwrap_or_default();
    if items.is_empty() {
        for (key, value) in secret.data.iter().flatten() {
            put(into, key, content(Bytes::copy_from_slice(&value.0), mode))?;
        }
        return Ok(());
    }
    // One copy per key, however many items refer to it.
    let mut copies: HashMap<&str, Bytes> = HashMap::new();
    for item in items {
        match secret.data.as_ref().and_then(|data| data.get(&item.key)) {
            Some(bytes) => {
                let copy = copies.entry(&item.key).or_insert_with(|| Bytes::copy_from_slice(&bytes.0));
                put(into, &item.path, content(copy.clone(), mode_of(item, mode)))?;
            }
            None if optional => {}
            None => return Err(format!("references non-existent secret key: {}", item.key)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn keys_become_files_and_are_never_shown() {
        let secret: Secret = serde_json::from_value(json!({"data": {"a": "Z2VoZWlt", "b": ""}})).unwrap();
        for (items, optional, want) in [
            (Value::Null, false, Ok(vec![("a", 6, 0o400), ("b", 0, 0o400)])),
            (json!([{"key": "a", "path": "d/x", "mode": 0o644}]), false, Ok(vec![("d/x", 6, 0o644)])),
            (json!([{"key": "none", "path": "x"}]), false, Err("references non-existent secret key: none")),
            (json!([{"key": "none", "path": "x"}]), true, Ok(vec![])),
            (json!([{"key": "a", "path": "..x"}]), false, Err("invalid path: must not start with '..': ..x")),
        ] {
            let asked: Option<Vec<KeyToPath>> = serde_json::from_value(items.clone()).unwrap();
            let mut payload = Files::default();
            let outcome = files(&mut payload, &secret, asked.as_deref(), 0o400, optional);
            let got: Vec<_> =
                payload.iter().map(|(path, file)| (path.as_str(), file.bytes.len(), file.mode)).collect();
            assert_eq!(outcome.as_ref().map(|()| got).map_err(String::as_str), want, "{items}");
            assert!(!format!("{payload:?}").contains("geheim"));
        }
    }

    #[test]
    fn items_of_one_key_share_its_content() {
        let secret: Secret = serde_json::from_value(json!({"data": {"a": "Z2VoZWlt"}})).unwrap();
        let item = |path: usize| KeyToPath { key: "a".to_owned(), path: path.to_string(), mode: None };
        let mut payload = Files::default();
        files(&mut payload, &secret, Some(&(0..3).map(item).collect::<Vec<_>>()), 0o644, false).unwrap();
        let places: Vec<_> = payload.iter().map(|(_, content)| content.bytes.as_ptr()).collect();
        assert_eq!(places, [places[0]; 3]);
    }
}
