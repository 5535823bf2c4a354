//! Regular expressions of schemas and CEL, with a memory limit.

use regex::Regex;

/// Maximum size of a compiled pattern, bytes.
const PATTERN_SIZE: usize = 256 << 10;

/// Compiles a pattern of a schema. The matching time is proportional to the length of the text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build()
}
