//! Parses an expression and checks its names.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, SourceInfo};

use super::{extensions, functions};
use crate::program::Program;

/// Maximum length of an expression, bytes.
const MAX_LENGTH: usize = 16 * 1024;
/// Maximum nesting depth of brackets.
const MAX_NESTING: usize = 32;
/// Maximum nesting depth of steps, in an expression and in an evaluation with the `variables` that it uses.
pub(super) const MAX_DEPTH: usize = 250;
/// Maximum number of mistakes that an error lists, as in cel-go.
pub(super) const MAX_ISSUES: usize = 100;
/// Stack size of the parser thread, bytes.
const PARSER_STACK: usize = 256 << 20;

/// A mistake in an expression, and its place: the number of the line, and that of the character in it, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// A parsed expression.
pub(crate) struct Parsed {
    pub(crate) expr: IdedExpr,
    /// The places of its nodes.
    pub(crate) source: SourceInfo,
}

/// An error without a place.
fn issue(message: String) -> Vec<Issue> {
    vec![Issue { line: 0, column: 0, message }]
}

/// Parses an expression.
pub(crate) fn parse_text(text: &str) -> Result<Parsed, Vec<Issue>> {
    if text.len() > MAX_LENGTH {
        return Err(issue(format!("the expression is longer than {MAX_LENGTH} bytes")));
    }
    if nesting(text) > MAX_NESTING {
        return Err(issue(format!("the expression is nested more than {MAX_NESTING} brackets deep")));
    }
    // The parser needs far more stack than a server thread has.
    let text = text.to_owned();
    let parsing = std::thread::Builder::new().stack_size(PARSER_STACK).spawn(move || parse(&text));
    let parsed = parsing.map_err(|error| issue(error.to_string()))?.join();
    parsed.unwrap_or_else(|_| Err(issue("the expression cannot be read".to_owned())))
}

fn parse(text: &str) -> Result<Parsed, Vec<Issue>> {
    let parser = cel::parser::Parser::new().enable_optional_syntax(true);
    let (expr, source) = parser.parse_with_source_info(text).map_err(|errors| {
        let place = |number: isize| usize::try_from(number).unwrap_or_default();
        let issues = errors.errors.into_iter().map(|error| Issue {
            line: place(error.pos.0),
            column: place(error.pos.1),
            message: error.msg,
        });
        issues.collect::<Vec<_>>()
    })?;
    if depth(&expr) > MAX_DEPTH {
        return Err(issue(format!("the syntax tree of the expression has more than {MAX_DEPTH} levels")));
    }
    Ok(Parsed { expr, source })
}

impl Program {
    /// Parses an expression of a rule. The error describes why it does not compile.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parsed = parse_text(text).map_err(|issues| listed(&issues, 0, text))?;
        Program::of(parsed.expr)
    }

    /// A program of a parsed expression.
    pub(crate) fn of(expr: IdedExpr) -> Result<Self, String> {
        let mut check = Check { bound: Vec::new(), uses_old: false };
        check.expr(&expr)?;
        Ok(Program { uses_old: check.uses_old, expr: Arc::new(expr) })
    }
}

/// Describes mistakes as cel-go does. `omitted` is the number of those that are not in the list. Each repeats its line, so a long
/// list would be far longer than the expression.
pub(crate) fn listed(issues: &[Issue], omitted: usize, text: &str) -> String {
    let omitted = omitted + issues.len().saturating_sub(MAX_ISSUES);
    let mut shown: Vec<String> = issues.iter().take(MAX_ISSUES).map(|issue| issue.shown(text)).collect();
    if omitted > 0 {
        shown.push(format!("{omitted} more errors were truncated"));
    }
    shown.join("\n")
}

impl Issue {
    /// Describes the mistake with its line, as cel-go does.
    pub(crate) fn shown(&self, text: &str) -> String {
        let Some(line) = self.line.checked_sub(1).and_then(|at| text.lines().nth(at)) else {
            return self.message.clone();
        };
        let line = line.replace('\t', " ");
        let before = self.column.saturating_sub(1);
        let dots: String =
            line.chars().take(before).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' }).collect();
        let is_wide = line.chars().nth(before).is_some_and(|c| c.len_utf8() > 1);
        let mark = if is_wide { '\u{ff3e}' } else { '^' };
        let (row, column, message) = (self.line, self.column, &self.message);
        format!("ERROR: <input>:{row}:{column}: {message}\n | {line}\n | {dots}{mark}")
    }
}

/// Returns the nesting depth of the brackets in a text. Brackets in string literals count too.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in text.bytes() {
        match c {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the nesting depth of the steps.
fn depth(expr: &IdedExpr) -> usize {
    let deepest = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(depth).max().unwrap_or(0);
    1 + match &expr.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => 0,
        Expr::Select(select) => depth(&select.operand),
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => deepest(&mut map.entries.iter().flat_map(|entry| parts(&entry.expr))),
        Expr::Struct(object) => deepest(&mut object.entries.iter().flat_map(|entry| parts(&entry.expr))),
        Expr::Call(call) => deepest(&mut call.args.iter().chain(call.target.as_deref())),
        Expr::Comprehension(all) => deepest(
            &mut [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result].into_iter(),
        ),
    }
}

/// Returns the expressions of an entry of a map or an object.
fn parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

struct Check {
    bound: Vec<String>,
    uses_old: bool,
}

impl Check {
    fn expr(&mut self, expr: &IdedExpr) -> Result<(), String> {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => return self.ident(name),
            Expr::Select(select) => self.expr(&select.operand)?,
            Expr::List(list) => {
                for element in &list.elements {
                    self.expr(element)?;
                }
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.expr(&entry.key)?;
                        self.expr(&entry.value)?;
                    }
                }
            }
            Expr::Struct(object) => return Err(format!("undeclared reference to '{}'", object.type_name)),
            Expr::Comprehension(all) => {
                self.expr(&all.iter_range)?;
                self.expr(&all.accu_init)?;
                let depth = self.bound.len();
                self.bound.push(all.iter_var.clone());
                self.bound.extend(all.iter_var2.clone());
                self.bound.push(all.accu_var.clone());
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    self.expr(part)?;
                }
                self.bound.truncate(depth);
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                // `ip.isCanonical(x)` and similar calls use functions with dotted names.
                let space = call.target.as_deref().and_then(|target| match &target.expr {
                    Expr::Ident(space) if functions::is_namespace(space) && !self.bound.contains(space) => {
                        Some(space)
                    }
                    _ => None,
                });
                let known = match space {
                    Some(space) => functions::is_known(&format!("{space}.{name}")),
                    None => functions::is_known(name) || extensions::is_known(name),
                };
                if !known {
                    return Err(format!("undeclared reference to '{name}' (in container '')"));
                }
                if let (Some(expr), None) = (&call.target, space) {
                    self.expr(expr)?;
                }
                for arg in &call.args {
                    self.expr(arg)?;
                }
            }
        }
        Ok(())
    }

    fn ident(&mut self, name: &str) -> Result<(), String> {
        if self.bound.iter().any(|bound| bound == name) {
            return Ok(());
        }
        match name {
            "oldSelf" => self.uses_old = true,
            "self" | "int" | "uint" | "double" | "bool" | "string" | "bytes" | "list" | "map"
            | "null_type" | "type" => {}
            _ => return Err(format!("undeclared reference to '{name}' (in container '')")),
        }
        Ok(())
    }
}
