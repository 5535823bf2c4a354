//! The repository's own rules: what may be named where, and what a file must have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// More than this is more than one idea.
const MOST_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the repository with one of these endings, relative to its root.
fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != ".git" && !name.starts_with("target") {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {endings:?} below {}", root().display());
    found
}

/// Fails with all that is wrong, not with the first of it.
fn nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The table of ARCHITECTURE.md: `a, b -> c, d`, several to a line, behind "Allowed edges".
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("Allowed edges").nth(1).expect("ARCHITECTURE.md has the allowed edges");
    let mut edges = BTreeMap::new();
    for line in
        block.lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| line.starts_with("    "))
    {
        for edge in line.split("  ").map(str::trim).filter(|edge| edge.contains("->")) {
            let (from, to) = edge.split_once("->").expect("the arrow is there");
            let to = to.trim();
            let to = match to {
                "nothing" => BTreeSet::new(),
                to => to.split(',').map(|name| name.trim().to_owned()).collect(),
            };
            let from = from.split('(').next().unwrap_or_default().trim();
            edges.insert(from.to_owned(), to);
        }
    }
    edges
}

/// Crates that may be dev-dependencies of any other.
const FOR_TESTS: [&str; 2] = ["csi_hostpath", "test_support"];

/// Our crates and the crates of ours that each depends on.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("orlop-").unwrap_or(name).replace('-', "_")
    };
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<String> = packages.iter().map(|package| short(&package["name"])).collect();
    let named = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies
            .map(|dependency| (short(&dependency["name"]), dependency["kind"] == "dev"))
            .filter(|(name, is_dev)| ours.contains(name) && !(*is_dev && FOR_TESTS.contains(&name.as_str())))
            .map(|(name, _)| name)
            .collect()
    };
    packages.iter().map(|package| (short(&package["name"]), named(package))).collect()
}

#[test]
fn crates_depend_as_the_architecture_says() {
    let allowed = allowed_edges();
    let mut wrong = Vec::new();
    for (from, to) in edges() {
        let Some(allowed) = allowed.get(&from) else {
            wrong.push(format!("ARCHITECTURE.md does not say what {from} may depend on"));
            continue;
        };
        if allowed.contains("all") {
            continue;
        }
        wrong.extend(to.difference(allowed).map(|to| format!("{from} must not depend on {to}")));
    }
    nothing_wrong(&wrong);
}

/// I1
#[test]
fn only_the_embedded_store_names_its_backend() {
    // The examples measure this backend and look into its directory.
    let rooms = ["store/src/embedded", "store/examples", "tests/tidy.rs"];
    let allowed = |path: &Path| rooms.iter().any(|room| path.starts_with(room));
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs"]) {
        let names = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("sled"))
        };
        if allowed(&path) {
            continue;
        }
        for (index, line) in text.lines().enumerate().filter(|(_, line)| names(line)) {
            wrong.push(format!("{}:{}: names sled: {}", path.display(), index + 1, line.trim()));
        }
    }
    for (path, text) in files(&["Cargo.toml"]) {
        let may = path == Path::new("Cargo.toml") || path == Path::new("store/Cargo.toml");
        if !may && text.contains("sled") {
            wrong.push(format!("{}: names sled", path.display()));
        }
    }
    nothing_wrong(&wrong);
}

/// A `tests.rs` is said by the file beside it whose tests it holds.
#[test]
fn every_file_says_first_what_it_is() {
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs"]) {
        if path.file_name().is_some_and(|name| name != "tests.rs") && !text.starts_with("//!") {
            wrong.push(format!("{}: the first line must begin with //!", path.display()));
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn no_file_is_too_long() {
    let long = files(&[".rs", ".js"]).into_iter().map(|(path, text)| (path, text.lines().count()));
    let wrong: Vec<String> = long
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{}: {lines} lines; split it by ideas", path.display()))
        .collect();
    nothing_wrong(&wrong);
}

#[test]
fn nothing_is_left_for_later() {
    // In pieces, so that this file does not hold them itself.
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimplem", "ented!(")];
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs", ".js", ".css", ".html", ".md", ".toml", ".yaml"]) {
        for (index, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{}: {word}", path.display(), index + 1));
            }
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn our_own_annotations_are_named_in_one_place() {
    let place = Path::new("controller/src/names.rs");
    let mut wrong = Vec::new();
    for (path, text) in files(&[".rs"]) {
        let shares = path.starts_with("controller/src") || path.starts_with("node/src");
        let named = text.lines().filter(|line| line.contains("const ANN_") && line.contains("orlop.dev/"));
        if shares && path != place {
            wrong.extend(
                named.map(|line| format!("{}: {line}: it belongs into {}", path.display(), place.display())),
            );
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn the_table_of_edges_is_read() {
    let allowed = allowed_edges();
    assert!(allowed["store"].is_empty());
    assert_eq!(allowed["controller"], BTreeSet::from(["apimachinery".to_owned(), "csi".to_owned()]));
    assert!(allowed["apiserver"].contains("store") && !allowed["apiserver"].contains("controller"));
    assert!(allowed["orlop"].contains("all"));
}
