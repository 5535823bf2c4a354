//! Evaluates the steps of an expression and charges the cost of each.

use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::cost::{Budget, Failure, Meter, Result, fail};
use super::{Program, Val, extensions, functions};

/// The values of `self` and `oldSelf`.
pub(crate) struct Input<'v> {
    pub(crate) own: Val<'v>,
    pub(crate) old: Option<Val<'v>>,
}

impl Program {
    /// Evaluates the expression.
    pub(crate) fn run<'v>(&self, input: &Input<'v>, budget: &mut Budget) -> Result<Val<'v>> {
        let mut run = Run { input, bound: Vec::new(), meter: Meter::new(budget) };
        let result = run.expr(&self.expr);
        run.meter.charge(budget);
        result
    }
}

struct Run<'r, 'v> {
    input: &'r Input<'v>,
    bound: Vec<(String, Val<'v>)>,
    meter: Meter,
}

impl<'v> Run<'_, 'v> {
    fn expr(&mut self, expr: &IdedExpr) -> Result<Val<'v>> {
        self.meter.pay(1)?;
        match &expr.expr {
            Expr::Unspecified => fail("an expression is missing"),
            Expr::Literal(literal) => Ok(self::literal(literal)),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => {
                let operand = self.expr(&select.operand)?;
                if select.test {
                    return Ok(Val::Bool(self.member(&operand, &select.field).is_some()));
                }
                self.select(&operand, &select.field)
            }
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (at, element) in list.elements.iter().enumerate() {
                    match (self.expr(element)?, list.optional_indices.contains(&at)) {
                        (Val::Optional(None), true) => {}
                        (Val::Optional(Some(value)), true) => items.push(value.as_ref().clone()),
                        (value, _) => items.push(value),
                    }
                }
                Ok(Val::List(Rc::new(items)))
            }
            Expr::Map(map) => {
                let mut pairs: Vec<(Val<'v>, Val<'v>)> = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return fail("not a map entry") };
                    let (key, value) = (self.expr(&entry.key)?, self.expr(&entry.value)?);
                    match (value, entry.optional) {
                        (Val::Optional(None), true) => {}
                        (Val::Optional(Some(value)), true) => pairs.push((key, value.as_ref().clone())),
                        (value, _) => pairs.push((key, value)),
                    }
                }
                Ok(Val::Map(Rc::new(pairs)))
            }
            Expr::Struct(_) => fail("messages cannot be made"),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Call(call) => self.call(call),
        }
    }

    fn ident(&self, name: &str) -> Result<Val<'v>> {
        if let Some((_, value)) = self.bound.iter().rev().find(|(bound, _)| bound == name) {
            return Ok(value.clone());
        }
        match name {
            "self" => Ok(self.input.own.clone()),
            "oldSelf" => {
                self.input.old.clone().ok_or(Failure::Error("no such attribute: oldSelf".to_owned()))
            }
            name => match functions::type_named(name) {
                Some(ty) => Ok(Val::Type(ty)),
                None => fail(format!("no such attribute: {name}")),
            },
        }
    }

    fn member(&self, operand: &Val<'v>, name: &str) -> Option<Val<'v>> {
        match operand {
            Val::Optional(inner) => inner.as_ref()?.field(name),
            operand => operand.field(name),
        }
    }

    fn select(&mut self, operand: &Val<'v>, name: &str) -> Result<Val<'v>> {
        if let Val::Optional(inner) = operand {
            // Selecting a field of an optional returns an optional.
            let value = inner.as_ref().and_then(|value| value.field(name));
            return Ok(Val::Optional(value.map(Rc::new)));
        }
        match operand.field(name) {
            Some(value) => Ok(value),
            None if operand.keys().is_some() => fail(format!("no such key: {name}")),
            None => fail("no such overload"),
        }
    }

    fn comprehension(&mut self, all: &ComprehensionExpr) -> Result<Val<'v>> {
        let range = self.expr(&all.iter_range)?;
        let (items, seconds): (Vec<Val<'v>>, Vec<Val<'v>>) = match (range.items(), range.keys()) {
            (Some(items), _) if all.iter_var2.is_some() => {
                let places = 0..i64::try_from(items.len()).unwrap_or(i64::MAX);
                (places.map(Val::Int).collect(), items)
            }
            (Some(items), _) => (items, Vec::new()),
            (None, Some(keys)) => {
                let values = keys.iter().map(|key| range.get(key).unwrap_or(Val::Null)).collect();
                (keys, values)
            }
            (None, None) => return fail("no such overload"),
        };
        self.meter.pay(items.len() as u64)?;
        let init = self.expr(&all.accu_init)?;
        let depth = self.bound.len();
        self.bound.push((all.accu_var.clone(), init));
        let result = self.run_loop(all, items, &seconds, depth);
        self.bound.truncate(depth);
        result
    }

    fn run_loop(
        &mut self,
        all: &ComprehensionExpr,
        items: Vec<Val<'v>>,
        seconds: &[Val<'v>],
        depth: usize,
    ) -> Result<Val<'v>> {
        let mut failure = None;
        for (at, item) in items.into_iter().enumerate() {
            self.bound.truncate(depth + 1);
            match self.expr(&all.loop_cond) {
                Ok(Val::Bool(false)) => break,
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            self.bound.push((all.iter_var.clone(), item));
            if let (Some(name), Some(second)) = (&all.iter_var2, seconds.get(at)) {
                self.bound.push((name.clone(), second.clone()));
            }
            match self.expr(&all.loop_step) {
                Ok(value) => {
                    self.bound[depth].1 = value;
                    // An item that decides the result discards earlier errors: `[a, b].exists(x, ...)`.
                    if decides(all, &self.bound[depth].1) {
                        failure = None;
                    }
                }
                Err(Failure::Error(why)) if is_logical(all) => failure = Some(why),
                Err(error) => return Err(error),
            }
        }
        self.bound.truncate(depth + 1);
        match failure {
            Some(why) => fail(why),
            None => self.expr(&all.result),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Val<'v>> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            ("_&&_", args) => return self.logical(args, false),
            ("_||_", args) => return self.logical(args, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.expr(condition)? {
                    Val::Bool(true) => self.expr(yes),
                    Val::Bool(false) => self.expr(no),
                    _ => fail("no such overload"),
                };
            }
            ("@not_strictly_false", [inner]) => {
                return match self.expr(inner) {
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    Ok(_) | Err(Failure::Error(_)) => Ok(Val::Bool(true)),
                    Err(error) => Err(error),
                };
            }
            ("_?._", [operand, name]) => {
                let (operand, name) = (self.expr(operand)?, self.expr(name)?);
                let Val::Text(name) = name else { return fail("no such overload") };
                return Ok(Val::Optional(self.member(&operand, &name).map(Rc::new)));
            }
            _ => {}
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        let mut full_name = None;
        if let Some(target) = &call.target {
            match &target.expr {
                Expr::Ident(space)
                    if functions::is_namespace(space)
                        && !self.bound.iter().any(|(name, _)| name == space) =>
                {
                    full_name = Some(format!("{space}.{name}"));
                }
                _ => args.push(self.expr(target)?),
            }
        }
        for arg in &call.args {
            args.push(self.expr(arg)?);
        }
        let weight = args.iter().map(Val::weight).sum();
        self.meter.pay(weight)?;
        let name = full_name.as_deref().unwrap_or(name);
        match functions::call(&mut self.meter, name, &args) {
            Some(result) => result,
            None => {
                extensions::call(&mut self.meter, name, &args).unwrap_or_else(|| fail("no such overload"))
            }
        }
    }

    /// `&&` and `||`: a deciding operand determines the result even if the other operand fails.
    fn logical(&mut self, args: &[IdedExpr], decisive: bool) -> Result<Val<'v>> {
        let mut failure = None;
        for arg in args {
            match self.expr(arg) {
                Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failure = Some("no such overload".to_owned()),
                Err(Failure::Error(why)) => failure = Some(why),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(Val::Bool(!decisive)), fail)
    }
}

/// Whether the loop is that of `all` or `exists`, which fail only if no item decides the result.
fn is_logical(all: &ComprehensionExpr) -> bool {
    matches!(&all.loop_step.expr, Expr::Call(call) if matches!(call.func_name.as_str(), "_&&_" | "_||_"))
}

fn decides(all: &ComprehensionExpr, value: &Val<'_>) -> bool {
    match &all.loop_step.expr {
        Expr::Call(call) if call.func_name == "_&&_" => matches!(value, Val::Bool(false)),
        Expr::Call(call) if call.func_name == "_||_" => matches!(value, Val::Bool(true)),
        _ => false,
    }
}

fn literal<'v>(literal: &LiteralValue) -> Val<'v> {
    match literal {
        LiteralValue::Null => Val::Null,
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::String(value) => Val::text(value.inner()),
        LiteralValue::Bytes(value) => Val::Bytes(value.inner().into()),
    }
}
