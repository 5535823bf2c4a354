//! Evaluates the steps of an expression and charges the cost of each.

use std::collections::HashSet;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::access;
use super::access_question::Access;
use super::check::MAX_DEPTH;
use super::cost::{Budget, Failure, Meter, Result, fail};
use super::input::{Input, Memo};
use super::{Program, Val, extensions, functions};

impl Program {
    /// Evaluates the expression.
    pub(crate) fn run<'v>(&'v self, input: &'v Input<'v>, budget: &mut Budget) -> Result<Val<'v>> {
        self.run_with(input, &mut Memo::default(), budget)
    }

    /// Evaluates the expression; `memo` contains the values of `variables` that are known.
    pub(crate) fn run_with<'v>(
        &'v self,
        input: &'v Input<'v>,
        memo: &mut Memo<'v>,
        budget: &mut Budget,
    ) -> Result<Val<'v>> {
        self.run_below(0, input, memo, budget)
    }

    /// Evaluates the expression below steps of another one, which are nested this deep.
    fn run_below<'v>(
        &'v self,
        depth: usize,
        input: &'v Input<'v>,
        memo: &mut Memo<'v>,
        budget: &mut Budget,
    ) -> Result<Val<'v>> {
        let mut run = Run { input, memo, bound: Vec::new(), meter: Meter::new(budget), depth };
        let result = run.expr(&self.expr);
        run.meter.charge(budget);
        result
    }
}

/// Maximum length of the error of a variable, bytes. It contains the error of the variable that it uses, and so on.
const MAX_ERROR: usize = 1024;

/// Omits the middle of an error that is longer than [`MAX_ERROR`]. The end is the cause.
fn shortened(why: String) -> String {
    if why.len() <= MAX_ERROR {
        return why;
    }
    let part = MAX_ERROR / 2 - 2;
    let (head, tail) = (why.floor_char_boundary(part), why.ceil_char_boundary(why.len() - part));
    format!("{}...{}", &why[..head], &why[tail..])
}

pub(super) struct Run<'v, 'm> {
    input: &'v Input<'v>,
    memo: &'m mut Memo<'v>,
    pub(super) bound: Vec<(&'v str, Val<'v>)>,
    pub(super) meter: Meter,
    /// The nesting depth of the current step, which includes the expressions that use this one as a variable.
    depth: usize,
}

