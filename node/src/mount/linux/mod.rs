//! Mounts on Linux. A mount is prepared detached and then attached to the opened target with the system calls of
//! Linux 5.2 (open_tree, fsmount, move_mount): it has all its flags from the beginning, also in other mount
//! namespaces that it propagates to, and replacing a path component meanwhile has no effect. mount(8) and its
//! helpers accept only paths; their mounts are made in a private directory of the agent and moved to the target
//! in the same way.
//!
//! New mounts are private: the container runtime defines the propagation of later mounts into containers. SELinux
//! labels are not changed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use super::call_queue::describe;
use super::errno::{failed, other};
use super::fd_path::{below, name_of};
use super::mount_users::holders;
use super::programs::{self, Programs};
use super::staging_dir::StagingDir;
use super::table::Table;
use super::{Changes, Force, Mount, MountError, MountPoint, Mounter, Origin, options};
use orlop_volume::crash_points;
use orlop_volume::rooted_fs::{Resolver, mount_id};

#[cfg(test)]
mod tests;

/// How often a busy operation is retried, and after which delay.
pub(super) const BUSY_TRIES: u32 = 8;
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// Mounts below a directory of this machine. Requires root; the errors state this.
#[derive(Debug)]
pub struct LinuxMounter {
    root: PathBuf,
    programs: Programs,
    table: Table,
}

impl LinuxMounter {
    /// For targets below `root`, the agent's directory. `root` must be in the form that the kernel uses (without
    /// symbolic links), because the mount table uses that form.
    pub fn new(root: PathBuf) -> Self {
        Self::with_programs(root, Programs::default())
    }

    /// The same, with other program paths.
    pub fn with_programs(root: PathBuf, programs: Programs) -> Self {
        Self { root, programs, table: Table::default() }
    }

