//! Checks that the test filters in the documentation match a test: a renamed test would otherwise leave a command
//! that runs nothing and succeeds.

use std::collections::BTreeSet;

use super::{files, nothing_wrong};

/// Options of `cargo test` with a value.
const WITH_VALUE: [&str; 4] = ["-p", "--package", "--test", "--features"];

/// The test filters of a line: the words after `cargo test` that are neither options nor their values.
fn filters(line: &str) -> Vec<String> {
    let Some((_, command)) = line.split_once("cargo test") else { return Vec::new() };
    let command = command.split(['`', '#']).next().unwrap_or_default();
    let mut words = command.split_whitespace().peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-') && word.chars().all(|c| c.is_alphanumeric() || c == '_') {
            found.push(word.to_owned());
        }
    }
    found
}

/// The names of files and functions, which make up the paths of tests.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, text) in files(&[".rs"]) {
        names.extend(path.iter().map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned()));
        let functions = text.split("fn ").skip(1);
        names.extend(
            functions.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()),
        );
    }
    names
}

#[test]
fn test_filters_in_the_documentation_match_a_test() {
    let names = names();
    let mut wrong = Vec::new();
    for (path, text) in files(&[".md"]) {
        for filter in text.lines().flat_map(filters) {
            if !names.iter().any(|name| name.contains(&filter)) {
                wrong.push(format!("{}: no test matches {filter}", path.display()));
            }
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn filters_are_separated_from_options() {
    for (line, want) in [
        ("cargo build", vec![]),
        ("    cargo test -p orlop-store", vec![]),
        ("| `A=1 cargo test -p orlop-store --lib -- one two` | three |", vec!["one", "two"]),
        ("cargo test --test e2e story   # the stories", vec!["story"]),
        ("`cargo test ...`", vec![]),
    ] {
        assert_eq!(filters(line), want, "{line}");
    }
}
