//! Finds the mount points of other volumes in a volume. A read-only volume must contain them before the mount
//! (upstream: pkg/volume/util/nested_volumes.go). Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

/// The directories that a volume needs for other volumes of the same container, as sorted paths in the volume.
///
/// # Errors
/// A container requests a path outside the volume.
pub(super) fn places(pod: &Pod, volume: &str) -> Result<Vec<String>, String> {
    let Some(spec) = &pod.spec else { return Ok(Vec::new()) };
    let mut found = BTreeSet::new();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for container in containers {
        let mounts = || container.volume_mounts.iter().flatten();
        let mut all = mounts().map(|mount| cleaned(&mount.mount_path)).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        let own = mounts().filter(|mount| mount.name == volume);
        // Several paths may be the same directory, like `/a` and `/a/`.
        for own in own.map(|own| cleaned(&own.mount_path)).collect::<Result<BTreeSet<_>, _>>()? {
            // The paths inside a directory follow it in the sorted list.
            let from = all.partition_point(|other| *other <= own);
            let inside = all[from..].partition_point(|other| other.starts_with(&own));
            let mut inside = &all[from..from + inside];
            while let Some(first) = inside.first() {
                found.insert(first[own.len()..].join("/"));
                // A path inside another nested volume belongs to that volume.
                inside = &inside[inside.partition_point(|other| other.starts_with(first))..];
            }
        }
    }
    Ok(found.into_iter().collect())
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
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn mount_points_of_other_volumes_are_found() {
        for (mounts, want) in [
            (json!([["v", "/etc/a"], ["w", "/etc/a/b/c"], ["w", "/etc/ab"], ["w", "/etc"]]), Ok("b/c")),
            (json!([["v", "/etc/a/"], ["w", "/etc/a/b"], ["x", "/etc/a/b/c"], ["y", "/etc/a/z"]]), Ok("b z")),
            (json!([["w", "/etc/a/b"]]), Ok("")),
            (
                json!([["v", "/a"], ["v", "/a/b"], ["w", "/a/b/c/d"], ["x", "/a/e/../f"]]),
                Err("invalid container mount point /a/e/../f"),
            ),
            (
                json!([["v", "/a"], ["v", "/a/."], ["v", "/a/b"], ["w", "/a/b/c/d"], ["x", "/a/e"]]),
                Ok("b c/d e"),
            ),
            (json!([["v", "/a"], ["w", "/a-b"], ["x", "/a/c"], ["y", "/a/c-d"]]), Ok("c c-d")),
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

    #[test]
    fn cost_of_many_mounts_is_linear() {
        let mount = |name: &str, path: String| json!({"name": name, "mountPath": path});
        let own = (0..20_000).map(|at| mount("v", format!("/v{at}")));
        let other = (0..20_000).map(|at| mount("w", format!("/v{at}/w{at}")));
        let mounts: Vec<Value> = own.chain(other).collect();
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {}, "spec": {"containers": [{"name": "c", "volumeMounts": mounts}]}}),
        )
        .unwrap();
        let begun = Instant::now();
        assert_eq!(places(&pod, "v").unwrap().len(), 20_000);
        // Quadratic work takes a minute.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
