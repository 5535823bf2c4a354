//! Checks that every case is listed at the branch it tests, and that every branch lists existing cases. Reads the
//! sources.

use std::collections::BTreeSet;
use std::path::Path;

use super::table;

/// The files below a folder, except those in folders called `tests`.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pv")
}

/// Ids after `// Tests:`.
fn named_at_branches() -> BTreeSet<String> {
    let mut files = sources(&folder());
    // The rules that the node agent applies too are in a crate of their own.
    for file in ["affinity.rs", "class.rs", "fit.rs", "modes.rs", "object.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../volume/src").join(file);
        files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    let lines = files.iter().flat_map(|(_, text)| text.lines());
    lines
        .filter_map(|line| line.split_once("// Tests: "))
        .flat_map(|(_, ids)| ids.split(','))
        .map(|id| id.trim().to_owned())
        .collect()
}

/// Ids that appear as strings in the tests without tables: `"FN-…"`, `"IDX-…"`, `"NEW-…"`.
fn named_in_other_tests() -> BTreeSet<String> {
    let files = sources(&folder().join("tests"));
    let mut ids = BTreeSet::new();
    for (_, text) in files.iter().filter(|(path, _)| !path.ends_with("links.rs")) {
        for piece in text.split(['"', ' ']) {
            let is_id = ["FN-", "IDX-", "NEW-"].iter().any(|prefix| piece.starts_with(prefix))
                && piece.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-');
            if is_id {
                ids.insert(piece.to_owned());
            }
        }
    }
    ids
}

#[test]
fn cases_and_branches_reference_each_other() {
    let mut cases: BTreeSet<String> = named_in_other_tests();
    cases.extend(table::all().map(|case| case.id.to_owned()));
    let branches = named_at_branches();
    let lost: Vec<_> = branches.difference(&cases).collect();
    assert!(lost.is_empty(), "branches name cases that do not exist: {lost:?}");
    let homeless: Vec<_> = cases.difference(&branches).collect();
    assert!(homeless.is_empty(), "cases that no branch names: {homeless:?}");
}

#[test]
fn case_ids_are_unique() {
    let mut seen = BTreeSet::new();
    for case in table::all() {
        assert!(seen.insert(case.id), "{} is there twice", case.id);
    }
}

/// The four files that decide about data have no wildcard arm.
#[test]
fn deciding_files_have_no_wildcard_arm() {
    for file in ["claim_situation.rs", "claim_sync.rs", "volume_situation.rs", "volume_sync.rs"] {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        assert!(text.contains("#![deny(clippy::wildcard_enum_match_arm)]"), "{file}");
        assert!(text.contains("SPACE SHUTTLE STYLE"), "{file}");
        let wildcard = text.lines().find(|line| line.trim_start().starts_with("_ =>"));
        assert!(wildcard.is_none(), "{file}: {wildcard:?}");
    }
}
