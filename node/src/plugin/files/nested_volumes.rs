//! Finds the mount points of other volumes in a volume. A read-only volume must contain them before the mount
//! (upstream: pkg/volume/util/nested_volumes.go). Pure.

use k8s_openapi::api::core::v1::Pod;

/// The directories that a volume needs for other volumes of the same container, as paths in the volume.
///
/// # Errors
/// A container requests a path outside the volume.
pub(super) fn places(pod: &Pod, volume: &str) -> Result<Vec<String>, String> {
    let Some(spec) = &pod.spec else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for container in containers {
        let mounts = || container.volume_mounts.iter().flatten();
        let mut all = mounts().map(|mount| cleaned(&mount.mount_path)).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        for own in mounts().filter(|mount| mount.name == volume) {
            let own = cleaned(&own.mount_path)?;
            let mut last: Option<&Vec<&str>> = None;
            for other in all.iter().filter(|other| other.len() > own.len() && other.starts_with(&own)) {
                // A path inside another nested volume belongs to that volume.
                if last.is_some_and(|last| other.starts_with(last)) {
                    continue;
                }
                last = Some(other);
                let path = other[own.len()..].join("/");
                if !found.contains(&path) {
                    found.push(path);
                }
            }
        }
    }
    Ok(found)
}

fn cleaned(path: &str) -> Result<Vec<&str>, String> {
    let names: Vec<_> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    match names.contains(&"..") {
        true => Err(format!("invalid container mount point {path}")),
        false => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn mount_points_of_other_volumes_are_found() {
        for (mounts, want) in [
            (json!([["v", "/etc/a"], ["w", "/etc/a/b/c"], ["w", "/etc/ab"], ["w", "/etc"]]), Ok("b/c")),
            (json!([["v", "/etc/a/"], ["w", "/etc/a/b"], ["x", "/etc/a/b/c"], ["y", "/etc/a/z"]]), Ok("b z")),
            (json!([["w", "/etc/a/b"]]), Ok("")),
            (json!([["v", "/"], ["w", "/x"]]), Ok("x")),
            (json!([["v", "/a"], ["w", "/a/../../b"]]), Err("invalid container mount point /a/../../b")),
        ] {
            let mounts: Vec<Value> = mounts
                .as_array()
                .unwrap()
                .iter()
                .map(|mount| json!({"name": mount[0], "mountPath": mount[1]}))
                .collect();
            let pod: Pod = serde_json::from_value(
                json!({"metadata": {}, "spec": {"containers": [{"name": "c", "volumeMounts": mounts}]}}),
            )
            .unwrap();
            let got = places(&pod, "v").map(|places| places.join(" "));
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{mounts:?}");
        }
    }
}
