//! Parses an expression and checks its names.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, SourceInfo};

use super::{extensions, functions};
use crate::program::{Program, unescape};
use crate::schema::{Schema, Type};

/// Maximum length of an expression, bytes.
const MAX_LENGTH: usize = 16 * 1024;
/// Maximum nesting depth of brackets.
const MAX_NESTING: usize = 32;
/// Maximum nesting depth of steps.
const MAX_DEPTH: usize = 250;
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
        return Err(issue(format!("the expression has more than {MAX_DEPTH} steps inside each other")));
    }
    Ok(Parsed { expr, source })
}

impl Program {
    /// Parses an expression of a rule. The error describes why it does not compile.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parsed = parse_text(text).map_err(|issues| {
            let shown: Vec<String> = issues.iter().map(|issue| issue.shown(text)).collect();
            shown.join("\n")
        })?;
        let mut check = Check { bound: Vec::new(), uses_old: false, schema: None };
        check.expr(&parsed.expr)?;
        Ok(Program { uses_old: check.uses_old, expr: Arc::new(parsed.expr) })
    }

    /// Checks the fields that the expression uses against the schema of `self`.
    pub(crate) fn check_fields(&self, schema: &Schema) -> Result<(), String> {
        let mut check = Check { bound: Vec::new(), uses_old: false, schema: Some(schema) };
        check.expr(&self.expr).map(|_| ())
    }
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
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => 0,
        Expr::Select(select) => depth(&select.operand),
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => deepest(&mut map.entries.iter().flat_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        })),
        Expr::Call(call) => deepest(&mut call.args.iter().chain(call.target.as_deref())),
        Expr::Comprehension(all) => deepest(
            &mut [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result].into_iter(),
        ),
    }
}

/// The schema of a value, as far as it is known before evaluation.
#[derive(Clone, Copy)]
enum KnownType<'s> {
    Nothing,
    Schema(&'s Schema),
}

struct Check<'s> {
    bound: Vec<(String, KnownType<'s>)>,
    uses_old: bool,
    schema: Option<&'s Schema>,
}

impl<'s> Check<'s> {
    fn expr(&mut self, expr: &IdedExpr) -> Result<KnownType<'s>, String> {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => return self.ident(name),
            Expr::Select(select) => {
                let operand = self.expr(&select.operand)?;
                return field(operand, &select.field, select.test);
            }
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
                let range = self.expr(&all.iter_range)?;
                self.expr(&all.accu_init)?;
                let depth = self.bound.len();
                self.bound.push((all.iter_var.clone(), item(range)));
                if let Some(second) = &all.iter_var2 {
                    self.bound.push((second.clone(), KnownType::Nothing));
                }
                self.bound.push((all.accu_var.clone(), KnownType::Nothing));
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    self.expr(part)?;
                }
                self.bound.truncate(depth);
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                // `ip.isCanonical(x)` and similar calls use functions with dotted names.
                let space = call.target.as_deref().and_then(|target| match &target.expr {
                    Expr::Ident(space) if functions::is_namespace(space) && !self.is_bound(space) => {
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
                let mut target = KnownType::Nothing;
                if let (Some(expr), None) = (&call.target, space) {
                    target = self.expr(expr)?;
                }
                let mut args = Vec::new();
                for arg in &call.args {
                    args.push(self.expr(arg)?);
                }
                let _ = target;
                return Ok(match (name, args.as_slice()) {
                    ("_[_]", [range, _]) => element(*range),
                    ("_?._", _) | ("_[?_]", _) => KnownType::Nothing,
                    ("_?_:_", [_, yes, _]) => *yes,
                    _ => KnownType::Nothing,
                });
            }
        }
        Ok(KnownType::Nothing)
    }

    fn is_bound(&self, name: &str) -> bool {
        self.bound.iter().any(|(bound, _)| bound == name)
    }

    fn ident(&mut self, name: &str) -> Result<KnownType<'s>, String> {
        if let Some((_, known)) = self.bound.iter().rev().find(|(bound, _)| bound == name) {
            return Ok(*known);
        }
        let known = self.schema.map_or(KnownType::Nothing, KnownType::Schema);
        match name {
            "self" => Ok(known),
            "oldSelf" => {
                self.uses_old = true;
                // With optionalOldSelf, the value is an optional without a known schema.
                Ok(KnownType::Nothing)
            }
            "int" | "uint" | "double" | "bool" | "string" | "bytes" | "list" | "map" | "null_type"
            | "type" => Ok(KnownType::Nothing),
            _ => Err(format!("undeclared reference to '{name}' (in container '')")),
        }
    }
}

fn field<'s>(operand: KnownType<'s>, name: &str, _is_test: bool) -> Result<KnownType<'s>, String> {
    let KnownType::Schema(schema) = operand else { return Ok(KnownType::Nothing) };
    if schema.int_or_string || schema.ty == Type::Any {
        return Ok(KnownType::Nothing);
    }
    if schema.ty != Type::Object {
        return Err(format!("type '{}' does not support field selection", schema.ty.text()));
    }
    if let Some(values) = &schema.additional {
        return Ok(KnownType::Schema(values));
    }
    if let Some(property) = schema.properties.get(unescape(name).as_ref()) {
        // The names of an object need no declaration either.
        if name == "metadata" && !property.properties.contains_key("name") {
            return Ok(KnownType::Nothing);
        }
        return Ok(KnownType::Schema(property));
    }
    // The fields of every object need no declaration.
    if schema.preserve || schema.embedded || matches!(name, "apiVersion" | "kind" | "metadata") {
        return Ok(KnownType::Nothing);
    }
    Err(format!("undefined field '{name}'"))
}

/// Returns the schema of a macro's variable, which is an item of a list or a key of a map.
fn item(range: KnownType<'_>) -> KnownType<'_> {
    match range {
        KnownType::Schema(schema) if schema.ty == Type::Array => element(range),
        KnownType::Schema(_) | KnownType::Nothing => KnownType::Nothing,
    }
}

fn element(range: KnownType<'_>) -> KnownType<'_> {
    let KnownType::Schema(schema) = range else { return KnownType::Nothing };
    let inner = schema.items.as_deref().or(schema.additional.as_deref());
    inner.map_or(KnownType::Nothing, KnownType::Schema)
}
