//! Costs of operators and of CEL's standard functions.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::call_estimate::{CallEstimate, pattern_cost};
use super::kind::Kind;
use super::place::{Place, Step};
use super::size::{EntrySize, PER_CHARACTER, Size, scaled};
use super::ty::Type;
use super::{Estimate, Estimator, library};
use crate::cel::functions::is_namespace;
use crate::cel::macros::MAP_INSERT;

/// The maximum length of the name of a format.
const MAX_FORMAT: u64 = 64;

impl Estimator {
    pub(super) fn call(&mut self, call: &CallExpr) -> Estimate {
        let mut name = call.func_name.clone();
        let mut receiver = call.target.as_deref();
        // `ip.isCanonical(x)` and similar calls use functions with dotted names.
        if let Some(space) = receiver.and_then(|target| self.namespace(target)) {
            name = format!("{space}.{name}");
            receiver = None;
        }
        // Upstream's order, which matters to places.
        let args: Vec<Estimate> = call.args.iter().map(|arg| self.expr(arg)).collect();
        let target = receiver.map(|target| self.expr(target));
        self.priced(call, &name, target.as_ref(), &args)
    }

    /// Estimates a call whose arguments are estimated. The stack of nested calls does not contain it.
    fn priced(&self, call: &CallExpr, name: &str, target: Option<&Estimate>, args: &[Estimate]) -> Estimate {
        let sum = args.iter().chain(target).fold(0, |sum: u64, arg| sum.saturating_add(arg.cost));
        match (name, args) {
            // The second operand may never be evaluated; the largest cost contains it.
            ("_&&_" | "_||_", [_, _]) => self.computed(sum, Type::Plain(Kind::Bool), None),
            ("_?_:_", [condition, yes, no]) => {
                let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
                let ty = yes.ty.clone().or(&no.ty);
                let entries = EntrySize::union(yes.entries, no.entries);
                let size = yes.size().union(no.size());
                Estimate { entries, ..self.computed(cost, ty, Some(size)) }
            }
            ("_[_]", [range, _]) => self.index(range, sum),
            ("dyn", [value]) => {
                let ty = Type::Plain(Kind::Dyn);
                let entries = value.entries;
                Estimate { entries, ..self.computed(sum.saturating_add(1), ty, value.size) }
            }
            ("_+_", [a, b]) => {
                let entries = EntrySize::union(a.entries, b.entries);
                let added = add(a, b);
                Estimate { entries, ..self.called(sum, added) }
            }
            ("_?._", [object, _]) => {
                let value = match literal(&call.args[1]) {
                    Some(LiteralValue::String(field)) => object.ty.value().field(field.inner()),
                    _ => Type::Plain(Kind::Dyn),
                };
                self.called(sum, CallEstimate::costing(1, Type::optional(value)))
            }
            ("slice", [_, _]) => {
                let list = target.map_or(Size::UNKNOWN, Estimate::size);
                let (start, end) = (whole(&call.args[0], 0), whole(&call.args[1], list.max));
                let ty = target.map_or(Type::Plain(Kind::Dyn), |list| list.ty.clone());
                self.called(sum, library::allocating(1.0, Size::exactly(end.wrapping_sub(start)), ty))
            }
            ("flatten", [_]) => {
                let list = target.map_or(Size::UNKNOWN, Estimate::size);
                #[allow(clippy::cast_precision_loss)]
                let depth = whole(&call.args[0], u64::MAX) as f64;
                let ty = Type::list(Type::Plain(Kind::Dyn));
                self.called(sum, library::allocating(depth, list, ty))
            }
            ("lists.range", [_]) => {
                let size = Size::exactly(whole(&call.args[0], u64::MAX));
                self.called(sum, library::allocating(1.0, size, Type::list(Type::Plain(Kind::Int))))
            }
            ("split", [_, _]) => {
                let most = match literal(&call.args[1]) {
                    // A negative limit is none.
                    Some(LiteralValue::Int(most)) => Some(u64::try_from(*most.inner()).unwrap_or(u64::MAX)),
                    _ => None,
                };
                let split = target.map(|text| library::split(text, most));
                self.called(sum, split.unwrap_or(CallEstimate::simple(Kind::Dyn)))
            }
            (name, args) => {
                let estimate =
                    library::call(self, name, target, args).unwrap_or_else(|| standard(name, target, args));
                self.called(sum, estimate)
            }
        }
    }

