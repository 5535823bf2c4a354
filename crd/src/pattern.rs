//! Regular expressions of schemas and CEL, with a bound on their memory.

use regex::Regex;

/// Bytes that a compiled pattern may take.
const PATTERN_SIZE: usize = 256 << 10;

/// Compiles a pattern of a schema. Matching takes time in proportion to the text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build()
}
