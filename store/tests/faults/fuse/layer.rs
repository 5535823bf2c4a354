//! The mounted file system. All requests pass through one thread and one lock, so the record has the order in
//! which the operations happened.
//!
//! It stores everything in memory, never writes back by itself, and receives every write immediately (the
//! kernel writes through). `sync_file_range` is never forwarded to it, so it guarantees nothing, as its
//! manual says. Text that a process appends to [`MARKS`] becomes a mark between the operations.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::tree::{Ino, Op, ROOT, Tree};

/// The name of the file that takes marks.
pub(crate) const MARKS: &str = ".marks";
const MARKS_INO: Ino = 2;
/// Makes a machine without FUSE a test failure.
const REQUIRED: &str = "ORLOP_REQUIRE_FUSE";

/// The tree has no other writers, so the kernel may cache it.
const TTL: Duration = Duration::from_secs(3600);
const O_DSYNC: i32 = 0o10000;
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;

/// The kind of changes that a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Any,
    Write,
    Sync,
}

/// The location of the changes that a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Files in this directory.
    In(&'static str),
    /// Files that are not in it.
    NotIn(&'static str),
}

/// A planned event at a later change.
pub(crate) enum Plan {
    Go,
    /// The process is killed at the n-th change from now (from 0), which is still applied.
    Kill {
        after: u64,
        child: Arc<Mutex<Child>>,
    },
    /// From the n-th change of this kind and place on, this many fail with EIO.
    Fail {
        what: What,
        place: Place,
        after: u64,
        times: u64,
    },
}

struct State {
    tree: Tree,
    trace: Option<Vec<Op>>,
    next: Ino,
    plan: Plan,
    listings: HashMap<u64, Vec<(String, Ino)>>,
    failed: u64,
}

/// A mounted tree. It is unmounted on drop.
pub(crate) struct Layer {
    state: Arc<Mutex<State>>,
    session: Option<BackgroundSession>,
    dir: tempfile::TempDir,
}

impl Layer {
    /// Mounts a tree; with `record`, every change is recorded. `None` where there is no FUSE: the skipped test
    /// then prints a message, or fails when [`REQUIRED`] is set.
    pub(crate) fn mount(tree: Tree, record: bool) -> Option<Layer> {
        let next =
            tree.dirs.keys().chain(tree.files.keys()).max().copied().unwrap_or_default().max(MARKS_INO) + 1;
        let trace = record.then(Vec::new);
        let state = State { tree, trace, next, plan: Plan::Go, listings: HashMap::new(), failed: 0 };
        let state = Arc::new(Mutex::new(state));
        let dir = tempfile::tempdir().expect("the system has a directory for temporary files");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("orlop-faults".into())];
        let mounted = fuser::spawn_mount(Served(Arc::clone(&state)), dir.path(), &config);
        let session = match mounted {
            Ok(session) => session,
            Err(error) => {
                left_out(&error);
                return None;
            }
        };
        Some(Layer { state, session: Some(session), dir })
    }

    /// The mount point.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Sets the plan.
    pub(crate) fn plan(&self, plan: Plan) {
        lock(&self.state).plan = plan;
    }

    /// The number of changes that failed as planned.
    pub(crate) fn failed(&self) -> u64 {
        lock(&self.state).failed
    }

    /// The marks after the first `start` operations of the record, and the number of operations now.
    pub(crate) fn marks_behind(&self, start: usize) -> (Vec<String>, usize) {
        let state = lock(&self.state);
        let trace = state.trace.as_deref().unwrap_or_default();
        let marks = trace[start.min(trace.len())..].iter().filter_map(|op| match op {
            Op::Mark(text) => Some(text.clone()),
            Op::Create { .. }
            | Op::Remove { .. }
            | Op::Rename { .. }
            | Op::Write { .. }
            | Op::Resize { .. }
            | Op::Sync { .. }
            | Op::SyncFailed { .. } => None,
        });
        (marks.collect(), trace.len())
    }

    /// Unmounts the tree, and returns the record.
    pub(crate) fn end(mut self) -> Vec<Op> {
        self.unmount();
        lock(&self.state).trace.take().unwrap_or_default()
    }

    fn unmount(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("{} was not unmounted: {error}", self.dir.path().display());
        }
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// Reports a skipped test on the standard error stream itself, because the test harness hides the output of a
/// test that passes.
fn left_out(error: &std::io::Error) {
    use std::io::Write as _;
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    let why =
        format!("cannot mount a FUSE file system ({error}): this needs /dev/fuse and root (or fusermount3)");
    assert!(std::env::var_os(REQUIRED).is_none(), "{why}, and {REQUIRED} is set");
    let _ = writeln!(
        std::io::stderr(),
        "\nSKIPPED: {test}: {why}. No power is cut and no disk fails here. {REQUIRED}=1 makes this a failure"
    );
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

impl State {
    /// Applies a change, or follows the plan.
    fn change(&mut self, op: Op) -> Result<(), Errno> {
        let counts = self.counts(&op);
        match &mut self.plan {
            Plan::Go => {}
            Plan::Kill { after: 0, child } => {
                // The process may just have ended by itself.
                let _ = child.lock().kill();
                self.plan = Plan::Go;
            }
            Plan::Kill { after, .. } => *after -= 1,
            Plan::Fail { after, times, .. } if counts => {
                if *after > 0 {
                    *after -= 1;
                } else if *times > 0 {
                    *times -= 1;
                    self.failed += 1;
                    if let Op::Sync { ino } = op {
                        self.record(Op::SyncFailed { ino });
                    }
                    return Err(Errno::EIO);
                }
            }
            Plan::Fail { .. } => {}
        }
        self.record(op);
        Ok(())
    }

    /// Whether a failure plan counts this change.
    fn counts(&self, op: &Op) -> bool {
        let Plan::Fail { what, place, .. } = self.plan else { return false };
        let (is, ino) = match op {
            Op::Write { ino, .. } | Op::Resize { ino, .. } => (What::Write, *ino),
            Op::Sync { ino } | Op::SyncFailed { ino } => (What::Sync, *ino),
            Op::Create { dir, .. } | Op::Remove { dir, .. } => (What::Any, *dir),
            Op::Rename { to, .. } => (What::Any, *to),
            Op::Mark(_) => return false,
        };
        let inside = |dir: &str| {
            let dir = self.tree.find(dir);
            dir == Some(ino)
                || dir
                    .and_then(|dir| self.tree.dirs.get(&dir))
                    .is_some_and(|names| names.values().any(|at| *at == ino))
        };
        let here = match place {
            Place::Anywhere => true,
            Place::In(dir) => inside(dir),
            Place::NotIn(dir) => !inside(dir),
        };
        here && (what == What::Any || what == is)
    }

    fn record(&mut self, op: Op) {
        self.tree.apply(&op);
        if let Some(trace) = &mut self.trace {
            trace.push(op);
        }
    }

    fn new_node(&mut self, dir: Ino, name: &OsStr, is_dir: bool) -> Result<FileAttr, Errno> {
        let name = name.to_str().ok_or(Errno::EINVAL)?.to_owned();
        if self.tree.dirs.get(&dir).ok_or(Errno::ENOENT)?.contains_key(&name) {
            return Err(Errno::EEXIST);
        }
        let ino = self.next;
        self.next += 1;
        self.change(Op::Create { dir, name, ino, is_dir })?;
        self.attr(ino)
    }

    fn child(&self, dir: Ino, name: &OsStr) -> Result<(String, Ino), Errno> {
        let name = name.to_str().ok_or(Errno::EINVAL)?;
        let ino = self.tree.dirs.get(&dir).and_then(|names| names.get(name)).ok_or(Errno::ENOENT)?;
        Ok((name.to_owned(), *ino))
    }

    fn attr(&self, ino: Ino) -> Result<FileAttr, Errno> {
        let (kind, size) = match (self.tree.dirs.get(&ino), self.tree.files.get(&ino)) {
            (Some(_), _) => (FileType::Directory, 0),
            (None, Some(bytes)) => (FileType::RegularFile, bytes.len() as u64),
            (None, None) if ino == MARKS_INO => (FileType::RegularFile, 0),
            (None, None) => return Err(Errno::ENOENT),
        };
        let time = SystemTime::UNIX_EPOCH;
        let perm = if kind == FileType::Directory { 0o755 } else { 0o644 };
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn fallocate(&mut self, ino: Ino, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        let now = self.tree.files.get(&ino).ok_or(Errno::ENOENT)?.len() as u64;
        if mode & PUNCH_HOLE != 0 {
            let bytes = vec![0; now.min(offset + length).saturating_sub(offset) as usize];
            return self.change(Op::Write { ino, offset, bytes });
        }
        if mode & KEEP_SIZE == 0 && offset + length > now {
            return self.change(Op::Resize { ino, length: offset + length });
        }
        Ok(())
    }
}

/// The handler of the kernel's requests.
struct Served(Arc<Mutex<State>>);

impl Served {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    fn remove(&self, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let removed = state.child(dir.0, name).and_then(|(name, ino)| {
            if state.tree.dirs.get(&ino).is_some_and(|names| !names.is_empty()) {
                return Err(Errno::ENOTEMPTY);
            }
            state.change(Op::Remove { dir: dir.0, name, ino })
        });
        tell(reply, removed);
    }
}

fn tell(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn tell_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.state();
        let found = match state.child(parent.0, name) {
            Err(_) if parent.0 == ROOT && name == MARKS => Ok(MARKS_INO),
            found => found.map(|(_, ino)| ino),
        };
        tell_entry(reply, found.and_then(|ino| state.attr(ino)));
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.state().attr(ino.0) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let resized = match size {
            Some(length) if ino.0 != MARKS_INO => state.change(Op::Resize { ino: ino.0, length }),
            Some(_) | None => Ok(()),
        };
        match resized.and_then(|()| state.attr(ino.0)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        tell_entry(reply, self.state().new_node(parent.0, name, true));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        let renamed = state.child(parent.0, name).and_then(|(name, ino)| {
            let new_name = newname.to_str().ok_or(Errno::EINVAL)?.to_owned();
            state.change(Op::Rename { from: parent.0, name, to: newparent.0, new_name, ino })
        });
        tell(reply, renamed);
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.state().new_node(parent.0, name, false) {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let direct = ino.0 == MARKS_INO;
        reply.opened(FileHandle(0), if direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.state();
        let bytes = state.tree.files.get(&ino.0).map_or(&[][..], Vec::as_slice);
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + size as usize);
        reply.data(&bytes[start..end]);
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let written = if ino.0 == MARKS_INO {
            state.change(Op::Mark(String::from_utf8_lossy(data).trim_end().to_owned()))
        } else {
            let write = Op::Write { ino: ino.0, offset, bytes: data.to_vec() };
            state.change(write).and_then(|()| {
                if flags.0 & O_DSYNC == 0 { Ok(()) } else { state.change(Op::Sync { ino: ino.0 }) }
            })
        };
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        tell(reply, self.state().change(Op::Sync { ino: ino.0 }));
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        tell(reply, self.state().change(Op::Sync { ino: ino.0 }));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        let Some(names) = state.tree.dirs.get(&ino.0) else { return reply.error(Errno::ENOENT) };
        let names = names.iter().map(|(name, ino)| (name.clone(), *ino)).collect();
        let handle = state.next;
        state.next += 1;
        state.listings.insert(handle, names);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let state = self.state();
        let dots = [(".".to_owned(), ino.0), ("..".to_owned(), ino.0)];
        let names = state.listings.get(&fh.0).into_iter().flatten();
        for (at, (name, ino)) in dots.iter().chain(names).enumerate().skip(offset as usize) {
            let is_dir = state.tree.dirs.contains_key(ino);
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(*ino), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.state().listings.remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        // 64 GiB, nearly all of it free.
        let blocks = 16 << 20;
        reply.statfs(blocks, blocks - 4096, blocks - 4096, 1 << 20, 1 << 19, 4096, 255, 4096);
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        tell(reply, self.state().fallocate(ino.0, offset, length, mode));
    }
}
