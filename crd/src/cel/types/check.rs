//! The checker.
//!
//! Upstream: cel-go `checker/checker.go`, `checker/errors.go`.

use std::collections::HashMap;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, StructExpr};

use super::declared;
use super::functions::{Functions, Overload, functions};
use super::literals::{self, Mistakes};
use super::ty::Ty;
use super::unify::{Substitutions, most_general};
use super::variables::Declarations;
use crate::cel::functions::type_path;

/// Returns the type of an expression, or its mistakes. The types of its parts may grow exponentially with the expression, so the
/// work is limited to a number of steps.
pub(crate) fn check(expr: &IdedExpr, declarations: &Declarations, steps: usize) -> Result<Ty, Mistakes> {
    let mut check = Check {
        declarations,
        functions: functions(),
        bound: Vec::new(),
        known: Substitutions::new(steps),
        params: 0,
        types: HashMap::new(),
        mistakes: Mistakes::default(),
    };
    let ty = check.expr(expr);
    let Check { known, types, mut mistakes, .. } = check;
    let ty = known.finish(&ty);
    let is_too_complex = || known.is_exhausted() || ty.has_more_parts_than(MAX_PARTS);
    // Literals are checked only if the types are correct.
    if mistakes.is_empty() && !is_too_complex() {
        let resolved = |id| types.get(&id).map_or(Ty::Dyn, |ty| known.finish(ty));
        mistakes = literals::mistakes(expr, &resolved);
    }
    if is_too_complex() {
        mistakes = Mistakes::default();
        mistakes.add(expr.id, "the types of the expression are too complex".to_owned());
    }
    if mistakes.is_empty() { Ok(ty) } else { Err(mistakes) }
}

/// The most parts of the type of a result. Variables have such types, which other expressions use.
const MAX_PARTS: usize = 1000;

struct Check<'e> {
    declarations: &'e Declarations,
    functions: Functions,
    /// The variables of macros.
    bound: Vec<(&'e str, Ty)>,
    known: Substitutions,
    /// The number of type parameters so far.
    params: u32,
    /// The types of the nodes.
    types: HashMap<u64, Ty>,
    mistakes: Mistakes,
}

