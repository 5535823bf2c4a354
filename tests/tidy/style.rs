//! Checks the layout of modules: `foo/mod.rs`, never `foo.rs` next to a folder `foo`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{files, nothing_wrong};

/// The layout faults of these Rust files.
fn faults(paths: &[PathBuf]) -> Vec<String> {
    let mut folders: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        folders.entry(path.parent().unwrap_or(Path::new(""))).or_default().insert(name);
    }
    let mut wrong = Vec::new();
    for path in paths {
        let folder = path.with_extension("");
        if folders.contains_key(folder.as_path()) {
            wrong.push(format!(
                "{} lies beside a folder; make it {}/mod.rs",
                path.display(),
                folder.display()
            ));
        }
    }
    for (folder, names) in folders {
        if names.iter().eq(&["tests.rs"]) {
            wrong.push(format!("{} holds only tests.rs; put the tests into a file", folder.display()));
        }
    }
    wrong
}

#[test]
fn modules_have_one_layout() {
    let paths: Vec<PathBuf> = files(&[".rs"]).into_iter().map(|(path, _)| path).collect();
    nothing_wrong(&faults(&paths));
}

#[test]
fn other_layout_is_found() {
    let found = |paths: &[&str]| faults(&paths.iter().map(PathBuf::from).collect::<Vec<_>>()).len();
    assert_eq!(found(&["a/src/lib.rs", "a/src/foo/mod.rs", "a/src/foo/tests.rs"]), 0);
    assert_eq!(found(&["a/src/lib.rs", "a/src/foo.rs", "a/src/foo/bar.rs"]), 1);
    assert_eq!(found(&["a/src/lib.rs", "a/src/foo/tests.rs"]), 1);
}
