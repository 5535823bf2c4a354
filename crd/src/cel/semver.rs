//! Semantic versions.
//!
//! Upstream: apiserver `pkg/cel/library/semverlib.go`, and the module `github.com/blang/semver/v4`, which it uses.

use std::cmp::Ordering;
use std::rc::Rc;

use orlop_apimachinery::quoted;

use super::Val;
use super::cost::{Result, fail};

const KNOWN: [&str; 5] = ["semver", "isSemver", "major", "minor", "patch"];

/// A version. Its build metadata is validated and dropped: no function reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    release: Vec<Part>,
}

/// A part of a prerelease. Numbers are less than words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Semver {
    fn order(&self, other: &Semver) -> Ordering {
        // A version without a prerelease is greater than its prereleases.
        let is_final = |version: &Semver| version.release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(is_final(self).cmp(&is_final(other)))
            .then_with(|| self.release.cmp(&other.release))
    }

    fn parse(text: &str) -> std::result::Result<Semver, String> {
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
    fn parse_normalized(text: &str) -> std::result::Result<Semver, String> {
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

fn whole(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", quoted(text))
    })
}

fn number(name: &str, title: &str, text: &str) -> std::result::Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if has_leading_zeros(text) {
        return Err(format!("{title} number must not contain leading zeroes {}", quoted(text)));
    }
    whole(text)
}

fn part(text: &str) -> std::result::Result<Part, String> {
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

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    let parsed = |text: &str, normalize: bool| match normalize {
        true => Semver::parse_normalized(text),
        false => Semver::parse(text),
    };
    let made = |parsed: std::result::Result<Semver, String>| match parsed {
        Ok(version) => Ok(Val::Semver(Rc::new(version))),
        Err(why) => fail(why),
    };
    let number = |version: &Semver, at: usize| Ok(Val::Int(version.numbers[at].cast_signed()));
    Some(match (name, args) {
        ("semver", [Val::Text(text)]) => made(parsed(text, false)),
        ("semver", [Val::Text(text), Val::Bool(normalize)]) => made(parsed(text, *normalize)),
        ("isSemver", [Val::Text(text)]) => Ok(Val::Bool(parsed(text, false).is_ok())),
        ("isSemver", [Val::Text(text), Val::Bool(normalize)]) => {
            Ok(Val::Bool(parsed(text, *normalize).is_ok()))
        }
        ("major", [Val::Semver(version)]) => number(version, 0),
        ("minor", [Val::Semver(version)]) => number(version, 1),
        ("patch", [Val::Semver(version)]) => number(version, 2),
        ("isLessThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.order(b).is_lt())),
        ("isGreaterThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.order(b).is_gt())),
        ("compareTo", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Int(a.order(b) as i64)),
        _ => return None,
    })
}
