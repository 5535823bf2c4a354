//! What a container sees: its root, with volumes in it, in a mount namespace of its own. Everything is opened below the directory that it
//! has to be in (`openat2`), and mounts are moved onto what was opened, not onto names.
//!
//! A mount point that is not there is not made in the file system of the machine: the directory that lacks it is replaced, for this
//! container, by one in memory which shows all that was in it and can have one entry more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, StatVfsMountFlags, Uid};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change,
    mount_remount, move_mount, open_tree, unmount,
};

use super::order::{Container, MountPlan, Propagation, message_file};

/// A directory with more entries than this is not shown through memory.
const ENTRIES: usize = 4096;
/// What a root directory of its own needs of the machine.
const SYSTEM: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Why a container cannot see what it should.
pub(super) type Refusal = String;

/// Says what was tried beside why it failed.
fn at<T>(what: impl std::fmt::Display, result: rustix::io::Result<T>) -> Result<T, Refusal> {
    result.map_err(|error| format!("{what}: {}", io::Error::from(error)))
}

/// The path of something that is open, also when that is a link.
fn magic(fd: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A tree of mounts, taken out of where it is.
fn detached(fd: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(fd, path, flags)
}

fn attach(tree: &OwnedFd, target: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

/// Makes this process see the container's root and nothing else. The process is in a mount namespace of its own already.
pub(super) fn enter(plan: &Container) -> Result<(), Refusal> {
    // Before anything is made a follower of the machine: what is to be seen on both sides has to be taken as it is.
    let mut mounts = Vec::new();
    for one in &plan.mounts {
        mounts.push((one, source(one)?));
    }
    mounts.sort_by_key(|(one, _)| one.at.components().count());
    let message = message_file(&plan.dir, plan.restart);
    let message_tree = at(message.display(), detached(CWD, &message.to_string_lossy()))?;
    let system: Vec<(&str, OwnedFd)> = match plan.image {
        None => Vec::new(),
        Some(_) => SYSTEM
            .into_iter()
            .map(|path| Ok((path, at(path, detached(CWD, path))?)))
            .collect::<Result<_, Refusal>>()?,
    };
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    at("mounts of the machine", mount_change("/", slave))?;

    let root = plan.dir.join("rootfs");
    let shown = plan.image.as_deref().unwrap_or(Path::new("/"));
    let tree = at(format!("root directory {}", shown.display()), detached(CWD, &shown.to_string_lossy()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let spot = at(root.display(), rustix::fs::open(&root, flags, Mode::empty()))?;
    at(root.display(), attach(&tree, &spot))?;
    drop((tree, spot));
    at(root.display(), mount_change(&root, slave))?;
    hide_others(&root, shown, &plan.agent_root)?;
    if plan.read_only_root {
        let keeps =
            |path: &Path| plan.image.is_none() && SYSTEM.iter().any(|one| path.starts_with(&one[1..]));
        make_read_only(&root, keeps)?;
    }
    for (path, tree) in &system {
        place(&root, Path::new(path), tree, true)?;
    }
    for (one, tree) in &mounts {
        let is_dir = at(one.at.display(), rustix::fs::fstat(tree))?;
        let is_dir = FileType::from_raw_mode(is_dir.st_mode) == FileType::Directory;
        place(&root, &one.at, tree, is_dir)?;
        set(one, tree)?;
    }
    let message_at = Path::new(&plan.message_path);
    if message_at.starts_with("/dev") && !message_at.exists() {
        // Directories of devices must show what comes later: an empty file in memory is better than a copy.
        let made = std::fs::OpenOptions::new().append(true).create(true).open(message_at);
        made.map_err(|error| format!("{}: {error}", message_at.display()))?;
    }
    place(&root, message_at, &message_tree, false)?;
    drop((mounts, system, message_tree));
    pivot(&root)
}

/// Opens what a mount shows: the volume, or a part of it that does not lead out of it. A part that is not there is made.
fn source(one: &MountPlan) -> Result<OwnedFd, Refusal> {
    let name = one.volume.display();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let volume = at(format!("volume {name}"), rustix::fs::open(&one.volume, flags, Mode::empty()))?;
    let part = match &one.sub_path {
        None => volume,
        Some(sub) => {
            sub_path(&volume, sub).map_err(|why| format!("subPath {:?} of {name}: {why}", sub.display()))?
        }
    };
    if one.propagation == Propagation::Bidirectional && !is_shared(&part)? {
        return Err(format!(
            "{name} cannot be mounted Bidirectional: it is not on a shared mount of this machine"
        ));
    }
    at(format!("volume {name}"), detached(&part, ""))
}

/// Opens a path below a directory; links are followed as long as they stay in it. What is not there is made, with the mode of the directory:
/// who may write to it may write there (upstream: subpath.SafeMakeDir).
pub(super) fn sub_path(volume: &OwnedFd, sub: &Path) -> Result<OwnedFd, String> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let say = |error: rustix::io::Errno| match error {
        rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => "it leads out of the volume".to_owned(),
        other => io::Error::from(other).to_string(),
    };
    let open = |path: &Path| rustix::fs::openat2(volume, path, flags, Mode::empty(), resolve);
    match open(sub) {
        Err(rustix::io::Errno::NOENT) => {}
        other => return other.map_err(say),
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(volume).map_err(say)?.st_mode & 0o3777);
    let mut path = PathBuf::new();
    let mut parent = open(Path::new(".")).map_err(say)?;
    for step in sub.components() {
        let Component::Normal(step) = step else { return Err("it is no plain path".to_owned()) };
        path.push(step);
        parent = match open(&path) {
            Err(rustix::io::Errno::NOENT) => {
                make_part(&parent, step, mode)
                    .map_err(|error| format!("it is not there and cannot be made: {}", say(error)))?;
                open(&path).map_err(say)?
            }
            other => other.map_err(say)?,
        };
    }
    Ok(parent)
}

/// Makes a directory with this mode, whatever the umask is. One that came meanwhile is somebody else's.
fn make_part(parent: &OwnedFd, name: &std::ffi::OsStr, mode: Mode) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::fchmod(rustix::fs::openat(parent, name, flags, Mode::empty())?, mode)
}

/// Whether something is on a mount whose later mounts others see.
fn is_shared(fd: &OwnedFd) -> Result<bool, Refusal> {
    let path = std::fs::read_link(magic(fd)).map_err(|error| error.to_string())?;
    let table = mountinfo()?;
    let on = table
        .iter()
        .filter(|line| path.starts_with(&line.path))
        .max_by_key(|line| line.path.components().count());
    Ok(on.is_some_and(|line| line.is_shared))
}

struct MountLine {
    path: PathBuf,
    is_shared: bool,
}

/// All mounts of this namespace, in their order.
fn mountinfo() -> Result<Vec<MountLine>, Refusal> {
    let text = std::fs::read("/proc/thread-self/mountinfo")
        .map_err(|error| format!("/proc/thread-self/mountinfo: {error}"))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(mount_line).collect())
}

fn mount_line(line: &[u8]) -> Option<MountLine> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut fields = line.split(|byte| *byte == b' ');
    let path = fields.nth(4)?;
    let optional = fields.skip(1).take_while(|field| *field != b"-");
    let is_shared = optional.into_iter().any(|field| field.starts_with(b"shared:"));
    Some(MountLine { path: PathBuf::from(std::ffi::OsString::from_vec(unescaped(path))), is_shared })
}