    /// Removes mounts that a killed agent left unfinished. Only for the one agent of this directory, before its first
    /// mount.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub fn clear_leftovers(&self) -> Result<(), MountError> {
        StagingDir::clear(&self.root)
    }

    fn make(&self, mount: &Mount, what: &str) -> Result<(), MountError> {
        let refused = |why: String| MountError::Refused { what: what.to_owned(), why, source: None };
        let asked =
            options::merged(&mount.options, mount.read_only).map_err(|error| refused(error.to_string()))?;
        if mount.target == self.root {
            return Err(unsafe_target(&mount.target, "it is the directory that everything is below"));
        }
        let target = Resolver::best().open_path(&self.root, &mount.target, OFlags::PATH)?;
        let is_dir =
            is_dir(&target).map_err(|errno| failed(what, "the target cannot be looked at", errno))?;
        crash_points::reached("before mount", &mount.target);
        let tree = match &mount.origin {
            Origin::Bind(source) => self.bound(source, is_dir, &asked, what)?,
            Origin::Memory { .. } | Origin::FileSystem { .. } if !is_dir => {
                return Err(refused("the target is not a directory".to_owned()));
            }
            Origin::Memory { bytes } => memory(*bytes, &asked, what)?,
            Origin::FileSystem { fs_type, source } => self.helped(mount, fs_type, source, &asked, what)?,
        };
        self.put(&tree, &target, mount, what)
    }

    /// Clones the mount of a directory or file, with its own flags.
    fn bound(
        &self,
        source: &Path,
        on_dir: bool,
        asked: &[String],
        what: &str,
    ) -> Result<OwnedFd, MountError> {
        let (flags, left) = options::flags(asked);
        if !left.is_empty() {
            let left: Vec<String> = left.into_iter().map(str::to_owned).collect();
            tracing::debug!(
                what,
                left = options::redacted(&left),
                "options of file systems do nothing to a bind mount"
            );
        }
        let opened = if source.starts_with(&self.root) {
            Resolver::best().open_path(&self.root, source, OFlags::PATH)?
        } else {
            // A path configured by the administrator may contain symbolic links.
            let place = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open(source, place, rustix::fs::Mode::empty())
                .map_err(|errno| failed(what, &format!("{} cannot be opened", source.display()), errno))?
        };
        let is_dir =
            is_dir(&opened).map_err(|errno| failed(what, "the source cannot be looked at", errno))?;
        if is_dir != on_dir {
            return Err(failed(what, "it cannot be bound", Errno::NOTDIR));
        }
        let tree = cloned(&opened, what)?;
        if flags.is_empty() {
            return Ok(tree);
        }
        // Flags can only be changed on an attached mount.
        let stage = StagingDir::new(&self.root, is_dir)?;
        attach(&tree, &stage.open()?).map_err(|errno| failed(what, "it cannot be made ready", errno))?;
        crash_points::reached("bind is staged for mount", source);
        let id = mount_id(&tree).map_err(|error| other(what, error))?;
        let lines = self.table.lines().map_err(|error| other(what, error))?;
        // A remount sets all flags, so the flags of the source are retained explicitly.
        let has = lines.iter().find(|line| line.id == id).map(|line| options::flags(&line.mount_options).0);
        let access_times = MountFlags::NOATIME | MountFlags::RELATIME | MountFlags::STRICTATIME;
        let mut kept = has.unwrap_or(MountFlags::empty());
        if flags.intersects(access_times) {
            kept.remove(access_times);
        }
        mount_remount(name_of(&tree), MountFlags::BIND | flags | kept, "")
            .map_err(|errno| failed(what, "its flags (such as read-only) cannot be set", errno))?;
        cloned(&tree, what)
    }

    /// Mounts a file system with mount(8).
    fn helped(
        &self,
        mount: &Mount,
        fs_type: &str,
        source: &str,
        asked: &[String],
        what: &str,
    ) -> Result<OwnedFd, MountError> {
        let refused = |why: String| MountError::Refused { what: what.to_owned(), why, source: None };
        for (name, word) in [("source", source), ("file system type", fs_type)] {
            if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control) {
                return Err(refused(format!("{} is no {name}", word.escape_debug())));
            }
        }
        if fs_type.contains(',') || fs_type.contains('/') {
            return Err(refused(format!("{fs_type} is no file system type")));
        }
        let helper = format!("mount.{fs_type}");
        let needs_helper = matches!(fs_type, "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "glusterfs");
        if needs_helper && self.programs.find(&helper).is_none() {
            return Err(refused(programs::missing(&helper)));
        }
        let stage = StagingDir::new(&self.root, true)?;
        // No entry for umount(8), which is never called: the entry would name the staging directory.
        let mut command = Command::new(&self.programs.mount);
        command.args(["-n", "-t", fs_type]);
        if !asked.is_empty() {
            command.arg("-o").arg(options::joined(asked));
        }
        command.arg(source).arg(stage.path());
        let said = programs::run(&mut command).map_err(|said| {
            let said = options::without_secrets(&said, asked);
            let here = mount.target.display().to_string();
            refused(said.replace(&*stage.path().to_string_lossy(), &here))
        })?;
        crash_points::reached("helper has ended for mount", &mount.target);
        // If the helper mounted something and failed nevertheless, dropping the staging directory unmounts it.
        let made = stage.open()?;
        let is_made = mount_id(&made).map_err(|error| other(what, error))? != stage.home();
        if !is_made {
            let said = if said.is_empty() { "nothing".to_owned() } else { said };
            return Err(refused(format!("mount succeeded, but nothing is mounted; its output: {said}")));
        }
        cloned(&made, what)
    }

    /// Attaches the mount to the target and verifies the result.
    fn put(&self, tree: &OwnedFd, target: &OwnedFd, mount: &Mount, what: &str) -> Result<(), MountError> {
        attach(tree, target).map_err(|errno| failed(what, "it cannot be put there", errno))?;
        crash_points::reached("put mount", &mount.target);
        let check = || -> Result<(), MountError> {
            mount_change(name_of(tree), MountPropagationFlags::PRIVATE)
                .map_err(|errno| failed(what, "it cannot be made private", errno))?;
            let seen = Resolver::best().open_path(&self.root, &mount.target, OFlags::PATH)?;
            let (seen, made) = (mount_id(&seen), mount_id(tree));
            if seen.map_err(|error| other(what, error))? != made.map_err(|error| other(what, error))? {
                return Err(unsafe_target(
                    &mount.target,
                    "it was swapped for another while it was mounted on",
                ));
            }
            Ok(())
        };
        check().inspect_err(|_| {
            if let Err(errno) = unmount(name_of(tree), UnmountFlags::DETACH) {
                tracing::warn!(what, %errno, "a failed mount cannot be unmounted");
            }
        })
    }
}

impl Mounter for LinuxMounter {
    fn mount(&self, mount: &Mount) -> Result<(), MountError> {
        self.make(mount, &describe(mount))?;
        crash_points::reached("after mount", &mount.target);
        Ok(())
    }

