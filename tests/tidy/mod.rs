//! Checks the repository's own rules: which names may occur where, and what every file must contain.
//!
//! `edges` compares the dependencies between crates with ARCHITECTURE.md, `cycles` finds import cycles
//! inside a crate (`syntax` reads the paths, `modules` resolves them to files), and `style` checks the layout
//! of modules. `commands` checks the test filters in the documentation.

mod commands;
mod cycles;
mod edges;
mod modules;
mod style;
mod syntax;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A longer file has more than one purpose.
const MOST_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the repository with one of these extensions, relative to its root.
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

/// Fails with a list of all faults.
fn nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The workspace's metadata from cargo, without third-party crates.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A package's name as in ARCHITECTURE.md: the name of its folder.
fn short_name(package: &Value) -> String {
    let name = package.as_str().unwrap();
    name.strip_prefix("orlop-").unwrap_or(name).replace('-', "_")
}

/// I1
#[test]
fn only_the_embedded_store_names_its_backend() {
    // The examples measure this backend and read its directory.
    let rooms = ["store/src/embedded", "store/examples", "tests/tidy"];
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

/// A `tests.rs` is described by the file next to it, whose tests it contains.
#[test]
fn every_file_begins_with_its_description() {
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
fn no_unfinished_work_is_marked() {
    // Split, so that this file does not match.
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
fn own_annotations_are_named_in_one_place() {
    let place = Path::new("client/src/names/annotation.rs");
    let (mut wrong, mut exists) = (Vec::new(), false);
    for (path, text) in files(&[".rs"]) {
        let named = text.lines().filter(|line| line.contains("const ANN_") && line.contains("orlop.dev/"));
        exists |= path == place;
        if path != place && !path.starts_with("tests") {
            wrong.extend(
                named.map(|line| format!("{}: {line}: it belongs into {}", path.display(), place.display())),
            );
        }
    }
    assert!(exists, "{} does not exist", place.display());
    nothing_wrong(&wrong);
}
