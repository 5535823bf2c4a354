//! Which storage a volume uses, and whether two volumes use the same storage or storage inside each other.
//!
//! Several PersistentVolumes may name one directory, export or disk, on purpose or by mistake. Nothing may be erased for
//! one of them while another one uses it (I8).

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::PersistentVolumeSpec;

use crate::file_location::{FileLocation, MountTable};

/// The storage behind a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageIdentity {
    /// A directory or file of a machine. Machines are not distinguished: they may share a file system.
    Path(PathBuf),
    /// A directory of a server: the server in lower case, and the path.
    Export(String, PathBuf),
    /// A whole disk: the kind of volume and the parts that identify the disk.
    Disk(&'static str, Vec<String>),
}

impl StorageIdentity {
    /// The storage of a volume; `None` if its source is missing or unknown.
    pub fn of(spec: &PersistentVolumeSpec) -> Option<Self> {
        let disk = |kind, parts: Vec<Option<String>>| {
            Some(StorageIdentity::Disk(kind, parts.into_iter().map(Option::unwrap_or_default).collect()))
        };
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            Some(list.join(","))
        };
        let text = |text: &str| Some(text.to_owned());
        if let Some(source) = &spec.host_path {
            return Some(StorageIdentity::Path(plain(&source.path)));
        }
        if let Some(source) = &spec.local {
            return Some(StorageIdentity::Path(plain(&source.path)));
        }
        if let Some(source) = &spec.nfs {
            return Some(StorageIdentity::Export(source.server.to_lowercase(), plain(&source.path)));
        }
        if let Some(source) = &spec.cephfs {
            let monitors = sorted(&source.monitors).unwrap_or_default();
            return Some(StorageIdentity::Export(monitors, plain(source.path.as_deref().unwrap_or("/"))));
        }
        if let Some(source) = &spec.glusterfs {
            let endpoints =
                format!("{}/{}", source.endpoints_namespace.clone().unwrap_or_default(), source.endpoints);
            return Some(StorageIdentity::Export(endpoints, plain(&source.path)));
        }
        if let Some(source) = &spec.csi {
            return disk("csi", vec![text(&source.driver), text(&source.volume_handle)]);
        }
        if let Some(source) = &spec.iscsi {
            return disk(
                "iscsi",
                vec![text(&source.target_portal), text(&source.iqn), Some(source.lun.to_string())],
            );
        }
        if let Some(source) = &spec.fc {
            let targets = sorted(source.target_wwns.as_deref().unwrap_or_default());
            let ids = sorted(source.wwids.as_deref().unwrap_or_default());
            return disk("fc", vec![targets, ids, source.lun.map(|lun| lun.to_string())]);
        }
        if let Some(source) = &spec.rbd {
            return disk("rbd", vec![sorted(&source.monitors), source.pool.clone(), text(&source.image)]);
        }
        if let Some(source) = &spec.aws_elastic_block_store {
            return disk("awsElasticBlockStore", vec![text(&source.volume_id)]);
        }
        if let Some(source) = &spec.gce_persistent_disk {
            return disk("gcePersistentDisk", vec![text(&source.pd_name)]);
        }
        if let Some(source) = &spec.azure_disk {
            return disk("azureDisk", vec![Some(source.disk_uri.to_lowercase())]);
        }
        if let Some(source) = &spec.azure_file {
            return disk("azureFile", vec![text(&source.secret_name), text(&source.share_name)]);
        }
        if let Some(source) = &spec.cinder {
            return disk("cinder", vec![text(&source.volume_id)]);
        }
        if let Some(source) = &spec.vsphere_volume {
            return disk("vsphereVolume", vec![text(&source.volume_path)]);
        }
        if let Some(source) = &spec.portworx_volume {
            return disk("portworxVolume", vec![text(&source.volume_id)]);
        }
        if let Some(source) = &spec.photon_persistent_disk {
            return disk("photonPersistentDisk", vec![text(&source.pd_id)]);
        }
        if let Some(source) = &spec.quobyte {
            return disk(
                "quobyte",
                vec![text(&source.registry), text(&source.volume), source.tenant.clone()],
            );
        }
        if let Some(source) = &spec.scale_io {
            return disk("scaleIO", vec![text(&source.gateway), source.volume_name.clone()]);
        }
        if let Some(source) = &spec.storageos {
            return disk("storageos", vec![source.volume_namespace.clone(), source.volume_name.clone()]);
        }
        if let Some(source) = &spec.flocker {
            return disk("flocker", vec![source.dataset_name.clone(), source.dataset_uuid.clone()]);
        }
        if let Some(source) = &spec.flex_volume {
            let options = source.options.iter().flatten().map(|(key, value)| format!("{key}={value}"));
            return disk(
                "flexVolume",
                vec![text(&source.driver), Some(options.collect::<Vec<_>>().join(","))],
            );
        }
        None
    }

    /// Whether erasing one of them may erase the other: they are the same, or one is inside the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let nested = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        match (self, other) {
            (StorageIdentity::Path(a), StorageIdentity::Path(b)) => nested(a, b),
            (StorageIdentity::Export(server, a), StorageIdentity::Export(other, b)) => {
                server == other && nested(a, b)
            }
            (StorageIdentity::Disk(..), StorageIdentity::Disk(..)) => self == other,
            (StorageIdentity::Path(_) | StorageIdentity::Export(..) | StorageIdentity::Disk(..), _) => false,
        }
    }

    /// The identity with symbolic links of this machine resolved, as far as the path exists here. Reads the file system.
    pub fn resolved(&self) -> Self {
        match self {
            StorageIdentity::Path(path) => StorageIdentity::Path(resolve(path)),
            StorageIdentity::Export(..) | StorageIdentity::Disk(..) => self.clone(),
        }
    }

    /// The location on this machine, which also reveals bind mounts; `self` is resolved. Reads the file system.
    pub fn location(&self, mounts: &MountTable) -> Option<FileLocation> {
        match self {
            StorageIdentity::Path(path) => Some(FileLocation::of(path, mounts)),
            StorageIdentity::Export(..) | StorageIdentity::Disk(..) => None,
        }
    }
}