    /// The name of a namespace of functions.
    fn namespace<'e>(&self, expr: &'e IdedExpr) -> Option<&'e str> {
        let Expr::Ident(name) = &expr.expr else { return None };
        (is_namespace(name) && self.locals.get(name).is_none_or(Vec::is_empty)).then_some(name)
    }

    fn called(&self, args: u64, call: CallEstimate) -> Estimate {
        self.computed(args.saturating_add(call.cost), call.ty, call.size)
    }

    fn index(&self, range: &Estimate, args: u64) -> Estimate {
        let ty = match range.ty.kind() {
            Kind::Optional => range.ty.value().element(),
            _ => range.ty.element(),
        };
        let place = match range.ty.kind() {
            Kind::List | Kind::Map | Kind::Dyn => range.place.part(Step::Element),
            _ => Place::default(),
        };
        let placed = self.placed(args.saturating_add(1), ty, place);
        let size = range.entries.map(|entries| entries.value);
        Estimate { size: size.or(placed.size), ..placed }
    }
}

fn literal(expr: &IdedExpr) -> Option<&LiteralValue> {
    match &expr.expr {
        Expr::Literal(literal) => Some(literal),
        _ => None,
    }
}

/// Returns the value of an integer literal; another one has the default.
fn whole(expr: &IdedExpr, default: u64) -> u64 {
    match literal(expr) {
        Some(LiteralValue::Int(number)) => u64::try_from(*number.inner()).unwrap_or(0),
        _ => default,
    }
}

/// `+`: the cost of concatenating texts depends on their lengths.
fn add(a: &Estimate, b: &Estimate) -> CallEstimate {
    let known = a.ty.clone().or(&b.ty);
    let size = a.size().plus(b.size());
    match known.kind() {
        Kind::List => CallEstimate::costing(1, known).sized(size),
        Kind::Text | Kind::Bytes => CallEstimate::costing(size.cost(PER_CHARACTER), known).sized(size),
        Kind::Dyn => CallEstimate::costing(size.cost(PER_CHARACTER).max(1), known).sized(size),
        Kind::Null
        | Kind::Bool
        | Kind::Int
        | Kind::Uint
        | Kind::Double
        | Kind::Duration
        | Kind::Timestamp
        | Kind::Map
        | Kind::Object
        | Kind::Optional
        | Kind::Quantity
        | Kind::Ip
        | Kind::Cidr
        | Kind::Url
        | Kind::Semver
        | Kind::Format
        | Kind::Opaque => CallEstimate::costing(1, known),
    }
}

/// The cost of comparing two values, up to the length of the shorter one.
fn comparison(a: &Estimate, b: &Estimate) -> u64 {
    scaled(a.size().max.min(b.size().max), PER_CHARACTER)
}

