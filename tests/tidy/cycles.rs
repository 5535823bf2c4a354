//! Checks that no import cycle crosses a folder inside a crate.
//!
//! A cycle of files in one folder is allowed only if it is listed in [`BORNE`], with a reason. Files that still
//! import each other across folders are listed in `cycles_to_cut.txt`, which may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::modules::{Graph, graph};
use super::{files, nothing_wrong};

/// A cycle in one folder, and the reason to allow it.
struct Borne {
    folder: &'static str,
    files: &'static [&'static str],
    #[expect(dead_code, reason = "for the reader")]
    reason: &'static str,
}

/// This list may only shrink.
const BORNE: &[Borne] = &[Borne {
    folder: "test_support/src",
    files: &["fake_api.rs", "http_side.rs"],
    reason: "the fake server holds a client of itself",
}];

/// The files of cycles that are still to be removed, one path per line. A new file in a cycle fails the test, and
/// so does a line whose file is in no cycle.
const TO_CUT: &str = include_str!("cycles_to_cut.txt");

/// The source files by crate, relative to the crate's `src`.
fn crates() -> BTreeMap<PathBuf, Vec<(PathBuf, String)>> {
    let mut crates: BTreeMap<PathBuf, Vec<(PathBuf, String)>> = BTreeMap::new();
    for (path, text) in files(&[".rs"]) {
        let src = path.ancestors().filter(|folder| folder.ends_with("src")).last();
        let Some(src) = src.filter(|src| src.components().count() <= 2) else { continue };
        let inside = path.strip_prefix(src).unwrap().to_owned();
        crates.entry(src.to_owned()).or_default().push((inside, text));
    }
    crates
}

/// The strongly connected components of two or more files.
fn cycles(graph: &Graph) -> Vec<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        graph.keys().map(|file| (file.as_path(), reached(graph, file))).collect();
    let mut found = BTreeSet::new();
    for (file, there) in &reached {
        let cycle: BTreeSet<&Path> =
            there.iter().filter(|other| reached[*other].contains(file)).copied().collect();
        if cycle.len() > 1 {
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

/// The files reachable from one file over at least one edge.
fn reached<'a>(graph: &'a Graph, file: &'a Path) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        for next in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.as_path()) {
                waiting.push(next);
            }
        }
    }
    found
}

/// The folder that contains all files of a cycle, if there is one.
fn one_folder<'a>(cycle: &BTreeSet<&'a Path>) -> Option<&'a Path> {
    let folders: BTreeSet<Option<&Path>> = cycle.iter().map(|file| file.parent()).collect();
    if folders.len() == 1 { folders.into_iter().next().flatten() } else { None }
}

/// The cycle as a list of its edges.
fn describe(src: &Path, graph: &Graph, cycle: &BTreeSet<&Path>) -> String {
    let mut lines = vec![format!("{}: a cycle of {} files:", src.display(), cycle.len())];
    for from in cycle {
        for (to, paths) in graph[*from].iter().filter(|(to, _)| cycle.contains(to.as_path())) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            lines.push(format!("    {} -> {}: {}", from.display(), to.display(), paths.join(", ")));
        }
    }
    lines.join("\n")
}

/// The faults of a crate's cycles; removes the entries that apply from `borne`, and adds to `met` the files of
/// `to_cut` that are in a cycle.
fn faults(
    src: &Path,
    files: &[(PathBuf, String)],
    borne: &mut Vec<&Borne>,
    to_cut: &BTreeSet<&Path>,
    met: &mut BTreeSet<PathBuf>,
) -> Vec<String> {
    let graph = graph(files);
    let mut wrong = Vec::new();
    for cycle in cycles(&graph) {
        let paths: Vec<PathBuf> = cycle.iter().map(|file| src.join(file)).collect();
        if paths.iter().all(|path| to_cut.contains(path.as_path())) {
            met.extend(paths);
            continue;
        }
        let names: BTreeSet<&str> =
            cycle.iter().filter_map(|file| file.file_name()).filter_map(|name| name.to_str()).collect();
        let entry = one_folder(&cycle).and_then(|folder| {
            borne.iter().position(|entry| {
                src.join(folder) == Path::new(entry.folder) && names == entry.files.iter().copied().collect()
            })
        });
        match entry {
            Some(entry) => {
                borne.swap_remove(entry);
            }
            None => wrong.push(describe(src, &graph, &cycle)),
        }
    }
    wrong
}