/// Blanks and the like are written as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code =
            tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// Takes the agent's directory out of the container's view: it holds volumes of other pods. What is mounted there goes; what will be mounted there
/// later comes to this namespace too, and is behind an empty directory in memory.
fn hide_others(root: &Path, shown: &Path, agent_root: &Path) -> Result<(), Refusal> {
    let Ok(inner) = agent_root.strip_prefix(shown) else { return Ok(()) };
    let below = root.join(inner);
    let table = mountinfo()?;
    for line in table.iter().rev().filter(|line| line.path.starts_with(&below) && line.path != below) {
        at(line.path.display(), unmount(&line.path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW))?;
    }
    if inner.as_os_str().is_empty() {
        return Ok(());
    }
    match inside(root, inner) {
        Ok(spot) => at(agent_root.display(), memory().and_then(|tree| attach(&tree, &spot))),
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => at(agent_root.display(), Err(error)),
    }
}

/// A small directory in memory that is nowhere yet.
fn memory() -> rustix::io::Result<OwnedFd> {
    let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in [("source", "tmpfs"), ("mode", "0755"), ("size", "1m")] {
        fsconfig_set_string(&made, name, value)?;
    }
    fsconfig_create(&made)?;
    fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Makes the mounts at and below a path read-only, but not those for which `keeps` says so.
fn make_read_only(root: &Path, keeps: impl Fn(&Path) -> bool) -> Result<(), Refusal> {
    for line in mountinfo()? {
        let Ok(inner) = line.path.strip_prefix(root) else { continue };
        if !keeps(inner) {
            remount_read_only(&line.path)?;
        }
    }
    Ok(())
}

/// What a mount forbids already is forbidden after it, too.
fn remount_read_only(path: &Path) -> Result<(), Refusal> {
    let found = at(path.display(), rustix::fs::statvfs(path))?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (is, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if found.contains(is) {
            flags |= flag;
        }
    }
    at(format!("read-only {}", path.display()), mount_remount(path, flags, ""))
}

/// How a volume that is in its place is seen. `tree` is what was mounted there: the name of the place may be another's by now.
fn set(one: &MountPlan, tree: &OwnedFd) -> Result<(), Refusal> {
    let how = match one.propagation {
        Propagation::None => Some(MountPropagationFlags::PRIVATE | MountPropagationFlags::REC),
        Propagation::HostToContainer => Some(MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC),
        Propagation::Bidirectional => None,
    };
    if let Some(how) = how {
        at(one.at.display(), mount_change(magic(tree), how))?;
    }
    if one.read_only {
        remount_read_only(Path::new(&magic(tree)))?;
    }
    if one.read_only_below {
        let path =
            std::fs::read_link(magic(tree)).map_err(|error| format!("{}: {error}", one.at.display()))?;
        make_read_only(&path, |_| false)?;
    }
    Ok(())
}

/// Puts a tree at a path of the container, which is made when it is not there.
fn place(root: &Path, path: &Path, tree: &OwnedFd, is_dir: bool) -> Result<(), Refusal> {
    let mut target = inside(root, path);
    if matches!(target, Err(rustix::io::Errno::NOENT)) {
        make(root, path, is_dir)?;
        target = inside(root, path);
    }
    let target = at(format!("mount point {}", path.display()), target)?;
    let name = std::fs::read_link(magic(&target)).map_err(|error| format!("{}: {error}", path.display()))?;
    if !name.starts_with(root) || name == root {
        return Err(format!("mount point {} is not inside the container", path.display()));
    }
    at(format!("mount point {}", path.display()), attach(tree, &target))
}

/// Opens a path as the container would.
fn inside(root: &Path, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let top = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(top, path, flags, Mode::empty(), resolve)
}

/// Makes a mount point in memory.
fn make(root: &Path, path: &Path, is_dir: bool) -> Result<(), Refusal> {
    let name = path.display();
    let mut missing: Vec<&Path> = Vec::new();
    let mut here = path;
    let parent = loop {
        missing.push(here);
        here = here.parent().ok_or_else(|| format!("mount point {name} is no absolute path"))?;
        match inside(root, here) {
            Ok(fd) => break fd,
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(format!("mount point {name}: {}", io::Error::from(error))),
        }
    };
    let shown = here.display();
    let entries = show_through_memory(root, &parent).map_err(|why| {
        format!("mount point {name} is not there and cannot be made: {shown}: {why}; make it on this machine")
    })?;
    debug_assert!(entries <= ENTRIES);
    while let Some(step) = missing.pop() {
        let last = step.file_name().ok_or_else(|| format!("mount point {name} is no plain path"))?;
        let parent = step.parent().unwrap_or(Path::new("/"));
        let parent = at(parent.display(), inside(root, parent))?;
        let made = if is_dir || !missing.is_empty() {
            rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o755))
        } else {
            empty_file(&parent, last)
        };
        at(step.display(), made)?;
    }
    Ok(())
}

