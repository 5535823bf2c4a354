//! Functions of lists that CEL's extensions add.
//!
//! Upstream: cel-go `ext/lists.go`, and `first`, `last` and `unwrap` of `cel/library.go`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Val;
use super::cost::{Meter, Result, fail};
use super::macros::SORT_BY_KEYS;

const KNOWN: [&str; 11] = [
    "slice",
    "flatten",
    "sort",
    SORT_BY_KEYS,
    "lists.range",
    "reverse",
    "distinct",
    "first",
    "last",
    "optional.unwrap",
    "unwrapOpt",
];

/// The cost of an item of a list that a function creates from nothing, for its memory.
const ITEM: u64 = 4;

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    if !is_known(name) {
        return None;
    }
    if let ("lists.range", [Val::Int(count)]) = (name, args) {
        return Some(range(meter, *count));
    }
    let (list, rest) = args.split_first()?;
    let items = list.items()?;
    let at = |at: Option<&Val<'v>>| Ok(Val::Optional(at.map(|item| Rc::new(item.clone()))));
    let made = match (name, rest) {
        ("first", []) => return Some(at(items.first())),
        ("last", []) => return Some(at(items.last())),
        ("slice", [Val::Int(start), Val::Int(end)]) => slice(items, *start, *end),
        ("flatten", []) => flatten(meter, items, 1),
        ("flatten", [Val::Int(depth)]) => flatten(meter, items, *depth),
        ("sort", []) => sort(meter, &items, &items),
        (SORT_BY_KEYS, [keys]) => sort(meter, &items, &keys.items()?),
        ("reverse", []) => Ok(items.into_iter().rev().collect()),
        ("distinct", []) => distinct(meter, items),
        ("optional.unwrap" | "unwrapOpt", []) => unwrap(items),
        _ => return None,
    };
    Some(made.map(|items| Val::List(Rc::new(items))))
}

fn range<'v>(meter: &mut Meter, count: i64) -> Result<Val<'v>> {
    meter.pay(u64::try_from(count).unwrap_or(0).saturating_mul(ITEM))?;
    Ok(Val::List(Rc::new((0..count).map(Val::Int).collect())))
}

fn slice(items: Vec<Val<'_>>, start: i64, end: i64) -> Result<Vec<Val<'_>>> {
    let cannot = |why: String| fail(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return cannot("negative indexes not supported".to_owned());
    };
    if from > to {
        return cannot("start index must be less than or equal to end index".to_owned());
    }
    match items.get(from..to) {
        Some(part) => Ok(part.to_vec()),
        None => cannot(format!("list is length {}", items.len())),
    }
}

/// Replaces the lists in a list by their items, down to a depth.
fn flatten<'v>(meter: &mut Meter, items: Vec<Val<'v>>, depth: i64) -> Result<Vec<Val<'v>>> {
    if depth < 0 {
        return fail("level must be non-negative");
    }
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item.items().filter(|_| depth > 0) {
            Some(inner) => {
                meter.work(inner.len() as u64)?;
                flat.extend(flatten(meter, inner, depth - 1)?);
            }
            None => flat.push(item),
        }
    }
    Ok(flat)
}

/// Sorts items by their keys, which must be of one ordered type. Items with equal keys keep their order.
fn sort<'v>(meter: &mut Meter, items: &[Val<'v>], keys: &[Val<'v>]) -> Result<Vec<Val<'v>>> {
    if items.len() != keys.len() {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            items.len(),
            keys.len()
        ));
    }
    let Some(first) = keys.first() else { return Ok(Vec::new()) };
    if first.order(first).is_none() && !matches!(first, Val::Double(_)) {
        return fail("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return fail("list elements must have the same type");
    }
    let weight = keys.iter().fold(0_u64, |sum, key| sum.saturating_add(key.weight()));
    meter.pay(weight.saturating_mul(u64::from(keys.len().ilog2())))?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| key_order(&keys[*a], &keys[*b]));
    Ok(order.into_iter().map(|at| items[at].clone()).collect())
}

/// The order of two keys of one ordered type. Sorting needs a total order, so NaN is the largest number (upstream: its place is undefined).
fn key_order(a: &Val<'_>, b: &Val<'_>) -> Ordering {
    let is_nan = |key: &Val<'_>| matches!(key, Val::Double(number) if number.is_nan());
    a.order(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

fn distinct<'v>(meter: &mut Meter, items: Vec<Val<'v>>) -> Result<Vec<Val<'v>>> {
    let mut kept: Vec<Val<'v>> = Vec::with_capacity(items.len());
    'items: for item in items {
        for other in &kept {
            if item.equals(other, meter)? {
                continue 'items;
            }
        }
        kept.push(item);
    }
    Ok(kept)
}

/// Returns the values of the optionals that have one.
fn unwrap(items: Vec<Val<'_>>) -> Result<Vec<Val<'_>>> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Val::Optional(Some(value)) => values.push(value.as_ref().clone()),
            Val::Optional(None) => {}
            other => return fail(format!("value {} is not optional", super::shown::shown(&other))),
        }
    }
    Ok(values)
}
