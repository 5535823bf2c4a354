//! Block devices: attaches images to loop devices, formats empty devices and grows file systems. Uses the tools
//! of util-linux and of the file systems, whose output becomes the error text. Existing data is never
//! overwritten.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;

use super::MountError;
use super::linux::{BUSY_PAUSE, BUSY_TRIES};
use super::programs::{self, Programs};
use orlop_volume::crash_points;

#[cfg(test)]
mod tests;

/// The length of the range that must be empty before a device without a known signature is formatted.
const EMPTY: u64 = 1 << 20;

/// The result of [`Devices::format_if_empty`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatted {
    /// The device was empty and now has a file system.
    New,
    /// The device already had that file system.
    Existing,
}

/// Block devices of this machine. Calls block, and require root.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    programs: Programs,
}

impl Devices {
    /// Uses the tools at these paths.
    pub fn new(programs: Programs) -> Self {
        Self { programs }
    }

    /// Attaches an image file to a loop device. Returns the existing device if the file is already attached, with
    /// whatever options.
    ///
    /// # Errors
    /// There is no free loop device, or the file is not an image.
    pub fn attach(&self, image: &Path, read_only: bool) -> Result<PathBuf, MountError> {
        let what = format!("attaching {} to a loop device", image.display());
        // Two devices of one file would have two caches and corrupt it.
        let mut command = self.command("losetup", &what)?;
        command.args(["--find", "--show", "--nooverlap"]);
        if read_only {
            command.arg("--read-only");
        }
        crash_points::reached("before loop device", image);
        let said = run(command.arg(absolute(image, &what)?), &what)?;
        crash_points::reached("after loop device", image);
        let device = PathBuf::from(said.trim());
        if device.is_absolute() {
            Ok(device)
        } else {
            Err(refused(&what, format!("losetup printed: {said}")))
        }
    }