impl<'v> Run<'v, '_> {
    pub(super) fn expr(&mut self, expr: &'v IdedExpr) -> Result<Val<'v>> {
        self.meter.pay(1)?;
        if self.depth >= MAX_DEPTH {
            self.memo.too_deep += 1;
            return fail(format!("the evaluation is nested more than {MAX_DEPTH} levels deep"));
        }
        self.depth += 1;
        let result = self.step(expr);
        self.depth -= 1;
        result
    }

    fn step(&mut self, expr: &'v IdedExpr) -> Result<Val<'v>> {
        match &expr.expr {
            Expr::Unspecified => fail("an expression is missing"),
            Expr::Literal(literal) => {
                if let LiteralValue::Bytes(bytes) = literal {
                    self.meter.pay(bytes.inner().len() as u64 / 16)?;
                }
                Ok(self::literal(literal))
            }
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => {
                if let Some(ty) = functions::type_path(expr) {
                    return Ok(Val::Type(ty));
                }
                let operand = self.expr(&select.operand)?;
                if let Val::Variables = operand {
                    return self.variable(&select.field, select.test);
                }
                if select.test {
                    return Ok(Val::Bool(self.member(&operand, &select.field)?.is_some()));
                }
                self.select(&operand, &select.field)
            }
            Expr::List(list) => {
                let optional: HashSet<&usize> = list.optional_indices.iter().collect();
                let mut items = Vec::with_capacity(list.elements.len());
                for (at, element) in list.elements.iter().enumerate() {
                    let value = match (self.expr(element)?, optional.contains(&at)) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(value)), true) => value.as_ref().clone(),
                        (value, _) => value,
                    };
                    self.meter.pay(value.weight())?;
                    items.push(value);
                }
                Ok(Val::List(Rc::new(items)))
            }
            Expr::Map(map) => {
                let mut pairs: Vec<(Val<'v>, Val<'v>)> = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return fail("not a map entry") };
                    let (key, value) = (self.expr(&entry.key)?, self.expr(&entry.value)?);
                    let value = match (value, entry.optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(value)), true) => value.as_ref().clone(),
                        (value, _) => value,
                    };
                    self.meter.pay(key.weight())?;
                    self.meter.pay(value.weight())?;
                    pairs.push((key, value));
                }
                Ok(Val::Map(Rc::new(pairs)))
            }
            Expr::Struct(object) => {
                let mut fields = Vec::with_capacity(object.entries.len());
                for entry in &object.entries {
                    let EntryExpr::StructField(field) = &entry.expr else { return fail("not a field") };
                    let value = match (self.expr(&field.value)?, field.optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(value)), true) => value.as_ref().clone(),
                        (value, _) => value,
                    };
                    self.meter.pay(value.weight())?;
                    fields.push((field.field.as_str(), value));
                }
                Ok(Val::Made(&object.type_name, Rc::new(fields)))
            }
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Call(call) => self.call(call),
        }
    }

    fn ident(&self, name: &str) -> Result<Val<'v>> {
        if let Some((_, value)) = self.bound.iter().rev().find(|(bound, _)| *bound == name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.input.get(name) {
            return Ok(value.clone());
        }
        match functions::type_named(name) {
            Some(ty) => Ok(Val::Type(ty)),
            None => fail(format!("no such attribute: {name}")),
        }
    }

    /// Evaluates a field of `variables`, once for each memo. Its cost counts for the budget, but not for the limit of this
    /// expression.
    fn variable(&mut self, name: &str, is_test: bool) -> Result<Val<'v>> {
        let Some((place, program)) = self.input.lazy(name) else {
            return if is_test { Ok(Val::Bool(false)) } else { fail(format!("no such key: {name}")) };
        };
        if is_test {
            return Ok(Val::Bool(true));
        }
        let value = match self.memo.get(place) {
            Some(known) => known,
            None => self.evaluated(name, place, program)?,
        };
        if let Err(why) = &value {
            self.meter.pay(why.len() as u64 / 16)?;
        }
        value.map_err(Failure::Error)
    }

    /// Evaluates a field of `variables`, and memoizes its value or its error. A field that is nested too deep is evaluated again: it may
    /// have a value where it is less deep.
    fn evaluated(
        &mut self,
        name: &str,
        place: usize,
        program: &'v std::result::Result<Program, String>,
    ) -> Result<std::result::Result<Val<'v>, String>> {
        let too_deep = self.memo.too_deep;
        let value = match program {
            Err(why) => Err(format!("composited variable {name:?} fails to compile: {why}")),
            Ok(program) => {
                let mut budget = self.meter.remaining();
                let result = program.run_below(self.depth, self.input, self.memo, &mut budget);
                self.meter.replace_remaining(&budget);
                match result {
                    Ok(value) => Ok(value),
                    Err(Failure::ObjectTooCostly) => return Err(Failure::ObjectTooCostly),
                    Err(Failure::RuleTooCostly) => {
                        let why = "operation cancelled: actual cost limit exceeded";
                        Err(format!("composited variable {name:?} fails to evaluate: {why}"))
                    }
                    Err(Failure::Error(why)) => {
                        Err(format!("composited variable {name:?} fails to evaluate: {why}"))
                    }
                }
            }
        };
        let value = value.map_err(shortened);
        if value.is_ok() || self.memo.too_deep == too_deep {
            self.memo.set(place, value.clone());
        }
        Ok(value)
    }

    fn member(&mut self, operand: &Val<'v>, name: &'v str) -> Result<Option<Val<'v>>> {
        match operand {
            Val::Optional(None) => Ok(None),
            Val::Optional(Some(inner)) => self.field(inner, name),
            operand => self.field(operand, name),
        }
    }

    fn field(&mut self, operand: &Val<'v>, name: &'v str) -> Result<Option<Val<'v>>> {
        self.meter.pay(name.len() as u64 / 16)?;
        if let (Val::Access(access), "requestResource") = (operand, name)
            && let Access::Authorizer(None) = access.as_ref()
        {
            return Ok(self.input.get("authorizer.requestResource").cloned());
        }
        operand.field(name, &mut self.meter)
    }

    fn select(&mut self, operand: &Val<'v>, name: &'v str) -> Result<Val<'v>> {
        if let Val::Optional(_) = operand {
            // Selecting a field of an optional returns an optional.
            let value = self.member(operand, name)?;
            return Ok(Val::Optional(value.map(Rc::new)));
        }
        match self.field(operand, name)? {
            Some(value) => Ok(value),
            None if operand.map_len().is_some() => fail(format!("no such key: {name}")),
            None => fail("no such overload"),
        }
    }

    fn comprehension(&mut self, all: &'v ComprehensionExpr) -> Result<Val<'v>> {
        let range = self.expr(&all.iter_range)?;
        let Some(count) = range.list_len().or(range.map_len()) else { return fail("no such overload") };
        self.meter.pay(count as u64)?;
        let range = Range::of(range, all.iter_var2.is_some(), &mut self.meter)?;
        let init = self.expr(&all.accu_init)?;
        let depth = self.bound.len();
        self.bound.push((&all.accu_var, init));
        let result = self.run_loop(all, &range, count, depth);
        self.bound.truncate(depth);
        result
    }

    fn run_loop(
        &mut self,
        all: &'v ComprehensionExpr,
        range: &Range<'v>,
        count: usize,
        depth: usize,
    ) -> Result<Val<'v>> {
        let mut failure = None;
        for at in 0..count {
            self.bound.truncate(depth + 1);
            match self.expr(&all.loop_cond) {
                Ok(Val::Bool(false)) => break,
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            let (first, second) = range.at(at, &mut self.meter)?;
            self.bound.push((&all.iter_var, first));
            if let (Some(name), Some(second)) = (&all.iter_var2, second) {
                self.bound.push((name, second));
            }
            if self.collect(all, depth)? {
                continue;
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

    fn call(&mut self, call: &'v CallExpr) -> Result<Val<'v>> {
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
                let operand = self.expr(operand)?;
                let Expr::Literal(LiteralValue::String(name)) = &name.expr else {
                    return fail("no such overload");
                };
                self.meter.pay(1)?;
                return Ok(Val::Optional(self.member(&operand, name.inner())?.map(Rc::new)));
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
        for arg in &args {
            self.meter.prepay(arg.weight())?;
        }
        let name = full_name.as_deref().unwrap_or(name);
        let result = functions::call(&mut self.meter, name, &args)
            .or_else(|| extensions::call(&mut self.meter, name, &args))
            .or_else(|| access::call(&mut self.meter, name, &args, self.input.decides()))
            .unwrap_or_else(|| fail("no such overload"));
        self.meter.end_call();
        result
    }

    /// `&&` and `||`: a deciding operand determines the result even if the other operand fails.
    fn logical(&mut self, args: &'v [IdedExpr], decisive: bool) -> Result<Val<'v>> {
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

/// The items that a macro iterates over.
enum Range<'v> {
    /// A list, with the positions as first variable if there are two.
    List(Val<'v>, bool),
    /// The keys of a map.
    Keys(Vec<Val<'v>>),
    /// The members of a map, for two variables.
    Members(Vec<(Val<'v>, Val<'v>)>),
}

impl<'v> Range<'v> {
    fn of(range: Val<'v>, with_second: bool, meter: &mut Meter) -> Result<Self> {
        if with_second && range.map_len().is_some() {
            return Ok(Range::Members(range.members(meter)?));
        }
        Ok(range.keys().map_or(Range::List(range, with_second), Range::Keys))
    }

    /// Returns the values of the variables.
    fn at(&self, at: usize, meter: &mut Meter) -> Result<(Val<'v>, Option<Val<'v>>)> {
        Ok(match self {
            Range::Keys(keys) => (keys.get(at).cloned().unwrap_or(Val::Null), None),
            Range::Members(members) => {
                let (key, value) = members.get(at).cloned().unwrap_or((Val::Null, Val::Null));
                (key, Some(value))
            }
            Range::List(list, with_second) => {
                let item = list.item(at, meter)?.unwrap_or(Val::Null);
                let place = || Val::Int(i64::try_from(at).unwrap_or(i64::MAX));
                if *with_second { (place(), Some(item)) } else { (item, None) }
            }
        })
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

fn literal(literal: &LiteralValue) -> Val<'_> {
    match literal {
        LiteralValue::Null => Val::Null,
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::String(value) => Val::borrowed(value.inner()),
        LiteralValue::Bytes(value) => Val::Bytes(value.inner().into()),
    }
}
