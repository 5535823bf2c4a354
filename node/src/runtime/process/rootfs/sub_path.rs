//! Opens a path inside a volume (`subPath`), and creates it if it is missing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use orlop_volume::rooted_fs::open_resolved;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Opens a path below a directory; links are followed as long as they stay below it. Missing directories are
/// created with the mode of their parent, so the same users may write to them (upstream: subpath.SafeMakeDir).
pub(super) fn sub_path(volume: &OwnedFd, sub: &Path) -> Result<OwnedFd, String> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let say = |error: rustix::io::Errno| match error {
        rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => "it leads out of the volume".to_owned(),
        other => io::Error::from(other).to_string(),
    };
    let open = |path: &Path| open_resolved(volume, path, flags, resolve);
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

/// Creates a directory with this mode, regardless of the umask. A concurrently created one is left unchanged.
fn make_part(parent: &OwnedFd, name: &std::ffi::OsStr, mode: Mode) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::fchmod(rustix::fs::openat(parent, name, flags, Mode::empty())?, mode)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tree::magic;
    use super::*;

    #[test]
    fn sub_path_stays_in_its_volume() {
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
}
