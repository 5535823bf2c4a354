//! Every type of file at a path, with every requested type.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::*;
use crate::mount::{Force, Mount, Origin};
use crate::plugin::testing::{Fixture, inline, persistent, place};

fn volume(path: &str, wanted: &str) -> PodVolume {
    inline(json!({"name": "v", "hostPath": {"path": path, "type": wanted}}))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn types_are_checked_with_upstreams_errors() {
    let (rig, plugin) = (Fixture::recorded(), HostPathPlugin::default());
    let dir = rig.base.join("things");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file"), "x").unwrap();
    let _socket = UnixListener::bind(dir.join("socket")).unwrap();
    symlink(&dir, dir.join("to-dir")).unwrap();
    symlink("nowhere", dir.join("to-nothing")).unwrap();
    let (d, f, s, c, b) = ("a directory", "a file", "a socket file", "a character device", "a block device");
    for (name, wanted, words) in [
        ("none", "", None),
        ("none", "Directory", Some(d)),
        ("none", "File", Some(f)),
        ("none", "Socket", Some(s)),
        ("none", "CharDevice", Some(c)),
        ("none", "BlockDevice", Some(b)),
        (".", "Directory", None),
        (".", "DirectoryOrCreate", None),
        (".", "File", Some(f)),
        (".", "FileOrCreate", Some(f)),
        ("to-dir", "Directory", None),
        ("to-nothing", "Directory", Some(d)),
        ("file", "Directory", Some(d)),
        ("file", "DirectoryOrCreate", Some(d)),
        ("file", "File", None),
        ("file", "FileOrCreate", None),
        ("file/x", "Directory", Some(d)),
        ("file", "Socket", Some(s)),
        ("socket", "Socket", None),
        ("socket", "File", Some(f)),
        ("/dev/null", "CharDevice", None),
        ("/dev/null", "BlockDevice", Some(b)),
        ("file", "CharDevice", Some(c)),
    ] {
        let path = dir.join(name).display().to_string();
        let outcome = plugin.set_up(&rig.host, &volume(&path, wanted)).await;
        let expected = words.map(|words| format!("hostPath type check failed: {path} is not {words}"));
        assert_eq!(outcome.err().map(|error| error.to_string()), expected, "{name} {wanted}");
    }
    let error = plugin.set_up(&rig.host, &volume("/x", "Pipe")).await.unwrap_err();
    assert_eq!(error.to_string(), "Pipe is an invalid volume type");
    assert_eq!(rig.record().calls(), Vec::<String>::new(), "nothing is ever mounted");
}

#[tokio::test]
async fn missing_paths_are_created_and_stay() {
    let (rig, plugin) = (Fixture::recorded(), HostPathPlugin::default());
    let (dir, file) = (rig.base.join("new/deep"), rig.base.join("new/file"));
    for _ in 0..2 {
        for (path, wanted) in [(&dir, "DirectoryOrCreate"), (&file, "FileOrCreate")] {
            let volume = volume(&path.display().to_string(), wanted);
            plugin.set_up(&rig.host, &volume).await.unwrap();
            assert_eq!(rig.target(&plugin, "v"), *path);
            plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
            plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
            assert_ne!(rig.target(&plugin, "v"), *path, "it is forgotten");
        }
        assert_eq!((mode(&rig.base.join("new")), mode(&dir), mode(&file)), (0o755, 0o755, 0o644));
        fs::write(&file, "dear").unwrap();
    }
    assert_eq!(fs::read(&file).unwrap(), b"dear", "what is there stays as it is");
    assert_eq!(rig.left(), Vec::<String>::new(), "nothing is made in the pod's directory");
}

#[tokio::test]
async fn invalid_paths_are_rejected() {
    let (rig, plugin) = (Fixture::recorded(), HostPathPlugin::default());
    for (path, expected) in [
        ("/a/../b", "invalid HostPath `/a/../b`: must not contain '..'"),
        ("..", "invalid HostPath `..`: must not contain '..'"),
        ("", "invalid HostPath ``: is empty"),
    ] {
        let error = plugin.set_up(&rig.host, &volume(path, "DirectoryOrCreate")).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(plugin.set_up(&rig.host, &volume("/a\0b", "Directory")).await.is_err());
    plugin.set_up(&rig.host, &volume("dev/null", "CharDevice")).await.unwrap();
    assert_eq!(rig.target(&plugin, "v"), Path::new("/dev/null"), "it begins at the root");
    let volume = persistent("pv-1", json!({"hostPath": {"path": "/dev"}}));
    plugin.set_up(&rig.host, &volume).await.unwrap();
    assert_eq!(rig.target(&plugin, "pv-1"), Path::new("/dev"));
}

#[tokio::test]
async fn failed_creation_is_reported() {
    let (rig, plugin) = (Fixture::recorded(), HostPathPlugin::default());
    symlink("nowhere/at/all", rig.base.join("link")).unwrap();
    for (name, wanted, part) in [
        ("no/file", "FileOrCreate", "make the directory that it is to be in"),
        ("link", "FileOrCreate", "a link is there that leads nowhere"),
        ("link", "DirectoryOrCreate", "a link is there that leads nowhere"),
    ] {
        let path = rig.base.join(name).display().to_string();
        let error = plugin.set_up(&rig.host, &volume(&path, wanted)).await.unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(&path), "{error}");
    }
    let Some(rig) = Fixture::real() else { return };
    let target = rig.host.paths.root().join("ro");
    fs::create_dir(&target).unwrap();
    let origin = Origin::Memory { bytes: Some(1 << 20) };
    let mount = Mount { origin, target: target.clone(), options: Vec::new(), read_only: true };
    rig.mounter.mount(&mount).unwrap();
    let path = target.join("x").display().to_string();
    let error = plugin.set_up(&rig.host, &volume(&path, "DirectoryOrCreate")).await.unwrap_err().to_string();
    assert!(
        error.contains("Read-only file system") && error.contains("mount that file system read-write"),
        "{error}"
    );
    rig.mounter.unmount(&target, Force::No).unwrap();
}

#[tokio::test]
async fn virtual_node_checks_no_files() {
    let (mut rig, plugin) = (Fixture::recorded(), HostPathPlugin::default());
    std::sync::Arc::make_mut(&mut rig.host.config).is_virtual = true;
    let path = rig.base.join("new");
    plugin.set_up(&rig.host, &volume(&path.display().to_string(), "DirectoryOrCreate")).await.unwrap();
    assert!(!path.exists());
}
