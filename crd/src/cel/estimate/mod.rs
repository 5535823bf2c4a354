//! Estimates the largest cost of an expression when a definition is written, from the limits in its schema. A definition whose rules
//! could cost too much is rejected, so that its objects never are because of their size alone.
//!
//! The rules are those of upstream, because a definition that one server accepts must be accepted by the other: cel-go `checker/cost.go`
//! and apiserver `pkg/cel/library/cost.go`. Only the largest cost is computed; nothing uses the smallest.
//!
//! `decl` reads the sizes that a schema declares, `place` finds them for an expression, `ty` and `size` are types and sizes, `call` and
//! `library` cover the functions.

use std::collections::HashMap;
use std::rc::Rc;

use cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
};

mod call;
mod call_estimate;
mod decl;
mod declared_type;
mod kind;
mod library;
mod place;
mod size;
#[cfg(test)]
mod tests;
mod ty;

pub(crate) use decl::Decl;

use crate::cel::macros::RESULT;
use crate::program::Program;
use kind::Kind;
use place::{Place, Step};
use size::{EntrySize, Size};
use ty::Type;

/// The name of the variable in which the parser puts the target of `optMap` and `optFlatMap`.
const OPTIONAL_TARGET: &str = "@target";
/// The cost of creating a list or a map.
const LIST: u64 = 10;
const MAP: u64 = 30;

/// Returns the largest cost of an expression whose `self` has the declared type.
pub(crate) fn largest_cost(program: &Program, own: &Rc<Decl>) -> u64 {
    let mut estimator = Estimator { own: own.clone(), locals: HashMap::new() };
    estimator.expr(&program.expr).cost
}

/// The cost, type and size of an expression.
struct Estimate {
    /// The largest cost, of the expression and its parts.
    cost: u64,
    ty: Type,
    place: Place,
    /// `None` if unknown.
    size: Option<Size>,
    /// The sizes of the keys and values, if it is a list or a map that the expression creates.
    entries: Option<EntrySize>,
}

impl Estimate {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// A variable of a macro.
struct Local {
    /// The cost of reading it.
    cost: u64,
    ty: Type,
    place: Place,
    size: Option<Size>,
    entries: Option<EntrySize>,
}

struct Estimator {
    own: Rc<Decl>,
    locals: HashMap<String, Vec<Local>>,
}

impl Estimator {
    fn expr(&mut self, expr: &IdedExpr) -> Estimate {
        match &expr.expr {
            Expr::Unspecified | Expr::Struct(_) => self.computed(0, Type::Plain(Kind::Dyn), None),
            Expr::Literal(literal) => self.literal(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(all) if is_bind(all) => self.bind(all),
            Expr::Comprehension(all) => self.comprehension(all),
        }
    }

    fn list(&mut self, list: &ListExpr) -> Estimate {
        let items: Vec<Estimate> = list.elements.iter().map(|item| self.expr(item)).collect();
        let cost = items.iter().fold(LIST, |sum, item| sum.saturating_add(item.cost));
        let ty = items.first().map_or(Type::Plain(Kind::Dyn), |item| item.ty.clone());
        let entries = EntrySize::of_list(items.iter().map(Estimate::size));
        let size = Size::exactly(items.len() as u64);
        Estimate { entries: Some(entries), ..self.computed(cost, Type::list(ty), Some(size)) }
    }

    fn map(&mut self, map: &MapExpr) -> Estimate {
        let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => Some(entry),
            EntryExpr::StructField(_) => None,
        });
        let entries: Vec<(Estimate, Estimate)> =
            entries.map(|entry| (self.expr(&entry.key), self.expr(&entry.value))).collect();
        let costs = entries.iter().flat_map(|(key, value)| [key.cost, value.cost]);
        let cost = costs.fold(MAP, u64::saturating_add);
        let (key, value) = entries.first().map_or_else(
            || (Type::Plain(Kind::Dyn), Type::Plain(Kind::Dyn)),
            |(key, value)| (key.ty.clone(), value.ty.clone()),
        );
        let sizes = EntrySize::of_map(entries.iter().map(|(key, value)| (key.size(), value.size())));
        let size = Size::exactly(entries.len() as u64);
        Estimate { entries: Some(sizes), ..self.computed(cost, Type::map(key, value), Some(size)) }
    }

    /// A value that is not in the object. Without a size, that of its type counts.
    fn computed(&self, cost: u64, ty: Type, size: Option<Size>) -> Estimate {
        let size = size.or_else(|| ty.size());
        Estimate { cost, ty, place: Place::default(), size, entries: None }
    }

    /// A value at a place in the object. The schema knows its size, or its type does.
    fn placed(&self, cost: u64, ty: Type, place: Place) -> Estimate {
        let size = place.size(&self.own).or_else(|| ty.size());
        Estimate { cost, ty, place, size, entries: None }
    }

    fn literal(&self, literal: &LiteralValue) -> Estimate {
        let (kind, size) = match literal {
            LiteralValue::Boolean(_) => (Kind::Bool, 1),
            LiteralValue::Int(_) => (Kind::Int, 1),
            LiteralValue::UInt(_) => (Kind::Uint, 1),
            LiteralValue::Double(_) => (Kind::Double, 1),
            LiteralValue::Null => (Kind::Null, 1),
            LiteralValue::String(text) => (Kind::Text, text.inner().chars().count()),
            LiteralValue::Bytes(bytes) => (Kind::Bytes, bytes.inner().len()),
        };
        self.computed(0, Type::Plain(kind), Some(Size::exactly(size as u64)))
    }