    /// The loop devices of an image file. A deleted file may still have devices.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn attached(&self, image: &Path) -> Result<Vec<PathBuf>, MountError> {
        if matches!(std::fs::symlink_metadata(image), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(attached_to_deleted(image));
        }
        let what = format!("looking for the loop device of {}", image.display());
        let mut command = self.command("losetup", &what)?;
        command.args(["--list", "--noheadings", "--output", "NAME", "--associated"]);
        let said = run(command.arg(absolute(image, &what)?), &what)?;
        // One device per line; the lines were joined to a list.
        Ok(said.split("; ").map(str::trim).filter(|name| !name.is_empty()).map(PathBuf::from).collect())
    }

    /// Detaches an image file from its loop devices. A file without devices is no error.
    ///
    /// # Errors
    /// A device is in use: the kernel detaches it after its last user closes it, and until then this returns an
    /// error.
    pub fn detach(&self, image: &Path) -> Result<(), MountError> {
        let what = format!("detaching {} from its loop device", image.display());
        crash_points::reached("before detach of loop device", image);
        for device in self.attached(image)? {
            run(self.command("losetup", &what)?.arg("--detach").arg(device), &what)?;
        }
        crash_points::reached("after detach of loop device", image);
        // A process that opens every device briefly (udev) does not count as a user.
        for _ in 0..BUSY_TRIES {
            if self.attached(image)?.is_empty() {
                return Ok(());
            }
            std::thread::sleep(BUSY_PAUSE);
        }
        match self.attached(image)?.into_iter().next() {
            Some(target) => {
                Err(MountError::Busy { target, by: "it is mounted, or something has it open".to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Makes the loop devices of an image file use its new size.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn refresh(&self, image: &Path) -> Result<(), MountError> {
        let what = format!("updating the size of the loop device of {}", image.display());
        for device in self.attached(image)? {
            run(self.command("losetup", &what)?.arg("--set-capacity").arg(device), &what)?;
        }
        Ok(())
    }

    /// The type of the file system on a device (or in an image file); none when no known content is found.
    ///
    /// # Errors
    /// The device has other content (a partition table, a RAID member), or several signatures; or it cannot be read.
    pub fn file_system(&self, device: &Path) -> Result<Option<String>, MountError> {
        let what = format!("probing the content of {}", device.display());
        let mut command = self.command("blkid", &what)?;
        // Probes the device itself and bypasses the cache of blkid.
        command.args(["-p", "-o", "export"]).arg(absolute(device, &what)?);
        let (status, said) =
            programs::output(&mut command).map_err(|error| super::errno::other(&what, error))?;
        let text = String::from_utf8_lossy(&said).into_owned();
        match status.code() {
            Some(0) => found(&text).map_err(|why| refused(&what, why)),
            // Either no content was found, or the device cannot be read: blkid does not distinguish (blkid(8)). Opening the
            // device does.
            Some(2) => match File::open(device) {
                Ok(_) => Ok(None),
                Err(error) => Err(super::errno::other(&what, error)),
            },
            Some(8) => {
                Err(refused(&what, "it has signatures of several things; it was left alone".to_owned()))
            }
            Some(_) | None => {
                Err(refused(&what, format!("blkid ended with {status}: {}", programs::readable(&said))))
            }
        }
    }

    /// Creates a file system on an empty device. An existing file system of that type is no error.
    ///
    /// # Errors
    /// The device has other content, known or unknown; or the tool is missing or fails. In these cases nothing was
    /// overwritten.
    pub fn format_if_empty(&self, device: &Path, fs_type: &str) -> Result<Formatted, MountError> {
        let what = format!("making a file system of type {fs_type} on {}", device.display());
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !is_word(fs_type) {
            return Err(refused(&what, "that is no type of file systems".to_owned()));
        }
        // Two volumes may name one device. The second waits, and then finds the file system of the first.
        let _lock = lock(device).map_err(|error| super::errno::other(&what, error))?;
        match self.file_system(device)? {
            Some(there) if there == fs_type => return Ok(Formatted::Existing),
            Some(there) => {
                let why = format!(
                    "it has a file system of type {there}, which was left alone; ask for that type, or empty the device"
                );
                return Err(refused(&what, why));
            }
            None => {}
        }
        is_empty(device).map_err(|error| super::errno::other(&what, error))?;
        let mut command = self.command(&format!("mkfs.{fs_type}"), &what)?;
        match fs_type {
            // No prompts, and no blocks reserved for root (upstream: mount-utils, formatAndMount).
            "ext2" | "ext3" | "ext4" => command.args(["-q", "-F", "-m0"]),
            "xfs" | "btrfs" => command.args(["-q"]),
            _ => &mut command,
        };
        crash_points::reached("before file system", device);
        run(command.arg(device), &what)?;
        crash_points::reached("after file system", device);
        Ok(Formatted::New)
    }

    /// Grows a mounted file system to the size of its device. A file system of that size is no error.
    ///
    /// # Errors
    /// The type cannot be grown, or the tool is missing or fails.
    pub fn grow(&self, device: &Path, mounted_at: &Path, fs_type: &str) -> Result<(), MountError> {
        let what = format!("growing the file system on {}", device.display());
        let mut command;
        match fs_type {
            "ext2" | "ext3" | "ext4" => {
                command = self.command("resize2fs", &what)?;
                command.arg(absolute(device, &what)?);
            }
            "xfs" => {
                command = self.command("xfs_growfs", &what)?;
                command.arg(absolute(mounted_at, &what)?);
            }
            "btrfs" => {
                command = self.command("btrfs", &what)?;
                command.args(["filesystem", "resize", "max"]).arg(absolute(mounted_at, &what)?);
            }
            _ => {
                let why = format!(
                    "file systems of type {fs_type} are not grown by the agent (ext2, ext3, ext4, xfs and btrfs are)"
                );
                return Err(refused(&what, why));
            }
        }
        programs::run(&mut command).map_err(|said| {
            // The kernel requires a capability that root in a container does not have.
            let hint = if said.contains("Permission denied to resize") {
                "; the agent needs CAP_SYS_RESOURCE"
            } else {
                ""
            };
            refused(&what, format!("{said}{hint}"))
        })?;
        Ok(())
    }

    /// Size of a device or image file in bytes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn size(&self, device: &Path) -> Result<u64, MountError> {
        let size = || io::Seek::seek(&mut File::open(device)?, io::SeekFrom::End(0));
        size().map_err(|error| {
            super::errno::other(&format!("looking how large {} is", device.display()), error)
        })
    }

    fn command(&self, name: &str, what: &str) -> Result<Command, MountError> {
        self.programs.command(name).map_err(|why| refused(what, why))
    }
}

/// The loop devices of a deleted file that had this path, as reported by the kernel.
fn attached_to_deleted(image: &Path) -> Vec<PathBuf> {
    let mut name = image.as_os_str().to_owned();
    name.push(" (deleted)\n");
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_of_image = |device: &std::fs::DirEntry| {
        let file = std::fs::read(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| file == name.as_encoded_bytes())
    };
    devices.filter(is_of_image).map(|device| Path::new("/dev").join(device.file_name())).collect()
}

/// Parses the output of `blkid -o export`: `KEY=value` lines.
fn found(text: &str) -> Result<Option<String>, String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    match (value("TYPE"), value("USAGE"), value("PTTYPE")) {
        (Some(fs_type), Some("filesystem") | None, _) => Ok(Some(fs_type.to_owned())),
        (Some(other), Some(usage), _) => Err(format!("it has {other} ({usage}) on it; it was left alone")),
        (None, _, Some(table)) => Err(format!("it has a table of partitions ({table}); it was left alone")),
        (None, _, None) => Err("it has a signature that blkid does not name; it was left alone".to_owned()),
    }
}

/// Locks a device until the result is dropped. A path that cannot be opened is reported by the next step.
fn lock(device: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(opened) = rustix::fs::open(device, flags, Mode::empty()) else { return Ok(None) };
    flock(&opened, FlockOperation::LockExclusive)?;
    Ok(Some(opened))
}

/// Checks that a device is unused and that its beginning is empty.
fn is_empty(device: &Path) -> io::Result<()> {
    let opened =
        rustix::fs::open(device, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => {}
        FileType::BlockDevice => {
            // Only the kernel knows all users of the device.
            let alone = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
            match rustix::fs::open(device, alone, Mode::empty()) {
                Ok(_) => {}
                Err(Errno::BUSY) => {
                    return Err(io::Error::other(
                        "it is in use (mounted, or a part of something); it was left alone",
                    ));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        FileType::Directory
        | FileType::Symlink
        | FileType::CharacterDevice
        | FileType::Fifo
        | FileType::Socket
        | FileType::Unknown => return Err(io::Error::other("it is no block device and no image file")),
    }
    let mut beginning = Vec::new();
    File::from(opened).take(EMPTY).read_to_end(&mut beginning)?;
    if beginning.iter().any(|byte| *byte != 0) {
        return Err(io::Error::other(
            "there is data at its beginning that no tool recognizes; it was left alone. If the data is not needed: wipefs --all, or write zeros over its first MiB",
        ));
    }
    Ok(())
}

/// Makes a path absolute for a command line: a leading dash would be parsed as an option.
fn absolute<'a>(path: &'a Path, what: &str) -> Result<&'a Path, MountError> {
    if path.is_absolute() { Ok(path) } else { Err(refused(what, "the path is not absolute".to_owned())) }
}

fn run(command: &mut Command, what: &str) -> Result<String, MountError> {
    programs::run(command).map_err(|why| refused(what, why))
}

fn refused(what: &str, why: String) -> MountError {
    MountError::Refused { what: what.to_owned(), why, source: None }
}