fn empty_file(parent: &OwnedFd, name: &std::ffi::OsStr) -> rustix::io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
}

/// Puts a directory in memory over another, with everything that is in that one. Returns how much that is.
fn show_through_memory(root: &Path, dir: &OwnedFd) -> Result<usize, String> {
    let words = |error: rustix::io::Errno| io::Error::from(error).to_string();
    let found = rustix::fs::fstat(dir).map_err(words)?;
    let path = std::fs::read_link(magic(dir)).map_err(|error| error.to_string())?;
    if !path.starts_with(root) {
        return Err("it is not inside the container".to_owned());
    }
    let reader =
        rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::new(reader.map_err(words)?).map_err(words)? {
        let name = entry.map_err(words)?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            entries.push(name);
        }
        if entries.len() > ENTRIES {
            return Err(format!("it has more than {ENTRIES} entries"));
        }
    }
    let mut trees = Vec::new();
    for name in &entries {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let tree = match kind {
            FileType::Symlink => None,
            _ => {
                let text = name.to_str().map_err(|_| "a name in it is no UTF-8".to_owned())?;
                Some(detached(dir, text).map_err(words)?)
            }
        };
        trees.push((name, kind, tree));
    }
    // Somewhere, because only there others can be mounted in it; and on what was opened, whatever its name leads to by now.
    let fresh = memory().map_err(words)?;
    attach(&fresh, dir).map_err(words)?;
    for (name, kind, tree) in &trees {
        match (kind, tree) {
            (FileType::Symlink, _) | (_, None) => {
                let link = rustix::fs::readlinkat(dir, *name, Vec::new()).map_err(words)?;
                rustix::fs::symlinkat(&link, &fresh, *name).map_err(words)?;
            }
            (kind, Some(tree)) => {
                match kind {
                    FileType::Directory => rustix::fs::mkdirat(&fresh, *name, Mode::from_raw_mode(0o755)),
                    _ => empty_file(&fresh, std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())),
                }
                .map_err(words)?;
                let spot = rustix::fs::openat(&fresh, *name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                attach(tree, &spot.map_err(words)?).map_err(words)?;
            }
        }
    }
    let (owner, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
    rustix::fs::chownat(&fresh, "", Some(owner), Some(group), AtFlags::EMPTY_PATH).map_err(words)?;
    let mode = Mode::from_raw_mode(found.st_mode & 0o7777);
    rustix::fs::chmodat(&fresh, ".", mode, AtFlags::empty()).map_err(words)?;
    Ok(trees.len())
}

