//! Parses an expression and checks its types.

use cel::common::ast::IdedExpr;

use super::check::check;
use super::ty::Ty;
use super::variables::Declarations;
use crate::cel::check::{Issue, listed, parse_text};

/// Steps for the types of an expression, besides those for its length.
const STEPS: usize = 10_000;
/// Steps for the types of an expression, for each byte.
const STEPS_PER_BYTE: usize = 100;

/// Compiles an expression, and returns the type of its result. The error lists the mistakes as cel-go does.
pub(crate) fn compile(text: &str, declarations: &Declarations) -> Result<(IdedExpr, Ty), String> {
    let parsed = parse_text(text).map_err(|issues| listed(&issues, 0, text))?;
    let ty = check(&parsed.expr, declarations, STEPS + STEPS_PER_BYTE * text.len()).map_err(|mistakes| {
        let place =
            |id| parsed.source.offset_for(id).map_or((0, 0), |(start, _)| place(text, start as usize));
        let mut issues: Vec<Issue> = mistakes
            .listed
            .into_iter()
            .map(|(id, message)| {
                let (line, column) = place(id);
                Issue { line, column, message }
            })
            .collect();
        issues.sort_by_key(|issue| (issue.line, issue.column));
        listed(&issues, mistakes.omitted, text)
    })?;
    Ok((parsed.expr, ty))
}

/// Returns the line and the column of a character, from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.chars().take(offset);
    before.fold((1, 1), |(line, column), c| if c == '\n' { (line + 1, 1) } else { (line, column + 1) })
}