    fn unmount(&self, target: &Path, force: Force) -> Result<(), MountError> {
        let (parent, name) = match Resolver::best().open_parent(&self.root, target) {
            Err(error) if error.is_missing() => return Ok(()),
            other => other?,
        };
        let flags = match force {
            Force::No => UnmountFlags::NOFOLLOW,
            Force::Yes => UnmountFlags::NOFOLLOW | UnmountFlags::FORCE,
        };
        let what = || format!("unmounting {}", target.display());
        crash_points::reached("before unmount", target);
        let gone = unmounted(&below(&parent, &name), flags);
        crash_points::reached("after unmount", target);
        match gone {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Nothing is mounted there, or the mount is locked because it was inherited with the mount namespace.
            Err(errno @ Errno::INVAL) => {
                let lines = self.table.lines().map_err(|error| other(&what(), error))?;
                match lines.iter().any(|line| line.point.target == target) {
                    true => {
                        Err(failed(&what(), "this mount cannot be unmounted in this mount namespace", errno))
                    }
                    false => Ok(()),
                }
            }
            Err(Errno::BUSY) => {
                let below = self.points().unwrap_or_default();
                let below = below.iter().map(|point| &*point.target);
                let below =
                    below.filter(|point| *point != target && point.starts_with(target)).collect::<Vec<_>>();
                Err(MountError::Busy { target: target.to_owned(), by: holders(target, &below) })
            }
            Err(errno) => Err(failed(&what(), "the kernel refused", errno)),
        }
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        let lines = self.table.lines().map_err(|error| other("reading the table of mounts", error))?;
        Ok(lines.iter().map(|line| line.point.clone()).collect())
    }

    fn renamed(&self) {
        self.table.forget();
    }

    fn changes(&self) -> Result<Changes, MountError> {
        Changes::of_kernel().map_err(|error| other("following the table of mounts", error))
    }
}

fn memory(bytes: Option<u64>, asked: &[String], what: &str) -> Result<OwnedFd, MountError> {
    let (flags, left) = options::flags(asked);
    let wrong = |step: &str| {
        let step = format!("tmpfs: {step}");
        move |errno| failed(what, &step, errno)
    };
    let memory = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(wrong("it cannot be made"))?;
    fsconfig_set_string(&memory, "source", "tmpfs").map_err(wrong("source"))?;
    if let Some(bytes) = bytes {
        fsconfig_set_string(&memory, "size", bytes.to_string()).map_err(wrong("size"))?;
    }
    for option in left {
        let set = match option.split_once('=') {
            Some((key, value)) => fsconfig_set_string(&memory, key, value),
            None => fsconfig_set_flag(&memory, option),
        };
        set.map_err(wrong(option))?;
    }
    fsconfig_create(&memory).map_err(wrong("it cannot be made"))?;
    fsmount(&memory, FsMountFlags::FSMOUNT_CLOEXEC, attributes(flags)).map_err(wrong("it cannot be mounted"))
}

fn attributes(flags: MountFlags) -> MountAttrFlags {
    let known = [
        (MountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (MountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (MountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
        (MountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (MountFlags::NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
        (MountFlags::NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
        (MountFlags::STRICTATIME, MountAttrFlags::MOUNT_ATTR_STRICTATIME),
        (MountFlags::NOSYMFOLLOW, MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
    ];
    let given = known.iter().filter(|(flag, _)| flags.contains(*flag));
    given.fold(MountAttrFlags::empty(), |all, (_, attribute)| all | *attribute)
}

/// A detached clone of the mount of an opened file, with that file as its root. It is unmounted when it is closed
/// before it is attached.
fn cloned(opened: &OwnedFd, what: &str) -> Result<OwnedFd, MountError> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(opened, "", flags).map_err(|errno| failed(what, "it cannot be bound", errno))
}

fn attach(tree: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

/// Unmounts a path. A busy mount is retried up to [`BUSY_TRIES`] times: between fork and exec, a child process
/// holds copies of all open files of this process.
fn unmounted(path: &Path, flags: UnmountFlags) -> Result<(), Errno> {
    for _ in 0..BUSY_TRIES {
        match unmount(path, flags) {
            Err(Errno::BUSY) => std::thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
    unmount(path, flags)
}

fn is_dir(opened: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(fstat(opened)?.st_mode) == FileType::Directory)
}

fn unsafe_target(path: &Path, why: &str) -> MountError {
    MountError::Unsafe { path: path.to_owned(), why: why.to_owned() }
}
