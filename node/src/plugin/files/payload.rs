//! Helpers for the files of a volume: paths, modes, and the aggregated errors of several sources. Pure.

use k8s_openapi::api::core::v1::KeyToPath;

use super::atomic_writer::{Content, Payload, cleaned};

/// Adds a file at the requested path. A later file replaces an earlier one at the same path.
///
/// # Errors
/// The path leads out of the volume.
pub(super) fn put(into: &mut Payload, path: &str, content: Content) -> Result<(), String> {
    into.insert(cleaned(path).map_err(|error| error.to_string())?, content);
    Ok(())
}

/// Aggregates errors like upstream: a single one unchanged, several as a list without duplicates.
pub(super) fn aggregate(errors: Vec<String>) -> Result<(), String> {
    let mut seen: Vec<String> = Vec::new();
    for error in errors {
        if !seen.contains(&error) {
            seen.push(error);
        }
    }
    match seen.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        more => Err(format!("[{}]", more.join(", "))),
    }
}

/// The mode of one file.
pub(super) fn mode_of(item: &KeyToPath, default: u32) -> u32 {
    item.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_aggregated_without_duplicates() {
        let told = |errors: &[&str]| aggregate(errors.iter().map(|&error| error.to_owned()).collect());
        assert_eq!(told(&[]), Ok(()));
        assert_eq!(told(&["a", "a"]), Err("a".to_owned()));
        assert_eq!(told(&["a", "b", "a"]), Err("[a, b]".to_owned()));
    }
}
