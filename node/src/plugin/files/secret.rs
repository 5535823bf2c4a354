//! Computes the files of a Secret volume (upstream: pkg/volume/secret). Pure. No error contains their content.

use k8s_openapi::api::core::v1::{KeyToPath, Secret};

use super::atomic_writer::{Content, Payload};
use super::payload::{mode_of, put};

/// The files of a Secret volume: all keys, or the requested ones.
///
/// # Errors
/// A key is missing, or a path leads out of the volume. The text is upstream's.
pub(super) fn files(
    into: &mut Payload,
    secret: &Secret,
    items: Option<&[KeyToPath]>,
    mode: u32,
    optional: bool,
) -> Result<(), String> {
    let content = |bytes: &[u8], mode: u32| Content { bytes: bytes.to_vec(), mode, uid: None };
    let items = items.unwrap_or_default();
    if items.is_empty() {
        for (key, value) in secret.data.iter().flatten() {
            put(into, key, content(&value.0, mode))?;
        }
        return Ok(());
    }
    for item in items {
        match secret.data.as_ref().and_then(|data| data.get(&item.key)) {
            Some(bytes) => put(into, &item.path, content(&bytes.0, mode_of(item, mode)))?,
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
            let mut payload = Payload::new();
            let outcome = files(&mut payload, &secret, asked.as_deref(), 0o400, optional);
            let got: Vec<_> =
                payload.iter().map(|(path, file)| (path.as_str(), file.bytes.len(), file.mode)).collect();
            assert_eq!(outcome.as_ref().map(|()| got).map_err(String::as_str), want, "{items}");
            assert!(!format!("{payload:?}").contains("geheim"));
        }
    }
}