#[test]
fn no_import_cycle_crosses_a_folder() {
    let mut borne: Vec<&Borne> = BORNE.iter().collect();
    let to_cut: BTreeSet<&Path> = TO_CUT.lines().map(Path::new).collect();
    let (mut met, mut wrong) = (BTreeSet::new(), Vec::new());
    for (src, files) in crates() {
        wrong.extend(faults(&src, &files, &mut borne, &to_cut, &mut met));
    }
    for file in to_cut.iter().filter(|file| !met.contains(**file)) {
        wrong.push(format!("{} is in no cycle any more; take it off cycles_to_cut.txt", file.display()));
    }
    for entry in borne {
        wrong.push(format!(
            "{}: {:?} is no such cycle (any more); take it off the list",
            entry.folder, entry.files
        ));
    }
    nothing_wrong(&wrong);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tree: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            tree.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        faults(Path::new("a/src"), &files, &mut Vec::new(), &BTreeSet::new(), &mut BTreeSet::new())
    }

    #[test]
    fn cycle_across_folders_is_found() {
        let tree = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub mod deep; pub struct A;"),
            ("a/deep.rs", "use crate::{b::{self}, other};\nfn f() { b::run() }"),
            ("b.rs", "pub fn run() { let _ = crate::a::deep::f(); }"),
        ];
        let found = found(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("a/deep.rs -> b.rs: b::run"), "{found:?}");
        assert!(found[0].contains("b.rs -> a/deep.rs: crate::a::deep::f"), "{found:?}");
    }

    #[test]
    fn tree_without_a_cycle_passes() {
        let tree = [
            ("lib.rs", "mod a; mod b; pub use crate::a::A;"),
            ("a/mod.rs", "mod deep; pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("a/deep.rs", "use super::A;"),
            ("a/tests.rs", "use crate::b::B;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&tree), [""; 0]);
    }

    #[test]
    fn reexport_leads_to_the_definition() {
        let tree = [
            ("lib.rs", "mod a; mod c; pub use a::{One, Two as Second};"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use self::one::One; pub(crate) use two::*; use crate::c::C; struct X(C);",
            ),
            ("a/one.rs", "pub struct One;"),
            ("a/two.rs", "pub struct Two;"),
            ("c.rs", "use crate::{One, Second, a::Two}; pub struct C;"),
        ];
        assert_eq!(found(&tree), [""; 0]);
    }

    #[test]
    fn super_is_resolved_upwards() {
        let tree = [
            ("lib.rs", "mod a; mod top;"),
            ("a/mod.rs", "mod b;"),
            ("a/b/mod.rs", "mod c;"),
            ("a/b/c.rs", "use super::super::super::top::Top as T; pub struct Low;"),
            ("top.rs", "use self::super::a::b::c::Low; pub struct Top;"),
        ];
        assert_eq!(found(&tree).len(), 1);
    }

    #[test]
    fn listed_cycle_may_shrink_but_not_grow() {
        let tree = [
            ("a/x.rs", "use crate::b::y::Y; pub struct X;"),
            ("b/y.rs", "use crate::a::x::X; pub struct Y;"),
        ]
        .map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        let check = |listed: &[&str]| {
            let to_cut = listed.iter().map(Path::new).collect();
            let mut met = BTreeSet::new();
            (faults(Path::new("k/src"), &tree, &mut Vec::new(), &to_cut, &mut met).len(), met.len())
        };
        assert_eq!(check(&["k/src/a/x.rs", "k/src/b/y.rs", "k/src/c.rs"]), (0, 2));
        assert_eq!(check(&["k/src/a/x.rs"]), (1, 0));
    }

    #[test]
    fn only_a_listed_cycle_in_one_folder_is_allowed() {
        let one: Vec<_> =
            [("a/x.rs", "use super::y::Y; pub struct X;"), ("a/y.rs", "use super::x::X; pub struct Y;")]
                .map(|(path, text)| (PathBuf::from(path), text.to_owned()))
                .into();
        let entry = Borne { folder: "k/src/a", files: &["x.rs", "y.rs"], reason: "a test" };
        let none = BTreeSet::new();
        let check = |files: &[_], borne: &mut Vec<&_>| {
            faults(Path::new("k/src"), files, borne, &none, &mut BTreeSet::new())
        };
        assert!(check(&one, &mut vec![&entry]).is_empty());
        assert_eq!(check(&one, &mut Vec::new()).len(), 1);
        let mut unmet = vec![&entry];
        assert!(check(&[], &mut unmet).is_empty() && unmet.len() == 1);
    }
}