/// Calls of the standard library. Unknown functions cost 1.
fn standard(name: &str, target: Option<&Estimate>, args: &[Estimate]) -> CallEstimate {
    let bool_costing = |cost| CallEstimate::costing(cost, Type::Plain(Kind::Bool));
    match (name, target, args) {
        ("_==_", _, [a, b]) => bool_costing(match (a.ty.kind(), b.ty.kind()) {
            (Kind::Quantity, Kind::Quantity)
            | (Kind::Ip, Kind::Ip)
            | (Kind::Cidr, Kind::Cidr)
            | (Kind::Semver, Kind::Semver) => 1,
            (Kind::Format, Kind::Format) => scaled(MAX_FORMAT, PER_CHARACTER),
            // Upstream reads the size of the second one only.
            (Kind::Url, Kind::Url) => b.size.unwrap_or(Size::exactly(1)).cost(PER_CHARACTER),
            _ => comparison(a, b),
        }),
        // Upstream: the sizes of quantities and addresses are unknown here.
        ("_!=_", _, [a, b]) => bool_costing(comparison(a, b)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", _, [a, b]) => {
            match a.ty.clone().or(&b.ty).kind() {
                Kind::Text | Kind::Bytes => bool_costing(comparison(a, b)),
                // Numbers cost 1, and texts by their length.
                Kind::Dyn => bool_costing(comparison(a, b).max(1)),
                Kind::Null
                | Kind::Bool
                | Kind::Int
                | Kind::Uint
                | Kind::Double
                | Kind::Duration
                | Kind::Timestamp
                | Kind::List
                | Kind::Map
                | Kind::Object
                | Kind::Optional
                | Kind::Quantity
                | Kind::Ip
                | Kind::Cidr
                | Kind::Url
                | Kind::Semver
                | Kind::Format
                | Kind::Opaque => bool_costing(1),
            }
        }
        ("@in", _, [_, range]) => match range.ty.kind() {
            Kind::Map => bool_costing(1),
            Kind::Dyn => bool_costing(range.size().max.max(1)),
            _ => bool_costing(range.size().max),
        },
        ("startsWith" | "endsWith", Some(_), [part]) => bool_costing(part.size().cost(PER_CHARACTER)),
        ("contains", Some(text), [part]) => {
            let cost = text.size().cost(PER_CHARACTER).saturating_mul(part.size().cost(PER_CHARACTER));
            bool_costing(cost)
        }
        ("matches", Some(text), [pattern]) => bool_costing(pattern_cost(text.size(), pattern.size())),
        ("bytes", None, [value]) => match value.ty.kind() {
            Kind::Text | Kind::Dyn => {
                let size = value.size();
                let longest = Size { min: size.min, max: size.max.saturating_mul(4) };
                CallEstimate::costing(size.cost(PER_CHARACTER), Type::Plain(Kind::Bytes)).sized(longest)
            }
            _ => CallEstimate::simple(Kind::Bytes),
        },
        ("string", None, [value]) => match value.ty.kind() {
            Kind::Bytes | Kind::Dyn => {
                let size = value.size();
                let shortest = Size { min: size.min / 4, max: size.max };
                CallEstimate::costing(size.cost(PER_CHARACTER).max(1), Type::Plain(Kind::Text))
                    .sized(shortest)
            }
            _ => CallEstimate::simple(Kind::Text),
        },
        ("_-_" | "_*_" | "_/_" | "_%_", _, [a, b]) => match (name, a.ty.kind(), b.ty.kind()) {
            ("_-_", Kind::Timestamp, Kind::Timestamp) => CallEstimate::simple(Kind::Duration),
            _ => CallEstimate::costing(1, a.ty.clone().or(&b.ty)),
        },
        ("-_", _, [value]) => CallEstimate::costing(1, value.ty.clone()),
        ("_[?_]", _, [range, _]) => CallEstimate::costing(1, Type::optional(range.ty.value().element())),
        ("optional.of" | "optional.ofNonZeroValue", _, [value]) => {
            CallEstimate::costing(1, Type::optional(value.ty.clone()))
        }
        ("first" | "last", Some(list), _) => CallEstimate::costing(1, Type::optional(list.ty.element())),
        ("optional.unwrap" | "unwrapOpt", target, args) => {
            let values =
                target.or(args.first()).map_or(Type::Plain(Kind::Dyn), |list| list.ty.element().value());
            CallEstimate::costing(1, Type::list(values))
        }
        (MAP_INSERT, _, [_, key, value]) => {
            CallEstimate::costing(1, Type::map(key.ty.clone(), value.ty.clone()))
        }
        (MAP_INSERT, _, [_, entries]) => CallEstimate::costing(1, entries.ty.clone()),
        ("format", Some(template), _) => {
            CallEstimate::costing(template.size().cost(PER_CHARACTER), Type::Plain(Kind::Text))
        }
        ("strings.quote", _, [text]) => {
            let (size, two) = (text.size(), Size::exactly(2));
            let longest = Size { min: size.min, max: size.max.saturating_mul(2) }.plus(two);
            CallEstimate::costing(size.cost(PER_CHARACTER), Type::Plain(Kind::Text)).sized(longest)
        }
        ("value" | "orValue", Some(optional), _) => CallEstimate::costing(1, optional.ty.value()),
        ("or", Some(optional), _) => CallEstimate::costing(1, optional.ty.clone()),
        ("!_" | "@not_strictly_false" | "hasValue" | "bool", _, _) => CallEstimate::simple(Kind::Bool),
        ("size" | "int", _, _) => CallEstimate::simple(Kind::Int),
        ("uint", _, _) => CallEstimate::simple(Kind::Uint),
        ("double", _, _) => CallEstimate::simple(Kind::Double),
        ("duration", _, _) => CallEstimate::simple(Kind::Duration),
        ("timestamp", _, _) => CallEstimate::simple(Kind::Timestamp),
        ("type", _, _) => CallEstimate::simple(Kind::Opaque),
        ("matches", None, _) => CallEstimate::simple(Kind::Bool),
        (
            "getFullYear" | "getMonth" | "getDate" | "getDayOfMonth" | "getDayOfWeek" | "getDayOfYear"
            | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds",
            _,
            _,
        ) => CallEstimate::simple(Kind::Int),
        _ => CallEstimate::simple(Kind::Dyn),
    }
}