impl<'e> Check<'e> {
    fn wrong(&mut self, id: u64, why: String) -> Ty {
        self.mistakes.add(id, why);
        Ty::Error
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Ty {
        self.wrong(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, id: u64, expected: &Ty, found: &Ty) -> Ty {
        self.wrong(id, format!("expected type '{}' but found '{}'", expected.shown(), found.shown()))
    }

    fn fresh(&mut self) -> Ty {
        // The numbers below are those of the overloads.
        self.params += 1;
        Ty::Param(self.params + 1)
    }

    fn expr(&mut self, expr: &'e IdedExpr) -> Ty {
        if self.known.is_exhausted() {
            return Ty::Error;
        }
        let ty = self.node(expr);
        self.types.insert(expr.id, ty.clone());
        ty
    }

    fn node(&mut self, expr: &'e IdedExpr) -> Ty {
        match &expr.expr {
            Expr::Unspecified => Ty::Error,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::Text,
                LiteralValue::UInt(_) => Ty::Uint,
            },
            Expr::Ident(name) => match self.ident(name) {
                Some(ty) => ty,
                None => self.undeclared(expr.id, name),
            },
            Expr::Select(select) => {
                if let Some(ty) = type_path(expr) {
                    let ty = match ty {
                        "google.protobuf.Timestamp" => Ty::Timestamp,
                        "google.protobuf.Duration" => Ty::Duration,
                        name => Ty::object(name),
                    };
                    return Ty::Type(Some(Rc::new(ty)));
                }
                if !select.test && self.is_request_resource(&select.operand, &select.field) {
                    return Ty::object(declared::RESOURCE_CHECK);
                }
                let ty = self.select(expr.id, &select.operand, &select.field, false);
                if select.test { Ty::Bool } else { self.known.apply(&ty) }
            }
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let mut items = None;
                for (at, item) in list.elements.iter().enumerate() {
                    let ty = self.optional_value(item, list.optional_indices.contains(&at));
                    items = Some(self.join(items, ty));
                }
                Ty::list(items.unwrap_or_else(|| self.fresh()))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.expr(&entry.key);
                    keys = Some(self.join(keys, key));
                    let value = self.optional_value(&entry.value, entry.optional);
                    values = Some(self.join(values, value));
                }
                let key = keys.unwrap_or_else(|| self.fresh());
                Ty::map(key, values.unwrap_or_else(|| self.fresh()))
            }
            Expr::Struct(object) => self.object(expr.id, object),
            Expr::Comprehension(all) => self.comprehension(all),
        }
    }

    fn ident(&self, name: &str) -> Option<Ty> {
        let bound = self.bound.iter().rev().find(|(bound, _)| *bound == name).map(|(_, ty)| ty.clone());
        bound.or_else(|| self.declarations.ident(name))
    }

    fn is_bound(&self, name: &str) -> bool {
        self.bound.iter().any(|(bound, _)| *bound == name)
    }

    fn is_request_resource(&self, operand: &IdedExpr, field: &str) -> bool {
        let is_authorizer = matches!(&operand.expr, Expr::Ident(name) if name == "authorizer");
        is_authorizer
            && field == "requestResource"
            && self.declarations.has_authorizer
            && !self.is_bound("authorizer")
    }

    fn select(&mut self, id: u64, operand: &'e IdedExpr, field: &str, is_optional: bool) -> Ty {
        let ty = self.expr(operand);
        let ty = self.known.apply(&ty);
        let target = ty.unwrapped().unwrap_or(&ty).clone();
        let result = match &target {
            Ty::Map(_, value) => value.as_ref().clone(),
            Ty::Object(name) => match self.declarations.field(name, field) {
                Some(ty) => ty,
                None => self.wrong(id, format!("undefined field '{field}'")),
            },
            Ty::Param(_) => {
                self.known.assign(&Ty::Dyn, &target);
                Ty::Dyn
            }
            ty if ty.is_dyn_or_error() => Ty::Dyn,
            ty => {
                let why = format!("type '{}' does not support field selection", ty.shown());
                self.wrong(id, why);
                Ty::Dyn
            }
        };
        if is_optional || ty.unwrapped().is_some() { Ty::optional(result) } else { result }
    }

    /// An item of a list or a value of a map, which `?` marks as optional.
    fn optional_value(&mut self, value: &'e IdedExpr, is_optional: bool) -> Ty {
        let ty = self.expr(value);
        if !is_optional {
            return ty;
        }
        match ty.unwrapped() {
            Some(inner) => inner.clone(),
            None if ty == Ty::Dyn => ty,
            None => {
                self.mismatch(value.id, &Ty::optional(ty.clone()), &ty);
                ty
            }
        }
    }

    fn join(&mut self, before: Option<Ty>, ty: Ty) -> Ty {
        let Some(before) = before else { return ty };
        // The values may have different types in the arguments of `format`; `literals` reports the others.
        if self.known.assign(&before, &ty) { most_general(&before, &ty) } else { Ty::Dyn }
    }

    fn call(&mut self, id: u64, call: &'e CallExpr) -> Ty {
        let name = call.func_name.as_str();
        if name == "_?._"
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let field = field.inner().to_owned();
            let ty = self.select(id, operand, &field, true);
            return self.known.apply(&ty);
        }
        let args: Vec<Ty> = call.args.iter().map(|arg| self.expr(arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.logical(&call.args, &args);
        }
        let functions = self.functions.clone();
        let known = functions.get(name);
        let Some(target) = &call.target else {
            return match known {
                Some(overloads) => self.resolve(id, name, overloads, None, args),
                None => self.undeclared(id, name),
            };
        };
        if let Expr::Ident(space) = &target.expr
            && !self.is_bound(space)
        {
            let full = format!("{space}.{name}");
            if let Some(overloads) = self.functions.clone().get(full.as_str())
                && (space != "jsonpatch" || self.declarations.has_patch_types)
            {
                return self.resolve(id, &full, overloads, None, args);
            }
        }
        let target = self.expr(target);
        match known {
            Some(overloads) => self.resolve(id, name, overloads, Some(target), args),
            None => self.undeclared(id, name),
        }
    }

    /// The error of `&&` and `||` names the operand that is not a boolean.
    fn logical(&mut self, nodes: &[IdedExpr], args: &[Ty]) -> Ty {
        let mut result = Ty::Bool;
        for (node, ty) in nodes.iter().zip(args) {
            if !self.known.assign(ty, &Ty::Bool) {
                result = self.mismatch(node.id, &Ty::Bool, ty);
            }
        }
        result
    }

    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        overloads: &[Overload],
        target: Option<Ty>,
        args: Vec<Ty>,
    ) -> Ty {
        let is_method = target.is_some();
        let given: Vec<Ty> = target.into_iter().chain(args).collect();
        let mut result: Option<Ty> = None;
        for overload in overloads.iter().filter(|overload| overload.is_method == is_method) {
            let (first, second) = (self.fresh(), self.fresh());
            let rename = |number| if number == 0 { Some(first.clone()) } else { Some(second.clone()) };
            let wanted: Vec<Ty> = overload.args.iter().map(|ty| ty.replaced(&rename)).collect();
            if !self.known.assign_all(&given, &wanted) {
                continue;
            }
            let found = self.known.apply(&overload.result.replaced(&rename));
            result = Some(match result {
                Some(before) if before != Ty::Dyn && before != found => Ty::Dyn,
                Some(before) => before,
                None => found,
            });
        }
        result.unwrap_or_else(|| {
            let shown: Vec<String> = given.iter().map(|ty| self.known.finish(ty).shown()).collect();
            let signature = match shown.split_first() {
                Some((receiver, rest)) if is_method => format!("{receiver}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            self.wrong(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
        })
    }

    fn object(&mut self, id: u64, object: &'e StructExpr) -> Ty {
        let name = object.type_name.as_str();
        let is_known = self.declarations.has_patch_types && declared::is_made_by_mutations(name);
        if !is_known {
            return self.undeclared(id, name);
        }
        for entry in &object.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let value = self.optional_value(&field.value, field.optional);
            match self.declarations.field(name, &field.field) {
                None => drop(self.wrong(entry.id, format!("undefined field '{}'", field.field))),
                Some(ty) if !self.known.assign(&ty, &value) => {
                    let why = format!(
                        "expected type of field '{}' is '{}' but provided type is '{}'",
                        field.field,
                        ty.shown(),
                        value.shown()
                    );
                    self.wrong(entry.id, why);
                }
                Some(_) => {}
            }
        }
        Ty::object(name)
    }

    fn comprehension(&mut self, all: &'e ComprehensionExpr) -> Ty {
        let range = self.expr(&all.iter_range);
        let init = self.expr(&all.accu_init);
        let range = self.known.apply(&range);
        let two = all.iter_var2.is_some();
        let (first, second) = match &range {
            Ty::List(item) if two => (Ty::Int, item.as_ref().clone()),
            Ty::List(item) => (item.as_ref().clone(), Ty::Dyn),
            Ty::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Ty::Dyn | Ty::Error | Ty::Param(_) => {
                self.known.assign(&Ty::Dyn, &range);
                (Ty::Dyn, Ty::Dyn)
            }
            ty => {
                let why = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    ty.shown()
                );
                self.wrong(all.iter_range.id, why);
                (Ty::Error, Ty::Error)
            }
        };
        let outside = self.bound.len();
        self.bound.push((&all.accu_var, init.clone()));
        let inside = self.bound.len();
        self.bound.push((&all.iter_var, first));
        if let Some(name) = &all.iter_var2 {
            self.bound.push((name, second));
        }
        self.assert(&all.loop_cond, &Ty::Bool);
        self.assert(&all.loop_step, &init);
        self.bound.truncate(inside);
        let result = self.expr(&all.result);
        self.bound.truncate(outside);
        self.known.apply(&result)
    }

    fn assert(&mut self, expr: &'e IdedExpr, wanted: &Ty) {
        let ty = self.expr(expr);
        if !self.known.assign(wanted, &ty) {
            self.mismatch(expr.id, wanted, &ty);
        }
    }
}
