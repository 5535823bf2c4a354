//! The patterns of `matches`, `find` and `findAll`.

use std::sync::Arc;

use super::cost::{Meter, Result, fail};
use crate::pattern::{Pattern, compile, compile_effort, positions};

/// Returns a compiled pattern, and pays for a search in `text`.
pub(super) fn compiled(meter: &mut Meter, text: &str, pattern: &str) -> Result<Arc<Pattern>> {
    // The time of a search is proportional to the positions of the pattern times the length of the text.
    let positions = positions(pattern).max(pattern.len()) as u64;
    meter.pay(200 + positions.saturating_mul(1 + text.len() as u64 / 100))?;
    if let Some(known) = meter.patterns.get(pattern) {
        return Ok(known);
    }
    meter.pay(compile_effort(pattern) as u64)?;
    let compiled = match compile(pattern) {
        Ok(compiled) => Arc::new(compiled),
        Err(why) => return fail(format!("error parsing regexp: {why}")),
    };
    meter.patterns.insert(pattern, compiled.clone());
    Ok(compiled)
}
