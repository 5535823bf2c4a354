//! The patterns of `matches`, `find` and `findAll`.

use std::sync::Arc;

use super::cost::{Meter, Result, fail};
use crate::pattern::{Pattern, compile, compile_effort, positions};

/// Number of compiled patterns that an evaluation keeps.
const KEPT: usize = 4;

/// The patterns that an evaluation has compiled last: a rule mostly uses one pattern for each item of a list.
#[derive(Default)]
pub(super) struct Patterns(Vec<(String, Arc<Pattern>)>);

/// Returns a compiled pattern, and pays for a search in `text`.
pub(super) fn compiled(meter: &mut Meter, text: &str, pattern: &str) -> Result<Arc<Pattern>> {
    // The search takes time for each position of the pattern and each byte of the text.
    let positions = positions(pattern).max(pattern.len()) as u64;
    meter.pay(200 + positions.saturating_mul(1 + text.len() as u64 / 100))?;
    if let Some((_, known)) = meter.patterns.0.iter().find(|(known, _)| known == pattern) {
        return Ok(known.clone());
    }
    meter.pay(compile_effort(pattern) as u64)?;
    let compiled = match compile(pattern) {
        Ok(compiled) => Arc::new(compiled),
        Err(why) => return fail(format!("error parsing regexp: {why}")),
    };
    let kept = &mut meter.patterns.0;
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    kept.push((pattern.to_owned(), compiled.clone()));
    Ok(compiled)
}
