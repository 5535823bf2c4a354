//! Real loop devices and file systems of some megabytes. Without root, the tests report that they skip the devices, but
//! still format images.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use super::*;
use crate::mount::{Force, LinuxMounter, Mount, Mounter, Origin};

const MIB: u64 = 1 << 20;

/// An image that is detached on drop, even when the test panics.
struct Image {
    dir: TempDir,
    path: PathBuf,
    devices: Devices,
}

impl Image {
    fn new(bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap().join("an image");
        File::create(&path).unwrap().set_len(bytes).unwrap();
        Self { dir, path, devices: Devices::default() }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for device in self.devices.attached(&self.path).unwrap_or_default() {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

fn is_root() -> bool {
    orlop_test_support::privileges::has_root("loop devices")
}

#[test]
fn only_empty_devices_are_formatted() {
    let image = Image::new(16 * MIB);
    let devices = &image.devices;
    assert_eq!(devices.file_system(&image.path).unwrap(), None);
    assert_eq!(devices.format_if_empty(&image.path, "ext4").unwrap(), Formatted::New);
    assert_eq!(devices.file_system(&image.path).unwrap().as_deref(), Some("ext4"));
    let before = fs::read(&image.path).unwrap();
    assert_eq!(devices.format_if_empty(&image.path, "ext4").unwrap(), Formatted::Existing);
    let error = devices.format_if_empty(&image.path, "xfs").unwrap_err().to_string();
    assert!(error.contains("a file system of type ext4, which was left alone"), "{error}");
    assert!(fs::read(&image.path).unwrap() == before, "not a byte was written");
    assert_eq!(devices.size(&image.path).unwrap(), 16 * MIB);
}

#[test]
fn concurrent_calls_format_a_device_once() {
    let image = Image::new(16 * MIB);
    let formatted: Vec<Formatted> = std::thread::scope(|scope| {
        let format = || image.devices.format_if_empty(&image.path, "ext4").unwrap();
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(format)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(formatted.iter().filter(|one| **one == Formatted::New).count(), 1, "{formatted:?}");
}

#[test]
fn unknown_content_is_not_overwritten() {
    for (name, offset, bytes, part) in [
        ("data", 0_u64, &b"dear data"[..], "data at its beginning that no tool recognizes"),
        ("data at the end of the first MiB", MIB - 1, &b"x"[..], "data at its beginning"),
        ("partitions", 510, &b"\x55\xaa"[..], "left alone"),
        ("swap", 4086, &b"SWAPSPACE2"[..], "left alone"),
        ("encrypted", 0, &b"LUKS\xba\xbe\0\x01"[..], "left alone"),
    ] {
        let image = Image::new(16 * MIB);
        fs::File::options().write(true).open(&image.path).unwrap().write_all_at(bytes, offset).unwrap();
        let before = fs::read(&image.path).unwrap();
        let error = image.devices.format_if_empty(&image.path, "ext4").unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
        assert!(fs::read(&image.path).unwrap() == before, "{name}: not a byte was written");
    }
    let image = Image::new(MIB);
    for (path, fs_type, part) in [
        (image.path.clone(), "../x", "no type of file systems"),
        (PathBuf::from("-x"), "ext4", "not absolute"),
        (PathBuf::from("/nowhere/x"), "ext4", "No such file"),
        (PathBuf::from("/dev/null"), "ext4", "no block device and no image"),
    ] {
        let error = image.devices.format_if_empty(&path, fs_type).unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", path.display());
    }
}

#[test]
fn blkid_output_is_parsed() {
    for (text, expected) in [
        ("DEVNAME=/x\nUUID=1\nTYPE=ext4\nUSAGE=filesystem\n", Ok(Some("ext4".to_owned()))),
        (
            "DEVNAME=/x\nTYPE=LVM2_member\nUSAGE=raid\n",
            Err("it has LVM2_member (raid) on it; it was left alone".to_owned()),
        ),
        ("DEVNAME=/x\nPTTYPE=gpt\n", Err("it has a table of partitions (gpt); it was left alone".to_owned())),
        ("DEVNAME=/x\n", Err("it has a signature that blkid does not name; it was left alone".to_owned())),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn missing_tools_are_reported_with_their_package() {
    let image = Image::new(MIB);
    let none = Devices::new(Programs { mount: PathBuf::new(), search: Vec::new() });
    let path = &image.path;
    for (error, part) in [
        (none.attach(path, false).map(drop), "losetup is not installed"),
        (none.format_if_empty(path, "ext4").map(drop), "blkid is not installed"),
        (none.grow(path, path, "xfs"), "xfsprogs"),
        (none.grow(path, path, "ext4"), "e2fsprogs"),
        (none.grow(path, path, "vfat"), "are not grown"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    if image.devices.programs.find("mkfs.xfs").is_none() {
        let error = image.devices.format_if_empty(path, "xfs").unwrap_err().to_string();
        assert!(error.contains("xfsprogs"), "{error}");
    }
}

#[test]
fn image_is_attached_mounted_grown_and_detached() {
    if !is_root() {
        return;
    }
    let image = Image::new(16 * MIB);
    let devices = &image.devices;
    let device = devices.attach(&image.path, false).unwrap();
    assert_eq!(devices.attach(&image.path, false).unwrap(), device, "the same again");
    assert_eq!(devices.attached(&image.path).unwrap(), std::slice::from_ref(&device));
    assert_eq!(devices.format_if_empty(&device, "ext4").unwrap(), Formatted::New);
    let root = fs::canonicalize(image.dir.path()).unwrap();
    let target = root.join("target");
    fs::create_dir(&target).unwrap();
    let mounter = LinuxMounter::new(root);
    let mount = Mount {
        origin: Origin::FileSystem { fs_type: "ext4".to_owned(), source: device.display().to_string() },
        target: target.clone(),
        options: vec!["noatime".to_owned()],
        read_only: false,
    };
    mounter.mount(&mount).unwrap();
    let guard = Mounted(&mounter, &target);
    File::create(target.join("file")).unwrap().write_all(b"x").unwrap();
    assert_eq!(devices.format_if_empty(&device, "ext4").unwrap(), Formatted::Existing, "mounted as it is");
    let blocks = || rustix::fs::statvfs(&target).unwrap().f_blocks;
    let before = blocks();
    File::options().write(true).open(&image.path).unwrap().set_len(64 * MIB).unwrap();
    devices.refresh(&image.path).unwrap();
    assert_eq!(devices.size(&device).unwrap(), 64 * MIB);
    match devices.grow(&device, &target, "ext4") {
        Ok(()) => {
            devices.grow(&device, &target, "ext4").unwrap();
            assert!(blocks() > before * 3, "{} blocks, before {before}", blocks());
        }
        Err(error) => {
            eprintln!("not grown: {error}");
            assert!(error.to_string().ends_with("the agent needs CAP_SYS_RESOURCE"), "{error}");
        }
    }
    let error = devices.detach(&image.path).unwrap_err();
    assert!(matches!(error, MountError::Busy { .. }), "{error}");
    mounter.unmount(&target, Force::No).unwrap();
    drop(guard);
    devices.detach(&image.path).unwrap();
    devices.detach(&image.path).unwrap();
    assert_eq!(devices.attached(&image.path).unwrap(), Vec::<PathBuf>::new());
    devices.attach(&image.path, true).unwrap();
    fs::remove_file(&image.path).unwrap();
    assert_eq!(attached_to_deleted(&image.path).len(), 1);
    devices.detach(&image.path).unwrap();
    assert_eq!(attached_to_deleted(&image.path), Vec::<PathBuf>::new());
    devices.detach(&image.path).unwrap();
}

struct Mounted<'a>(&'a LinuxMounter, &'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.0.unmount(self.1, Force::Yes);
    }
}
