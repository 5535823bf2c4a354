//! Costs of the functions that Kubernetes and CEL's extensions add.
//!
//! Upstream: apiserver `pkg/cel/library/cost.go`, cel-go `ext/sets.go` and `ext/lists.go`.

use super::call_estimate::{CallEstimate, pattern_cost};
use super::kind::Kind;
use super::size::{PER_CHARACTER, PER_PATTERN_CHARACTER, Size, scaled};
use super::ty::Type;
use super::{Estimate, Estimator, LIST};
use crate::cel::macros::SORT_BY_KEYS;

/// The largest cost of comparing two addresses of 4 or 16 bytes.
const ADDRESSES: u64 = 4;
/// The cost of masking an address.
const MASK: u64 = 2;
/// The length of the pattern that stands for the validation of a format.
const MAX_FORMAT_PATTERN: f64 = 128.0;

/// The cost of a call; `None` if the function is none of these.
pub(super) fn call(
    estimator: &Estimator,
    name: &str,
    target: Option<&Estimate>,
    args: &[Estimate],
) -> Option<CallEstimate> {
    let text = |cost| CallEstimate::costing(cost, Type::Plain(Kind::Text));
    let flag = |cost| CallEstimate::costing(cost, Type::Plain(Kind::Bool));
    Some(match (name, target, args) {
        ("isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf", Some(list), _) => {
            let ty = match name {
                "isSorted" => Type::Plain(Kind::Bool),
                "indexOf" | "lastIndexOf" => Type::Plain(Kind::Int),
                _ => list.ty.element(),
            };
            CallEstimate::costing(traversal(estimator, list), ty)
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(value), _) => {
            text(value.size().cost(PER_CHARACTER)).sized(value.size())
        }
        ("replace", Some(value), [from, to, ..]) => {
            text(value.size().cost(2.0 * PER_CHARACTER)).sized(replaced(value.size(), from.size(), to.size()))
        }
        ("split", Some(value), _) => split(value, None),
        ("join", Some(list), _) => {
            let mut size = match list.ty.kind() {
                Kind::List => list.size().times(element_size(estimator, list)),
                _ => Size::exactly(0),
            };
            if let Some(separator) = args.first() {
                let between = |items: u64| items.saturating_sub(1);
                let separators = Size { min: between(list.size().min), max: between(list.size().max) };
                size = size.plus(separator.size().times(separators));
            }
            text(size.cost(PER_CHARACTER)).sized(size)
        }
        ("find", Some(value), [pattern, ..]) => {
            let found = Size { min: 0, max: value.size().max };
            text(pattern_cost(value.size(), pattern.size())).sized(found)
        }
        ("findAll", Some(value), [pattern, ..]) => {
            let found = Size { min: 0, max: value.size().max };
            let cost = pattern_cost(value.size(), pattern.size());
            CallEstimate::costing(cost, Type::list(Type::Plain(Kind::Text))).sized(found)
        }
        ("url", None, [value]) => {
            CallEstimate::costing(value.size().cost(PER_CHARACTER), Type::Plain(Kind::Url))
                .sized(value.size())
        }
        ("flatten", Some(list), []) => allocating(1.0, list.size(), list.ty.element()),
        ("reverse", Some(list), []) => allocating(1.0, list.size(), list.ty.clone()),
        ("distinct", Some(list), []) => {
            let size = list.size().times(list.size());
            allocating(2.0, size, list.ty.clone())
        }
        ("sort", Some(list), []) => sorted(list, list),
        (SORT_BY_KEYS, Some(list), [keys]) => sorted(list, keys),
        ("quantity", None, [value]) => parsed(value, Kind::Quantity),
        ("semver", None, [value, ..]) => parsed(value, Kind::Semver),
        ("isSemver", None, [value, ..]) => parsed(value, Kind::Bool),
        ("validate", Some(_), [value]) => {
            let cost = scaled(value.size().cost(PER_CHARACTER), MAX_FORMAT_PATTERN * PER_PATTERN_CHARACTER);
            CallEstimate::costing(cost, Type::optional(Type::list(Type::Plain(Kind::Text))))
        }
        ("format.named", None, _) => CallEstimate::costing(1, Type::optional(Type::Plain(Kind::Format))),
        ("ip", None, [value]) => parsed(value, Kind::Ip),
        ("cidr", None, [value]) => parsed(value, Kind::Cidr),
        ("isQuantity" | "isIP" | "isCIDR", None, [value]) => parsed(value, Kind::Bool),
        ("ip.isCanonical", _, [value]) => flag(value.size().cost(2.0 * PER_CHARACTER)),
        ("containsIP", Some(_), [other]) => flag(ADDRESSES.saturating_add(parsing(other))),
        ("containsCIDR", Some(_), [other]) => flag((ADDRESSES + MASK + 1).saturating_add(parsing(other))),
        ("sets.contains" | "sets.intersects", _, [a, b]) => {
            flag(a.size().times(b.size()).max.saturating_add(1))
        }
        ("sets.equivalent", _, [a, b]) => flag(a.size().times(b.size()).cost(2.0).saturating_add(1)),
        ("charAt" | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath", _, _) => text(1),
        ("getQuery", _, _) => {
            let values = Type::list(Type::Plain(Kind::Text));
            CallEstimate::costing(1, Type::map(Type::Plain(Kind::Text), values))
        }
        (
            "isInteger"
            | "isLessThan"
            | "isGreaterThan"
            | "isURL"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast",
            _,
            _,
        ) => CallEstimate::simple(Kind::Bool),
        (name, None, []) if name.starts_with("format.") => CallEstimate::simple(Kind::Format),
        ("add" | "sub", Some(_), _) => CallEstimate::simple(Kind::Quantity),
        (
            "asInteger" | "sign" | "major" | "minor" | "patch" | "compareTo" | "family" | "prefixLength",
            _,
            _,
        ) => CallEstimate::simple(Kind::Int),
        ("asApproximateFloat", _, _) => CallEstimate::simple(Kind::Double),
        ("ip", Some(_), _) => CallEstimate::simple(Kind::Ip),
        ("masked", _, _) => CallEstimate::simple(Kind::Cidr),
        _ => return None,
    })
}

/// A call that creates a list of a size.
pub(super) fn allocating(factor: f64, size: Size, ty: Type) -> CallEstimate {
    CallEstimate::costing(size.cost(factor).saturating_add(1 + LIST), ty).sized(size)
}

/// A call that sorts a list by keys.
fn sorted(list: &Estimate, keys: &Estimate) -> CallEstimate {
    let factor = match keys.ty.element().kind() {
        Kind::Text | Kind::Bytes => 2.0 + PER_CHARACTER,
        _ => 2.0,
    };
    allocating(factor, keys.size().times(keys.size()), list.ty.clone())
}

/// A call that reads a text.
fn parsed(text: &Estimate, kind: Kind) -> CallEstimate {
    CallEstimate::costing(text.size().cost(PER_CHARACTER), Type::Plain(kind))
}

/// `split`, with the limit of the number of parts.
pub(super) fn split(text: &Estimate, most: Option<u64>) -> CallEstimate {
    let parts = Size { min: 0, max: most.unwrap_or(text.size().max) };
    CallEstimate::costing(text.size().cost(2.0 * PER_CHARACTER), Type::list(Type::Plain(Kind::Text)))
        .sized(parts)
}

/// The cost of parsing an address that is given as a text.
fn parsing(address: &Estimate) -> u64 {
    match address.ty.kind() {
        Kind::Text | Kind::Dyn => address.size().cost(PER_CHARACTER),
        _ => 0,
    }
}

/// The size of the items of a list, if the schema knows it.
fn element_size(estimator: &Estimator, list: &Estimate) -> Size {
    let element = list.place.decl(&estimator.own).and_then(|list| list.element());
    element.map_or(Size::UNKNOWN, |element| Size { min: 0, max: element.max_elements })
}

/// The cost of comparing each item of a list, or of reading a text.
fn traversal(estimator: &Estimator, value: &Estimate) -> u64 {
    if value.ty.kind() != Kind::List {
        return value.size().cost(PER_CHARACTER);
    }
    let item = match value.ty.element().kind() {
        Kind::Text | Kind::Bytes => element_size(estimator, value).cost(PER_CHARACTER).saturating_add(1),
        _ => 1,
    };
    value.size().max.saturating_mul(item)
}

/// The size of a text in which parts are replaced.
fn replaced(value: Size, from: Size, to: Size) -> Size {
    // An empty part is between all characters, and around them.
    let (most, kept) = match from.min {
        0 => (value.max.saturating_add(1), value.max),
        shortest if to.max <= shortest => (0, value.max),
        shortest => (value.max.div_ceil(shortest), 0),
    };
    let (least, kept_least) = match from.max {
        0 => (value.min.saturating_add(1), value.min),
        longest if longest <= to.min => (0, value.min),
        longest => (value.min.div_ceil(longest), 0),
    };
    Size { min: least, max: most }.times(to).plus(Size { min: kept_least, max: kept })
}
