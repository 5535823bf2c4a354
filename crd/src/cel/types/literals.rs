//! Mistakes in literals that the types do not show: durations, points in time and patterns that cannot be read, lists and
//! maps of different types, and templates of `format` that do not fit their arguments.
//!
//! Upstream: cel-go `cel/validator.go`, `ext/formatting.go`.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::ty::Ty;
use crate::cel::check::MAX_ISSUES;
use crate::cel::cost::{Budget, Failure, Meter};
use crate::cel::patterns;
use crate::cel::span::{is_in_range, span, time};
use crate::cel::template::{Clause, Piece, pieces};

/// The cost of compiling the patterns of an expression. It is less than that of one range of Unicode whose case is ignored, so such a
/// pattern is compiled only when the expression runs, which has a budget of its own.
const PATTERN_COST: u64 = 10_000;

/// The mistakes of an expression.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    /// The first [`MAX_ISSUES`], each with its node.
    pub(crate) listed: Vec<(u64, String)>,
    /// The number of the others.
    pub(crate) omitted: usize,
}

impl Mistakes {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Adds a mistake of a node.
    pub(super) fn add(&mut self, id: u64, why: String) {
        if self.listed.len() < MAX_ISSUES {
            self.listed.push((id, why));
        } else {
            self.omitted += 1;
        }
    }
}

/// Returns the mistakes of an expression whose types are correct. `types` are those of its nodes.
pub(super) fn mistakes(expr: &IdedExpr, types: &dyn Fn(u64) -> Ty) -> Mistakes {
    let meter = Meter::new(&Budget::of(PATTERN_COST));
    let mut visit = Visit { types, formats: 0, meter, mistakes: Mistakes::default() };
    visit.expr(expr);
    visit.mistakes
}

struct Visit<'t> {
    types: &'t dyn Fn(u64) -> Ty,
    /// The number of calls of `format` around the node.
    formats: usize,
    /// The cost of the patterns.
    meter: Meter,
    mistakes: Mistakes,
}

impl Visit<'_> {
    fn ty(&self, expr: &IdedExpr) -> Ty {
        (self.types)(expr.id)
    }

    /// The type of an item, which `?` may mark as optional.
    fn item(&self, expr: &IdedExpr, is_optional: bool) -> Ty {
        let ty = self.ty(expr);
        match ty.unwrapped() {
            Some(inner) if is_optional => inner.clone(),
            _ => ty,
        }
    }

    /// Whether a type is that of the items before; the first one has no other before it.
    fn fits(&mut self, before: &mut Option<Ty>, ty: Ty, id: u64) -> bool {
        match before {
            None => *before = Some(ty),
            Some(before) if *before == ty => {}
            Some(before) => {
                let why = format!("expected type '{}' but found '{}'", before.shown(), ty.shown());
                self.mistakes.add(id, why);
                return false;
            }
        }
        true
    }

    fn expr(&mut self, expr: &IdedExpr) {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select(select) => self.expr(&select.operand),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let mut before = None;
                let mut is_uniform = self.formats == 0;
                for (at, item) in list.elements.iter().enumerate() {
                    if is_uniform {
                        let ty = self.item(item, list.optional_indices.contains(&at));
                        is_uniform = self.fits(&mut before, ty, item.id);
                    }
                    self.expr(item);
                }
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    if self.formats == 0 {
                        self.fits(&mut keys, self.ty(&entry.key), entry.key.id);
                        self.fits(&mut values, self.item(&entry.value, entry.optional), entry.value.id);
                    }
                    self.expr(&entry.key);
                    self.expr(&entry.value);
                }
            }
            Expr::Struct(object) => {
                for entry in &object.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.expr(&field.value);
                    }
                }
            }
            Expr::Comprehension(all) => {
                for part in [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result] {
                    self.expr(part);
                }
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) {
        let name = call.func_name.as_str();
        if let Some(arg) = call.args.first()
            && let Expr::Literal(literal) = &arg.expr
            && !self.is_valid(name, literal)
        {
            self.mistakes.add(arg.id, format!("invalid {name} argument"));
        }
        let is_format = name == "format";
        if is_format
            && let Some(Expr::Literal(LiteralValue::String(template))) =
                call.target.as_ref().map(|it| &it.expr)
            && let [IdedExpr { expr: Expr::List(list), .. }] = call.args.as_slice()
            && let Err((at, why)) = self.template(template.inner(), &list.elements)
        {
            self.mistakes.add(at.unwrap_or(id), why);
        }
        self.formats += usize::from(is_format);
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            self.expr(part);
        }
        self.formats -= usize::from(is_format);
    }

    /// Checks a template. The error may have the node of an argument.
    fn template(&self, template: &str, args: &[IdedExpr]) -> Result<(), (Option<u64>, String)> {
        let mut used = 0;
        for piece in pieces(template) {
            let clause = match piece {
                Piece::Literal(_) => continue,
                Piece::Unfinished => return Err((None, "unexpected end of string".to_owned())),
                Piece::Argument(clause) => clause,
            };
            let Some(arg) = args.get(used) else {
                return Err((None, format!("index {used} out of range")));
            };
            used += 1;
            let clause = clause.map_err(|why| (None, why))?;
            if let Some(wrong) = self.mismatch(clause, arg) {
                let ty = self.ty(wrong);
                let why = format!("error during formatting: {}", clause.mismatch(ty.value_type()));
                return Err((Some(wrong.id), why));
            }
        }
        if args.len() > used {
            let why =
                format!("too many arguments supplied to string.format (expected {used}, got {})", args.len());
            return Err((None, why));
        }
        Ok(())
    }

    /// Returns the node whose type a clause does not format: the argument, or a part of it.
    fn mismatch<'e>(&self, clause: Clause, arg: &'e IdedExpr) -> Option<&'e IdedExpr> {
        let ty = self.ty(arg);
        if ty != Ty::Dyn && !clause.accepts(ty.value_type()) {
            return Some(arg);
        }
        if clause != Clause::Text {
            return None;
        }
        match &arg.expr {
            Expr::List(list) => list.elements.iter().find_map(|item| self.mismatch(clause, item)),
            Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.mismatch(clause, &entry.key).or_else(|| self.mismatch(clause, &entry.value))
                }
                EntryExpr::StructField(_) => None,
            }),
            _ => None,
        }
    }

    /// Whether a function can read its first argument. If the budget is exhausted, a pattern is not checked.
    fn is_valid(&mut self, function: &str, argument: &LiteralValue) -> bool {
        match (function, argument) {
            ("duration", LiteralValue::String(text)) => span(text.inner()).is_some(),
            ("duration", LiteralValue::Int(_)) => false,
            ("timestamp", LiteralValue::String(text)) => {
                time(text.inner()).is_some_and(|time| is_in_range(time.as_second()))
            }
            ("timestamp", LiteralValue::Int(seconds)) => is_in_range(*seconds.inner()),
            // Of the function with two arguments, upstream checks the text.
            ("matches", LiteralValue::String(text)) => {
                !matches!(patterns::compiled(&mut self.meter, "", text.inner()), Err(Failure::Error(_)))
            }
            _ => true,
        }
    }
}