/// Makes a directory the root; the old root is out of reach after it.
fn pivot(root: &Path) -> Result<(), Refusal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = at("/", rustix::fs::open("/", flags, Mode::empty()))?;
    at(root.display(), rustix::process::chdir(root))?;
    match rustix::process::pivot_root(".", ".") {
        Ok(()) => {
            at("old root", rustix::process::fchdir(&old))?;
            at("old root", unmount(".", UnmountFlags::DETACH))?;
        }
        // The machine runs from its initial memory file system, which cannot be exchanged.
        Err(rustix::io::Errno::INVAL) => {
            at("root", rustix::mount::mount_move(".", "/"))?;
            at("root", rustix::process::chroot("."))?;
        }
        Err(error) => return Err(format!("{}: {}", root.display(), io::Error::from(error))),
    }
    at("/", rustix::process::chdir("/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_of_the_table_of_mounts() {
        let line =
            mount_line(br"36 35 98:0 /mnt1 /a\040b\134 rw,noatime shared:7 master:1 - ext3 /dev/root rw")
                .unwrap();
        assert_eq!((line.path.as_path(), line.is_shared), (Path::new("/a b\\"), true));
        let line = mount_line(b"36 35 98:0 / /x rw master:1 - ext3 shared:1 rw").unwrap();
        assert!(!line.is_shared);
        assert!(mount_line(b"").is_none());
    }

    #[test]
    fn a_part_of_a_volume_stays_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        std::fs::create_dir_all(volume.join("in/deep")).unwrap();
        std::fs::create_dir(dir.path().join("secret")).unwrap();
        for (name, target) in
            [("out", "../secret"), ("abs", "/etc"), ("good", "in"), ("proc", "/proc/self/root")]
        {
            std::os::unix::fs::symlink(target, volume.join(name)).unwrap();
        }
        let fd = rustix::fs::open(&volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        for (sub, want) in [
            ("in/deep", Ok("in/deep")),
            ("good/deep", Ok("in/deep")),
            ("good/made/new", Ok("in/made/new")),
            ("fresh", Ok("fresh")),
            ("out", Err("it leads out of the volume")),
            ("out/x", Err("it leads out of the volume")),
            ("abs", Err("it leads out of the volume")),
            ("abs/x", Err("it leads out of the volume")),
            ("proc/etc", Err("it leads out of the volume")),
            ("in/../../secret", Err("it leads out of the volume")),
        ] {
            let got = sub_path(&fd, Path::new(sub)).map(|fd| std::fs::read_link(magic(&fd)).unwrap());
            let want = want.map(|path| volume.join(path)).map_err(str::to_owned);
            assert_eq!(got, want, "{sub}");
        }
        assert!(std::fs::read_dir(dir.path().join("secret")).unwrap().next().is_none());
    }

    /// Who may write to a shared volume swaps a directory of it for a link, while a mount point is made there for another container.
    #[test]
    fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
        use std::os::unix::fs::PermissionsExt as _;
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        if !rustix::process::geteuid().is_root() {
            eprintln!("LEFT OUT: mounts need root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (volume, victim) = (dir.path().join("volume"), dir.path().join("victim"));
        for (path, mode) in [(&volume, 0o777), (&volume.join("part"), 0o777), (&victim, 0o700)] {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&victim, volume.join("link")).unwrap();
        let is_over = AtomicBool::new(false);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(500);
        let swap = || {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let (part, link) = (volume.join("part"), volume.join("link"));
            while !is_over.load(Relaxed) && std::time::Instant::now() < end {
                rustix::fs::renameat_with(CWD, &part, CWD, &link, flags).unwrap();
            }
        };
        let place = || {
            #[allow(deprecated, reason = "the table of open files is not taken apart")]
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS)
                .unwrap();
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            let mode = || std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777;
            while std::time::Instant::now() < end && mode() == 0o700 {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let Ok(part) = rustix::fs::open(volume.join("part"), flags, Mode::empty()) else { continue };
                // It may say that it was swapped.
                let _ = show_through_memory(dir.path(), &part);
                drop(part);
                for line in mountinfo().unwrap().iter().rev().filter(|line| line.path.starts_with(dir.path()))
                {
                    let _ = unmount(&line.path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
                }
            }
            is_over.store(true, Relaxed);
            mode()
        };
        let mode = std::thread::scope(|scope| {
            scope.spawn(swap);
            scope.spawn(place).join().unwrap()
        });
        assert_eq!(mode, 0o700, "the mode of a directory outside was changed to {mode:o}");
    }
}
