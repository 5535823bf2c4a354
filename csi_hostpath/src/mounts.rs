//! Mounts of this machine: the mount table, bind mounts, and images mounted through loop devices. Needs root;
//! errors name missing permissions.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

/// Returns whether a path is a mount point.
pub(crate) fn is_mounted(path: &Path) -> io::Result<bool> {
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(mount_points(&table).any(|point| point == path))
}

/// The mount points in a table like /proc/self/mountinfo (proc(5): the fifth field; space, tab, newline and
/// backslash are escaped as octal numbers).
fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let field = line.split(|byte| *byte == b' ').nth(4)?;
        let mut path = Vec::with_capacity(field.len());
        let mut rest = field;
        while let Some((&first, more)) = rest.split_first() {
            let octal = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) if first == b'\\' => {
                    path.push(byte);
                    rest = &more[3..];
                }
                Some(_) | None => {
                    path.push(first);
                    rest = more;
                }
            }
        }
        Some(PathBuf::from(OsString::from_vec(path)))
    })
}

/// Bind-mounts a directory or file at a target path, which it creates.
pub(crate) fn bind(source: &Path, target: &Path, readonly: bool) -> io::Result<()> {
    if fs::metadata(source)?.is_dir() {
        fs::create_dir_all(target)?;
    } else {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        File::options().create(true).append(true).open(target)?;
    }
    mount_bind(source, target)?;
    if readonly && let Err(error) = mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "") {
        // The mount must not remain writable.
        unmount(target, UnmountFlags::DETACH)?;
        return Err(error.into());
    }
    Ok(())
}

/// Unmounts and removes a path. Succeeds if the path does not exist.
pub(crate) fn clear(target: &Path) -> io::Result<()> {
    if is_mounted(target)? {
        unmount(target, UnmountFlags::empty())?;
    }
    let removed = match fs::symlink_metadata(target) {
        // Only an empty directory is removed: this driver never leaves content in a mount point.
        Ok(found) if found.is_dir() => fs::remove_dir(target),
        // A file with content does not belong to this driver either.
        Ok(found) if found.len() > 0 => Err(io::Error::other(format!(
            "{} was not created by this driver; it was not changed",
            target.display()
        ))),
        Ok(_) => fs::remove_file(target),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) | Err(_) => removed,
    }
}

/// Mounts an image file and creates a file system if it has none.
pub(crate) fn mount_image(image: &Path, target: &Path, fs_type: &str, flags: &[String]) -> io::Result<()> {
    let fs_type = if fs_type.is_empty() { "ext4" } else { fs_type };
    if is_blank(image)? {
        run(Command::new(format!("mkfs.{fs_type}")).arg("-q").arg(image))?;
    }
    fs::create_dir_all(target)?;
    let mut options = vec!["loop".to_owned()];
    options.extend(flags.iter().cloned());
    run(Command::new("mount").args(["-t", fs_type, "-o", &options.join(",")]).arg(image).arg(target))
        .map(drop)
}

/// Bytes at the start of an image that are zero if it has no content. The superblocks of file systems are there.
const START: u64 = 1 << 20;

/// Whether an image has no content: blkid finds nothing, and its start is zero. Any other answer, such as a missing
/// program, is not a reason to overwrite the image.
fn is_blank(image: &Path) -> io::Result<bool> {
    let mut command = Command::new("blkid");
    let output = command.args(["--probe", "--"]).arg(image).output().map_err(not_started(&command))?;
    match output.status.code() {
        Some(0) => return Ok(false),
        // blkid(8): nothing was found.
        Some(2) => {}
        Some(_) | None => return Err(failure(&command, &output)),
    }
    let mut start = Vec::new();
    File::open(image)?.take(START).read_to_end(&mut start)?;
    if start.iter().any(|byte| *byte != 0) {
        return Err(io::Error::other(format!(
            "{} has unknown content and no file system; it was not changed",
            image.display()
        )));
    }
    Ok(true)
}

/// Returns the loop device of an image file, or creates one.
pub(crate) fn loop_device(image: &Path) -> io::Result<PathBuf> {
    if let Some(device) = devices(image)?.into_iter().next() {
        return Ok(device);
    }
    let device = run(Command::new("losetup").args(["--find", "--show"]).arg(image))?;
    Ok(PathBuf::from(device.trim()))
}

/// Detaches the loop devices of an image file.
pub(crate) fn detach(image: &Path) -> io::Result<()> {
    for device in devices(image)? {
        run(Command::new("losetup").arg("--detach").arg(device))?;
    }
    Ok(())
}

/// Updates the size of an image's loop devices and, with `is_image`, grows the file system on them.
pub(crate) fn grow(image: &Path, is_image: bool) -> io::Result<()> {
    for device in devices(image)? {
        run(Command::new("losetup").arg("--set-capacity").arg(&device))?;
        if is_image {
            run(Command::new("resize2fs").arg(&device))?;
        }
    }
    Ok(())
}

fn devices(image: &Path) -> io::Result<Vec<PathBuf>> {
    let listed =
        run(Command::new("losetup").args(["--noheadings", "--output", "NAME", "--associated"]).arg(image))?;
    Ok(listed.lines().map(|line| PathBuf::from(line.trim())).collect())
}

/// Returns the output of a program, or its error output if it failed.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output().map_err(not_started(command))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failure(command, &output))
}

fn not_started(command: &Command) -> impl FnOnce(io::Error) -> io::Error {
    let name = command.get_program().to_string_lossy().into_owned();
    move |error| io::Error::new(error.kind(), format!("{name} could not be started: {error}"))
}

fn failure(command: &Command, output: &Output) -> io::Error {
    let name = command.get_program().to_string_lossy();
    io::Error::other(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_empty_files_are_not_removed() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (empty, full) = (dir.path().join("empty"), dir.path().join("full"));
        fs::write(&empty, "")?;
        fs::write(&full, "dear")?;
        clear(&empty)?;
        assert!(!empty.exists());
        assert!(clear(&full).is_err_and(|error| error.to_string().contains("it was not changed")));
        assert_eq!(fs::read_to_string(&full)?, "dear");
        Ok(())
    }

    #[test]
    fn only_blank_images_get_a_file_system() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let image = |name: &str, content: &[u8]| -> io::Result<PathBuf> {
            let path = dir.path().join(name);
            fs::write(&path, content)?;
            File::options().write(true).open(&path)?.set_len(4 << 20)?;
            Ok(path)
        };
        let mut late = vec![0; 1 << 19];
        late.extend(b"data");
        for (name, content, want) in [("blank", b"".as_slice(), Some(true)), ("unknown", &late, None)] {
            assert_eq!(is_blank(&image(name, content)?).ok(), want, "{name}");
        }
        assert!(is_blank(&dir.path().join("missing")).is_err());
        Ok(())
    }

    #[test]
    fn mount_points_are_unescaped() {
        let table = b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw\n\
                      37 35 98:0 / /x\\134040y rw - ext4 /dev/sda rw\n\
                      short line\n\
                      38 35 0:1 / /tail\\04 rw - tmpfs tmpfs rw\n";
        let want: Vec<PathBuf> = ["/mnt/a b", "/x\\040y", "/tail\\04"].iter().map(PathBuf::from).collect();
        assert_eq!(mount_points(table).collect::<Vec<_>>(), want);
    }
}