/// A path without `.`, `..` and repeated slashes.
fn plain(path: &str) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    plain
}

/// Resolves the longest part of a path that exists; the rest is appended.
fn resolve(path: &Path) -> PathBuf {
    let mut ancestors = path.ancestors();
    let found = ancestors.find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match found {
        Some((above, resolved)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => resolved,
            Ok(rest) => resolved.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn identity(source: &Value) -> StorageIdentity {
        let spec: PersistentVolumeSpec = serde_json::from_value(source.clone()).unwrap();
        StorageIdentity::of(&spec).unwrap()
    }

    #[test]
    fn volumes_overlap_if_they_share_storage() {
        let path = |path: &str| json!({"hostPath": {"path": path}});
        let nfs = |server: &str, path: &str| json!({"nfs": {"server": server, "path": path}});
        let iscsi = |lun: i32| json!({"iscsi": {"targetPortal": "a:3260", "iqn": "b", "lun": lun}});
        let csi = |handle: &str| json!({"csi": {"driver": "d", "volumeHandle": handle}});
        let rbd = |monitors: &[&str], image: &str| json!({"rbd": {"monitors": monitors, "image": image}});
        for (case, one, other, wanted) in [
            ("1 same path", path("/tmp/a"), path("/tmp/a"), true),
            ("2 other spelling", path("/tmp/a"), path("/tmp//b/../a/."), true),
            ("3 below", path("/tmp/a"), path("/tmp/a/b"), true),
            ("4 above", path("/tmp/a/b"), path("/tmp/a"), true),
            ("5 beside, with a common beginning", path("/tmp/a"), path("/tmp/ab"), false),
            ("6 local", path("/tmp/a"), json!({"local": {"path": "/tmp/a/b"}}), true),
            ("7 export", nfs("Server", "/e"), nfs("server", "/e/x"), true),
            ("8 other export", nfs("server", "/e"), nfs("server", "/f"), false),
            ("9 other server", nfs("server", "/e"), nfs("other", "/e"), false),
            ("10 LUN", iscsi(1), iscsi(1), true),
            ("11 other LUN", iscsi(1), iscsi(2), false),
            ("12 handle", csi("h"), csi("h"), true),
            ("13 other handle", csi("h"), csi("i"), false),
            ("14 image", rbd(&["a", "b"], "i"), rbd(&["b", "a"], "i"), true),
            ("15 other image", rbd(&["a"], "i"), rbd(&["a"], "j"), false),
            ("16 other kinds", path("/e"), nfs("server", "/e"), false),
        ] {
            assert_eq!(identity(&one).overlaps(&identity(&other)), wanted, "{case}");
            assert_eq!(identity(&other).overlaps(&identity(&one)), wanted, "{case}, the other way round");
        }
    }

    #[test]
    fn symbolic_links_are_resolved() {
        let dir = std::env::temp_dir().join(format!("storage-identity-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real")).unwrap();
        let link = dir.join("link");
        let _ = std::os::unix::fs::symlink(dir.join("real"), &link);
        let at = |path: &Path| StorageIdentity::Path(path.to_owned()).resolved();
        assert!(
            at(&link.join("new")).overlaps(&at(&dir.join("real"))),
            "the rest of the path does not exist"
        );
        assert!(!at(&link).overlaps(&at(&dir.join("other"))));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
