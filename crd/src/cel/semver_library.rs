//! Functions of semantic versions.
//!
//! Upstream: apiserver `pkg/cel/library/semverlib.go`.

use std::rc::Rc;

use super::Val;
use super::cost::{Result, fail};
use super::semver::Semver;

const KNOWN: [&str; 5] = ["semver", "isSemver", "major", "minor", "patch"];

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
