//! Support for tests that need privileges. Without them such a test is skipped: it writes a line that begins with
//! `SKIPPED` to standard error, and fails if privileges are required (`ORLOP_REQUIRE_ROOT=1` or `CI=true`).

use std::io::Write as _;

/// Makes a missing privilege a failure.
const REQUIRED: &str = "ORLOP_REQUIRE_ROOT";

/// Whether this process is root. If it is not, reports that `what` is not tested.
///
/// # Panics
/// Root is required here.
pub fn has_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        left_out(what, "it needs root");
    }
    is_root
}

/// Reports that `what` is not tested on this machine, and why.
///
/// # Panics
/// The test is required here.
pub fn left_out(what: &str, why: &str) {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    assert!(!is(REQUIRED, "1") && !is("CI", "true"), "{what}: {why}; and {REQUIRED}=1 or CI=true is set");
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    // The test runner captures what `eprintln!` prints in a test that passes.
    let _ =
        writeln!(std::io::stderr(), "\nSKIPPED: {test}: {what}: {why}. {REQUIRED}=1 makes this a failure");
}
