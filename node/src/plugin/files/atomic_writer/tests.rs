//! The content of a volume after each write: complete even when a write fails or crashes at any step, under
//! concurrent reads, and in the presence of malicious links.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;

type Shown = BTreeMap<String, String>;
/// Names and contents.
type Files<'a> = &'a [(&'a str, &'a str)];
type Named<F> = (&'static str, F);

struct Fixture {
    dir: TempDir,
    volume: OwnedFd,
    group: Option<u32>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("v")).unwrap();
        fs::create_dir_all(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/dear"), "dear").unwrap();
        let volume = rooted_fs::open_dir_below(dir.path(), Path::new("v")).unwrap();
        Self { dir, volume, group: None }
    }

    fn writer(&self) -> Writer<'_> {
        Writer { volume: &self.volume, group: self.group, now: Timestamp::UNIX_EPOCH }
    }

    fn write(&self, files: &[(&str, &str)]) -> WriteOutcome {
        self.writer().write(&payload(files)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("v").join(name)
    }

    /// The view of a container: files behind links, without names that begin with `..`.
    fn shown(&self) -> Shown {
        let mut shown = Shown::new();
        let mut left = vec![self.path("")];
        while let Some(at) = left.pop() {
            for entry in fs::read_dir(&at).unwrap() {
                let path = entry.unwrap().path();
                if path.file_name().unwrap().as_bytes().starts_with(b"..") {
                    continue;
                }
                // A dangling link shows no file.
                let Ok(found) = fs::metadata(&path) else { continue };
                if found.is_dir() {
                    left.push(path);
                } else {
                    let name = path.strip_prefix(self.path("")).unwrap().display().to_string();
                    shown.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        shown
    }

    /// The reserved names in the volume.
    fn own(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("..")).collect();
        names.sort();
        names
    }

    fn is_dear_there(&self) -> bool {
        let out = self.dir.path().join("out");
        fs::read(out.join("dear")).unwrap() == b"dear" && fs::read_dir(&out).unwrap().count() == 1
    }
}

fn payload(files: &[(&str, &str)]) -> Payload {
    let content = |text: &str| Content { bytes: text.as_bytes().to_vec(), mode: 0o644, uid: None };
    files.iter().map(|(path, text)| ((*path).to_owned(), content(text))).collect()
}

fn shown(files: &[(&str, &str)]) -> Shown {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn paths_are_normalized_or_rejected() {
    let (long, longer) = ("x".repeat(256), "x/".repeat(2049));
    for (path, want) in [
        ("a", Ok("a")),
        ("./a//b/", Ok("a/b")),
        ("a/..b", Ok("a/..b")),
        (".a", Ok(".a")),
        ("...", Err("must not start with '..'")),
        ("..data", Err("must not start with '..': ..data")),
        ("./..data", Err("must not start with '..': ./..data")),
        ("", Err("must not be empty: \"\"")),
        ("./.", Err("must name a file")),
        ("/a", Err("must be relative path: /a")),
        ("..", Err("must not contain '..': ..")),
        ("a/../b", Err("must not contain '..': a/../b")),
        ("a\0", Err("must not contain a zero byte")),
        (&long, Err("filenames must be less than or equal to 255 characters")),
        (&longer, Err("must be less than or equal to 4096 characters")),
    ] {
        let got = cleaned(path).map_err(|error| error.to_string());
        match want {
            Ok(want) => assert_eq!(got.as_deref(), Ok(want), "{path}"),
            Err(part) => {
                let error = got.unwrap_err();
                assert!(error.starts_with("invalid path: ") && error.contains(part), "{path}: {error}");
            }
        }
    }
}

#[test]
fn files_are_visible_through_links() {
    let room = Fixture::new();
    let files = [("a", "1"), ("d/b", "2"), ("d/e/c", ""), ("é \n", "x")];
    assert_eq!(room.write(&files), WriteOutcome::Files);
    assert_eq!(room.shown(), shown(&files));
    let data = fs::read_link(room.path("..data")).unwrap();
    assert!(data.to_str().unwrap().starts_with("..1970_01_01_00_00_00."), "{data:?}");
    assert_eq!(fs::read_link(room.path("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read_link(room.path("d")).unwrap(), Path::new("..data/d"));
    assert_eq!(fs::metadata(room.path("d/e")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(room.path("..data/")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(room.path("a")).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(room.own().len(), 2);
    assert_eq!(room.write(&[]), WriteOutcome::Files);
    assert_eq!(room.shown(), shown(&[]));
    let error = room.writer().write(&payload(&[("a", ""), ("a-", ""), ("a/b", "")])).unwrap_err().to_string();
    assert_eq!(error, "invalid path: a is a file and a directory");
    let error = room.writer().write(&payload(&[("../x", "")])).unwrap_err().to_string();
    assert_eq!(error, "invalid path: must not contain '..': ../x");
}

#[test]
fn only_changed_content_is_written() {
    let room = Fixture::new();
    let files = [("a", "1"), ("d/b", "2")];
    let data = || fs::read_link(room.path("..data")).unwrap();
    room.write(&files);
    let first = data();
    assert_eq!(room.write(&files), WriteOutcome::Nothing);
    assert_eq!(data(), first);
    // A missing link is restored without writing new files.
    fs::remove_file(room.path("a")).unwrap();
    symlink("..data/x", room.path("stale")).unwrap();
    fs::create_dir(room.path("..left")).unwrap();
    symlink("x", room.path("..data_tmp")).unwrap();
    assert_eq!(room.write(&files), WriteOutcome::Links);
    assert_eq!((data(), room.shown()), (first.clone(), shown(&files)));
    assert_eq!(room.own().len(), 2, "{:?}", room.own());
    assert!(fs::symlink_metadata(room.path("stale")).is_err());
    // Any fault of a file makes it invalid.
    let wrongs: [Named<fn(&Path)>; 5] = [
        ("content", |dir| fs::write(dir.join("a"), "2").unwrap()),
        ("length", |dir| fs::write(dir.join("a"), "").unwrap()),
        ("mode", |dir| {
            fs::set_permissions(dir.join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }),
        ("more", |dir| fs::write(dir.join("d/more"), "").unwrap()),
        ("link", |dir| {
            fs::remove_file(dir.join("a")).unwrap();
            symlink("d/b", dir.join("a")).unwrap();
        }),
    ];
    for (name, wrong) in wrongs {
        wrong(&room.path("..data"));
        assert_eq!(room.write(&files), WriteOutcome::Files, "{name}");
        assert_eq!(room.shown(), shown(&files), "{name}");
        assert_eq!(room.own().len(), 2, "{name}");
    }
}

#[test]
fn group_may_read_all_files() {
    let mut room = Fixture::new();
    let is_root = orlop_test_support::privileges::has_root("a group and an owner that are not our own");
    let own = rustix::process::getegid().as_raw();
    let (group, uid) = if is_root { (4242, Some(4343)) } else { (own, None) };
    room.group = Some(group);
    let content = |mode, uid| Content { bytes: b"x".to_vec(), mode, uid };
    let files: Payload =
        [("token".to_owned(), content(0o600, uid)), ("d/f".to_owned(), content(0o604, None))].into();
    assert_eq!(room.writer().write(&files).unwrap(), WriteOutcome::Files);
    for (path, mode) in [("token", 0o640), ("d/f", 0o644), ("d", 0o2755), ("..data/", 0o2755)] {
        let found = fs::metadata(room.path(path)).unwrap();
        assert_eq!((found.mode() & 0o7777, found.gid()), (mode, group), "{path}");
    }
    if let Some(uid) = uid {
        assert_eq!(fs::metadata(room.path("token")).unwrap().uid(), uid);
    }
    assert_eq!(room.writer().write(&files).unwrap(), WriteOutcome::Nothing);
    if is_root {
        room.group = Some(4244);
        assert_eq!(room.writer().write(&files).unwrap(), WriteOutcome::Files, "another group");
    }
}

/// A write of the second content over the first stops at each of its steps, once with an error and once by a
/// crash of the writer.
#[test]
fn write_stopped_at_any_step_leaves_one_complete_content() {
    let cases: [(Files<'_>, Files<'_>); 4] = [
        (&[], &[("a", "1"), ("d/b", "1")]),
        (&[("a", "1"), ("d/b", "1"), ("gone", "1")], &[("a", "2"), ("d/b", "2"), ("new", "2")]),
        (&[("a", "1")], &[]),
        (&[("a/x", "1")], &[("a", "2")]),
    ];
    for (old, new) in cases {
        let mut steps = Vec::new();
        let room = Fixture::new();
        room.write(old);
        room.writer()
            .write_by(&payload(new), &mut |step| {
                steps.push(step);
                Ok(())
            })
            .unwrap();
        assert!(steps.contains(&WriteStep::Swap), "{steps:?}");
        for (number, step) in steps.iter().enumerate() {
            for dies in [false, true] {
                let room = Fixture::new();
                room.write(old);
                let mut count = 0;
                let mut at = |_: WriteStep| {
                    count += 1;
                    if count <= number {
                        return Ok(());
                    }
                    // A crashed writer does not clean up.
                    if dies { std::panic::resume_unwind(Box::new("dead")) } else { Err(Errno::NOSPC) }
                };
                let outcome =
                    catch_unwind(AssertUnwindSafe(|| room.writer().write_by(&payload(new), &mut at)));
                let what = format!("{old:?} {new:?} step {number} {step:?} dies={dies}");
                match outcome {
                    Ok(outcome) => assert!(!dies && outcome.is_err(), "{what}"),
                    Err(_) => assert!(dies, "{what}"),
                }
                let is_new = matches!(step, WriteStep::RemoveLink | WriteStep::RemoveOld);
                assert_eq!(room.shown(), shown(if is_new { new } else { old }), "{what}");
                if !dies && !is_new {
                    assert!(room.own().len() <= 2, "{what}: {:?}", room.own());
                }
                let again = room.write(new);
                assert_eq!(again == WriteOutcome::Files, !is_new, "{what}");
                assert_eq!(room.shown(), shown(new), "{what}");
                assert_eq!(room.own().len(), 2, "{what}: {:?}", room.own());
                let names = fs::read_dir(room.path("")).unwrap().count();
                let tops: BTreeSet<_> = new.iter().map(|(path, _)| path.split('/').next()).collect();
                assert_eq!(names, 2 + tops.len(), "{what}: nothing stale stays");
            }
        }
    }
}

#[test]
fn readers_see_one_complete_content() {
    let room = Fixture::new();
    let text = |number: u32| number.to_string().repeat(3000);
    room.write(&[("a", &text(0)), ("d/b", &text(0))]);
    let (stop, whole) = (AtomicBool::new(false), std::sync::atomic::AtomicU32::new(0));
    let is_whole = |bytes: &[u8]| bytes.len() >= 3000 && bytes.len().is_multiple_of(3000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // A single file is always complete, in either version.
                    if let Ok(bytes) = fs::read(room.path("a")) {
                        assert!(is_whole(&bytes), "{} bytes", bytes.len());
                    }
                    // The files of one directory belong together. The directory may be removed meanwhile: then there is a newer one.
                    let Ok(data) = rooted_fs::open_dir_below(
                        &room.path(""),
                        &fs::read_link(room.path("..data")).unwrap(),
                    ) else {
                        continue;
                    };
                    let read = |name: &str| fs::read(format!("/proc/self/fd/{}/{name}", data.as_raw_fd()));
                    if let (Ok(a), Ok(b)) = (read("a"), read("d/b")) {
                        assert!(is_whole(&a) && a == b);
                        whole.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut number = 0;
        while number < 100 || whole.load(Ordering::Relaxed) < 50 {
            number += 1;
            let text = text(number % 10);
            room.write(&[("a", &text), ("d/b", &text)]);
            assert_eq!(fs::read_to_string(room.path("a")).unwrap(), text);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn malicious_links_are_not_followed() {
    let files = [("a", "1"), ("d/b", "2")];
    let traps: [Named<fn(&Fixture)>; 7] = [
        ("data leads out", |room| symlink("../out", room.path("..data")).unwrap()),
        ("data leads out, absolute", |room| {
            symlink(room.dir.path().join("out"), room.path("..data")).unwrap();
        }),
        ("data leads to a link", |room| {
            symlink("../out", room.path("..evil")).unwrap();
            symlink("..evil", room.path("..data")).unwrap();
        }),
        ("data leads to itself", |room| symlink("..data", room.path("..data")).unwrap()),
        ("a name leads out", |room| symlink("../out/dear", room.path("a")).unwrap()),
        ("a name is a file", |room| fs::write(room.path("a"), "no").unwrap()),
        ("old content leads out", |room| {
            room.write(&[("a", "0"), ("d/b", "2")]);
            let data = room.path(fs::read_link(room.path("..data")).unwrap().to_str().unwrap());
            fs::remove_dir_all(data.join("d")).unwrap();
            symlink("../../out", data.join("d")).unwrap();
        }),
    ];
    for (name, trap) in traps {
        let room = Fixture::new();
        trap(&room);
        assert_eq!(room.write(&files), WriteOutcome::Files, "{name}");
        assert_eq!(room.shown(), shown(&files), "{name}");
        assert_eq!(room.own().len(), 2, "{name}: {:?}", room.own());
        assert!(room.is_dear_there(), "{name}");
    }
}

#[test]
fn mount_point_of_a_nested_volume_is_retained() {
    let room = Fixture::new();
    fs::create_dir_all(room.path("other/deep")).unwrap();
    for files in [[("a", "1"), ("other/x", "1")], [("a", "2"), ("b", "2")]] {
        room.write(&files);
        assert!(room.path("other/deep").is_dir());
        assert!(!fs::symlink_metadata(room.path("other")).unwrap().is_symlink());
    }
}
