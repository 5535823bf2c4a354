//! Opening of paths: with openat2(2), which resolves the whole path in the kernel, or component by component
//! where openat2 is not available (old kernels, and sandboxes that block it).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

use super::RootedFsError;

/// How often a lookup is tried that the kernel could not complete safely.
const TRIES: usize = 128;

/// Whether mounts on the path are crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// They are crossed.
    Anywhere,
    /// A mount point is an error (`EXDEV`), whatever is mounted there.
    InMount,
}

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// openat2(2).
    Kernel,
    /// openat(2) with `O_NOFOLLOW`, one component at a time.
    Steps,
}

impl Resolver {
    /// The better resolver that this machine supports. The check runs once.
    pub fn best() -> Self {
        static FOUND: OnceLock<Resolver> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH) {
                // Container sandboxes return EPERM for unknown system calls.
                Err(Errno::NOSYS | Errno::PERM) => Self::Steps,
                Ok(_) | Err(_) => Self::Kernel,
            }
        })
    }

    /// Opens the root; returns it and the path relative to it (empty for the root itself).
    pub(super) fn start(self, root: &Path, path: &Path) -> Result<(OwnedFd, PathBuf), RootedFsError> {
        let relative = relative(root, path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| RootedFsError::Refused {
            path: root.to_owned(),
            why: format!("the directory that everything is below cannot be opened: {errno}"),
            source: errno.into(),
        })?;
        Ok((dir, relative))
    }

    /// Opens the parent of a path; returns it and the last component.
    pub(super) fn parent(self, root: &Path, path: &Path) -> Result<(OwnedFd, OsString), RootedFsError> {
        let (dir, relative) = self.start(root, path)?;
        let Some(name) = relative.file_name() else {
            return Err(RootedFsError::Unsafe {
                path: path.to_owned(),
                why: "it is the directory that everything is below, not something in it".to_owned(),
            });
        };
        let above = relative.parent().unwrap_or(Path::new(""));
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = self
            .open(&dir, above, flags, Stay::Anywhere)
            .map_err(|errno| explained(&dir, &relative, path, "it cannot be reached", errno))?;
        Ok((parent, name.to_owned()))
    }

    /// Opens a path.
    pub fn open_path(self, root: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd, RootedFsError> {
        let (dir, relative) = self.start(root, path)?;
        self.open(&dir, &relative, flags, Stay::Anywhere)
            .map_err(|errno| explained(&dir, &relative, path, "it cannot be opened", errno))
    }

    /// Opens the parent of a path, for unmounting by name; returns it and the last component.
    pub fn open_parent(self, root: &Path, path: &Path) -> Result<(OwnedFd, OsString), RootedFsError> {
        self.parent(root, path)
    }

    /// Opens a relative path of normal components below an open directory. A link anywhere in it is ELOOP or ENOTDIR.
    pub fn open(self, dir: impl AsFd, relative: &Path, flags: OFlags, stay: Stay) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => by_kernel(dir, relative, flags, stay),
            Self::Steps => by_steps(dir, relative, flags, stay),
        }
    }
}

fn by_kernel(dir: impl AsFd, relative: &Path, flags: OFlags, stay: Stay) -> Result<OwnedFd, Errno> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if stay == Stay::InMount {
        resolve |= ResolveFlags::NO_XDEV;
    }
    // Without `O_NOFOLLOW`: in combination with `O_PATH` it would open a link instead of failing.
    open_resolved(dir, relative, flags, resolve)
}

/// Opens a path with openat2(2). Close-on-exec is always set.
///
/// If any file of the machine is renamed or any file system is mounted while the kernel follows a `..`, the kernel cannot
/// tell whether the lookup stayed inside and returns EAGAIN. The call is then repeated; an attacker who renames without
/// pause gets that error after 128 attempts.
pub fn open_resolved(
    dir: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        match openat2(&dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

fn by_steps(dir: impl AsFd, relative: &Path, flags: OFlags, stay: Stay) -> Result<OwnedFd, Errno> {
    let always = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut names = relative.components().map(|component| component.as_os_str().to_owned()).peekable();
    if names.peek().is_none() {
        return openat(&dir, ".", flags | always, Mode::empty());
    }
    let mount = |fd: BorrowedFd<'_>| match stay {
        Stay::Anywhere => Ok(None),
        Stay::InMount => mount_id(fd).map(Some).map_err(|_| Errno::IO),
    };
    let home = mount(dir.as_fd())?;
    let mut current: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let wanted = match names.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY,
            None => flags,
        };
        let from = current.as_ref().map_or(dir.as_fd(), AsFd::as_fd);
        let next = openat(from, &name, wanted | always, Mode::empty())?;
        if wanted.contains(OFlags::PATH)
            && FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink
        {
            return Err(Errno::LOOP);
        }
        if mount(next.as_fd())? != home {
            return Err(Errno::XDEV);
        }
        current = Some(next);
    }
    current.ok_or(Errno::NOENT)
}

