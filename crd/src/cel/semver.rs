//! Semantic versions. `semver_library` has the functions.
//!
//! Upstream: apiserver `pkg/cel/library/semverlib.go`, and the module `github.com/blang/semver/v4`, which it uses.

use std::cmp::Ordering;

use orlop_apimachinery::quoted;

/// A version. Its build metadata is validated and dropped: no function reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    /// The major, the minor and the patch version.
    pub(super) numbers: [u64; 3],
    release: Vec<Part>,
}

/// A part of a prerelease. Numbers are less than words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Semver {
    pub(super) fn order(&self, other: &Semver) -> Ordering {
        // A version without a prerelease is greater than its prereleases.
        let is_final = |version: &Semver| version.release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(is_final(self).cmp(&is_final(other)))
            .then_with(|| self.release.cmp(&other.release))
    }

    /// Parses a version.
    pub(super) fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number("major", "Major", major)?, number("minor", "Minor", minor)?);
        let (rest, build) = split_off(rest, '+');
        let (patch, release) = split_off(rest, '-');
        let patch = number("patch", "Patch", patch)?;
        let release = release.map_or(Ok(Vec::new()), |release| release.split('.').map(part).collect())?;
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", quoted(word)));
            }
        }
        Ok(Semver { numbers: [major, minor, patch], release })
    }

    /// Parses a version that may have a `v` before it, lack its last numbers, and have zeros before its numbers.
    pub(super) fn parse_normalized(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn split_off(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}

fn has_leading_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", quoted(text))
    })
}

fn number(name: &str, title: &str, text: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if has_leading_zeros(text) {
        return Err(format!("{title} number must not contain leading zeroes {}", quoted(text)));
    }
    whole(text)
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_number(text) {
        if has_leading_zeros(text) {
            let text = quoted(text);
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text}"));
        }
        return whole(text).map(Part::Number);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", quoted(text)));
    }
    Ok(Part::Word(text.to_owned()))
}
