//! The checker.
//!
//! Upstream: cel-go `checker/checker.go`, `checker/errors.go`.

use std::collections::HashMap;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, StructExpr};

use super::declared::{self, DEVICE, NAMESPACE, REQUEST, REVIEW, VARIABLES};
use super::functions::{Functions, Overload, functions};
use super::literals::{self, Mistake};
use super::ty::Ty;
use super::unify::{Substitutions, most_general};
use crate::cel::check::MAX_ISSUES;
use crate::cel::functions::type_path;

/// The variables of an expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) has_params: bool,
    pub(crate) has_authorizer: bool,
    /// Whether the expression can make the objects of mutations.
    pub(crate) has_patch_types: bool,
    /// Whether `request` is an access review; then there is no other variable.
    pub(crate) is_review: bool,
    /// The types of the fields of `variables`; `None` if there is no such variable.
    pub(crate) variables: Option<Rc<HashMap<String, Ty>>>,
    /// Whether the expression selects devices: its only variable is `device`.
    pub(crate) is_device_selector: bool,
    /// The type of `self` in a rule of a schema; there is no other variable but `oldSelf`.
    pub(crate) own: Option<Rc<dyn OwnType>>,
    /// Whether `oldSelf` is an optional.
    pub(crate) has_optional_old: bool,
}

/// The type that a schema declares.
pub(crate) trait OwnType: std::fmt::Debug {
    /// The type of `self`.
    fn own(&self) -> Ty;
    /// The type of a field of an object type.
    fn field(&self, object: &str, name: &str) -> Option<Ty>;
}

impl Declarations {
    fn ident(&self, name: &str) -> Option<Ty> {
        let of_type = || type_named(name).map(|ty| Ty::Type(Some(ty.into())));
        if let Some(own) = &self.own {
            return match name {
                "self" => Some(own.own()),
                "oldSelf" if self.has_optional_old => Some(Ty::optional(own.own())),
                "oldSelf" => Some(own.own()),
                _ => of_type(),
            };
        }
        if self.is_device_selector {
            return if name == "device" { Some(Ty::object(DEVICE)) } else { of_type() };
        }
        match name {
            "request" if self.is_review => Some(Ty::object(REVIEW)),
            "object" | "oldObject" | "namespaceObject" if self.is_review => None,
            "object" | "oldObject" => Some(Ty::Dyn),
            "params" => self.has_params.then_some(Ty::Dyn),
            "request" => Some(Ty::object(REQUEST)),
            "namespaceObject" => Some(Ty::object(NAMESPACE)),
            "authorizer" => self.has_authorizer.then(|| Ty::object(declared::AUTHORIZER)),
            "variables" => self.variables.as_ref().map(|_| Ty::object(VARIABLES)),
            _ => of_type(),
        }
    }

    fn field(&self, ty: &str, name: &str) -> Option<Ty> {
        if let Some(own) = &self.own {
            return own.field(ty, name);
        }
        if ty != VARIABLES {
            return declared::field(ty, name);
        }
        self.variables.as_ref()?.get(name).cloned()
    }
}

fn type_named(name: &str) -> Option<Ty> {
    Some(match name {
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::Text,
        "bytes" => Ty::Bytes,
        "list" => Ty::list(Ty::Dyn),
        "map" => Ty::map(Ty::Dyn, Ty::Dyn),
        "null_type" => Ty::Null,
        "optional_type" => Ty::optional(Ty::Dyn),
        "type" => Ty::Type(None),
        _ => return None,
    })
}

/// The mistakes of an expression.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    /// The first [`MAX_ISSUES`].
    pub(crate) listed: Vec<Mistake>,
    /// The number of the others.
    pub(crate) omitted: usize,
}

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
    let ty = check.known.finish(&ty);
    // Literals are checked only if the types are correct.
    let types = match check.mistakes.listed.is_empty() {
        true => check.types.iter().map(|(id, ty)| (*id, check.known.finish(ty))).collect(),
        false => HashMap::new(),
    };
    if check.known.is_exhausted() || ty.has_more_parts_than(MAX_PARTS) {
        check.mistakes.listed = vec![(expr.id, "the types of the expression are too complex".to_owned())];
        check.mistakes.omitted = 0;
    }
    if check.mistakes.listed.is_empty() {
        check.mistakes.listed = literals::mistakes(expr, &types);
    }
    if check.mistakes.listed.is_empty() { Ok(ty) } else { Err(check.mistakes) }
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
        if self.mistakes.listed.len() < MAX_ISSUES {
            self.mistakes.listed.push((id, why));
        } else {
            self.mistakes.omitted += 1;
        }
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