/// The ID of the mount in which a file was opened, as in the mount table (proc(5), fdinfo).
pub fn mount_id(fd: impl AsFd) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))
        .and_then(|id| id.trim().parse().ok())
        .ok_or_else(|| io::Error::other("the kernel does not report the mount of a file (/proc/self/fdinfo)"))
}

/// The path relative to the root, of normal components only.
pub(super) fn relative(root: &Path, path: &Path) -> Result<PathBuf, RootedFsError> {
    let wrong = |why: String| RootedFsError::Unsafe { path: path.to_owned(), why };
    let rest = if path.is_absolute() {
        path.strip_prefix(root).map_err(|_| wrong(format!("it is not below {}", root.display())))?
    } else {
        path
    };
    let mut plain = PathBuf::new();
    for component in rest.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(wrong("it has `..` in it".to_owned())),
            Component::RootDir | Component::Prefix(_) => {
                return Err(wrong(format!("it is not below {}", root.display())));
            }
        }
    }
    Ok(plain)
}

/// The error of a lookup, with the component that caused it.
pub(super) fn explained(
    dir: &OwnedFd,
    relative: &Path,
    path: &Path,
    doing: &str,
    errno: Errno,
) -> RootedFsError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT => RootedFsError::Missing { path },
        Errno::LOOP | Errno::NOTDIR => match blame(dir, relative) {
            Some((step, FileType::Symlink)) => RootedFsError::Unsafe {
                path,
                why: format!("{} is a link; links are not followed", step.display()),
            },
            Some((step, _)) => RootedFsError::Refused {
                path,
                why: format!("{} is not a directory", step.display()),
                source: errno.into(),
            },
            // It was replaced in the meantime.
            None => RootedFsError::Unsafe {
                path,
                why: "the path contains a symbolic link; links are not followed".to_owned(),
            },
        },
        Errno::XDEV => RootedFsError::Unsafe { path, why: "it leads out of the directory".to_owned() },
        errno => RootedFsError::Refused { path, why: format!("{doing}: {errno}"), source: errno.into() },
    }
}

/// The first component that is not a directory, for error messages only.
fn blame(dir: &OwnedFd, relative: &Path) -> Option<(PathBuf, FileType)> {
    let mut step = PathBuf::new();
    for name in relative.iter() {
        step.push(name);
        let found = Resolver::Steps
            .open(
                dir,
                step.parent().unwrap_or(Path::new("")),
                OFlags::PATH | OFlags::DIRECTORY,
                Stay::Anywhere,
            )
            .and_then(|parent| statat(parent, Path::new(name), AtFlags::SYMLINK_NOFOLLOW))
            .ok()?;
        let found = FileType::from_raw_mode(found.st_mode);
        if found != FileType::Directory {
            return Some((step, found));
        }
    }
    None
}

/// A unique temporary name for a file that is later renamed to `of`.
pub(super) fn passing_name(of: &OsStr) -> OsString {
    let mut name = passing_beginning(of);
    name.push(format!("{:016x}", rand::random::<u64>()));
    name
}

/// Whether a name is a [`passing_name`] of `of`.
pub(super) fn is_passing(name: &OsStr, of: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(passing_beginning(of).as_bytes());
    rest.is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
}

fn passing_beginning(of: &OsStr) -> OsString {
    let mut name = OsString::from(".");
    // A name has at most 255 bytes.
    name.push(OsStr::from_bytes(of.as_bytes().get(..200).unwrap_or(of.as_bytes())));
    name.push(".");
    name
}