    fn ident(&self, name: &str) -> Estimate {
        if let Some(local) = self.locals.get(name).and_then(|locals| locals.last()) {
            let placed = self.placed(local.cost, local.ty.clone(), local.place.clone());
            return Estimate { size: placed.size.or(local.size), entries: local.entries, ..placed };
        }
        let ty = match name {
            "self" => Type::Declared(self.own.clone()),
            // With optionalOldSelf it is an optional, whose value has the same size.
            "oldSelf" => Type::Declared(self.own.clone()),
            _ => Type::Plain(Kind::Opaque),
        };
        self.placed(1, ty, Place::variable())
    }

    fn select(&mut self, select: &SelectExpr) -> Estimate {
        let operand = self.expr(&select.operand);
        if select.test {
            // Upstream: the test itself costs nothing (checker.PresenceTestHasCost(false)).
            return self.computed(operand.cost, Type::Plain(Kind::Bool), None);
        }
        let own = match operand.ty.kind() {
            Kind::Map | Kind::Object => 1,
            _ => 0,
        };
        let place = operand.place.part(Step::Field(select.field.as_str().into()));
        self.placed(operand.cost.saturating_add(own), operand.ty.field(&select.field), place)
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    /// The variable of a macro for a value of a list or a key of a map.
    fn item(range: &Estimate) -> Local {
        let is_list = range.ty.kind() == Kind::List || range.entries.is_some_and(|entries| entries.is_list);
        let size = range.entries.map(|entries| if is_list { entries.value } else { entries.key });
        let (ty, place) = if is_list {
            (range.ty.element(), range.place.part(Step::Element))
        } else {
            (range.ty.key(), range.place.part(Step::Key))
        };
        Local { cost: 1, ty, place, size, entries: None }
    }

    /// The second variable of a macro: a value of a list or a map.
    fn value(range: &Estimate) -> Local {
        let place = range.place.part(Step::Element);
        let size = range.entries.map(|entries| entries.value);
        Local { cost: 1, ty: range.ty.element(), place, size, entries: None }
    }

    fn comprehension(&mut self, all: &ComprehensionExpr) -> Estimate {
        let range = self.expr(&all.iter_range);
        let init = self.expr(&all.accu_init);
        let collects = matches!(all.accu_init.expr, Expr::List(_) | Expr::Map(_));
        let accumulated =
            |ty: Type| Local { cost: 1, ty, place: Place::default(), size: init.size, entries: init.entries };
        self.push(&all.accu_var, accumulated(init.ty.clone()));
        let index = Local {
            cost: 1,
            ty: Type::Plain(Kind::Int),
            place: range.place.part(Step::Index),
            size: range.entries.map(|entries| entries.key),
            entries: None,
        };
        let first = match all.iter_var2 {
            Some(_) if range.ty.kind() == Kind::List => index,
            Some(_) | None => Self::item(&range),
        };
        self.push(&all.iter_var, first);
        if let Some(second) = &all.iter_var2 {
            self.push(second, Self::value(&range));
        }
        let condition = self.expr(&all.loop_cond);
        let step = self.expr(&all.loop_step);
        self.pop(&all.iter_var);
        if let Some(second) = &all.iter_var2 {
            self.pop(second);
        }
        self.pop(&all.accu_var);
        // The step knows the type of what is collected; the empty list at the start does not.
        let ty = if collects { step.ty } else { init.ty.clone() };
        self.push(&all.accu_var, accumulated(ty));
        let result = self.expr(&all.result);
        self.pop(&all.accu_var);
        // The body may have changed the place.
        let range_size = match &all.iter_range.expr {
            Expr::Ident(name) => self.ident(name).size(),
            Expr::Select(_) => self.placed(0, range.ty, range.place).size(),
            _ => range.size(),
        };
        let looped = range_size.max.saturating_mul(condition.cost.saturating_add(step.cost));
        let cost = [init.cost, result.cost, looped].into_iter().fold(range.cost, u64::saturating_add);
        let size = if collects { Some(range_size) } else { init.size };
        let entries = step.entries.filter(|_| collects);
        Estimate { entries, ..self.computed(cost, result.ty, size) }
    }

    /// `cel.bind(variable, value, expression)`.
    fn bind(&mut self, all: &ComprehensionExpr) -> Estimate {
        let range = self.expr(&all.iter_range);
        let init = self.expr(&all.accu_init);
        // Upstream: `optMap` repeats its target.
        let is_target = all.accu_var == OPTIONAL_TARGET;
        let (cost, read) = if is_target { (0, init.cost) } else { (range.cost.saturating_add(init.cost), 1) };
        let local =
            Local { cost: read, ty: init.ty, place: init.place, size: init.size, entries: init.entries };
        self.push(&all.accu_var, local);
        let result = self.expr(&all.result);
        self.pop(&all.accu_var);
        Estimate { cost: cost.saturating_add(result.cost), place: Place::default(), ..result }
    }
}

/// Whether the loop never runs: it only declares a variable.
fn is_bind(all: &ComprehensionExpr) -> bool {
    let Expr::List(range) = &all.iter_range.expr else { return false };
    let Expr::Literal(LiteralValue::Boolean(condition)) = &all.loop_cond.expr else { return false };
    range.elements.is_empty() && !condition.inner() && all.accu_var != RESULT
}
