//! Functions of lists, sets and maps.

use std::cmp::Ordering;

use super::Val;
use super::cost::{Meter, Result, fail};
use super::shown::shown;

/// Converts a number of items or characters.
pub(super) fn number<'v>(value: usize) -> Val<'v> {
    Val::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Calls a function of lists; `None` if there is none of that name.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    let (list, rest) = args.split_first()?;
    if !matches!(name, "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf") {
        return None;
    }
    let items = list.items()?;
    let best = |wanted: Ordering| {
        let mut items = items.iter();
        let Some(mut best) = items.next() else { return fail(format!("{name} called on empty list")) };
        for item in items {
            match item.order(best) {
                Some(order) if order == wanted => best = item,
                Some(_) => {}
                None => return fail("no such overload"),
            }
        }
        Ok(best.clone())
    };
    Some(match (name, rest) {
        ("isSorted", []) => {
            let pairs = items.windows(2);
            Ok(Val::Bool(
                pairs.map(|pair| pair[0].order(&pair[1])).all(|order| order.is_some_and(Ordering::is_le)),
            ))
        }
        ("sum", []) => sum(&items),
        ("min", []) => best(Ordering::Less),
        ("max", []) => best(Ordering::Greater),
        ("indexOf", [value]) => position(meter, items.iter().enumerate(), value),
        ("lastIndexOf", [value]) => position(meter, items.iter().enumerate().rev(), value),
        _ => return None,
    })
}

/// Returns the position of the first item that is equal to a value; -1 if there is none.
fn position<'i, 'v: 'i>(
    meter: &mut Meter,
    items: impl Iterator<Item = (usize, &'i Val<'v>)>,
    value: &Val<'v>,
) -> Result<Val<'v>> {
    for (at, item) in items {
        if item.equals(value, meter)? {
            return Ok(number(at));
        }
    }
    Ok(Val::Int(-1))
}

fn sum<'v>(items: &[Val<'v>]) -> Result<Val<'v>> {
    let mut total = match items.first() {
        Some(Val::Double(_)) => Val::Double(0.0),
        Some(Val::Uint(_)) => Val::Uint(0),
        _ => Val::Int(0),
    };
    for item in items {
        total = match (&total, item) {
            (Val::Int(a), Val::Int(b)) => match a.checked_add(*b) {
                Some(sum) => Val::Int(sum),
                None => return fail("integer overflow"),
            },
            (Val::Uint(a), Val::Uint(b)) => match a.checked_add(*b) {
                Some(sum) => Val::Uint(sum),
                None => return fail("unsigned integer overflow"),
            },
            (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
            _ => return fail("no such overload"),
        };
    }
    Ok(total)
}

/// Returns an item of a list, or a member of a map.
pub(super) fn index<'v>(meter: &mut Meter, range: &Val<'v>, at: &Val<'v>) -> Result<Val<'v>> {
    if range.list_len().is_some() {
        let place = match at {
            Val::Int(at) => usize::try_from(*at).ok(),
            Val::Uint(at) => usize::try_from(*at).ok(),
            _ => return fail("no such overload"),
        };
        let item = match place {
            Some(place) => range.item(place, meter)?,
            None => None,
        };
        return item.map_or_else(|| fail(format!("index out of bounds: {}", shown(at))), Ok);
    }
    if range.map_len().is_none() {
        return fail("no such overload");
    }
    range.get(at, meter)?.map_or_else(|| fail(format!("no such key: {}", shown(at))), Ok)
}

/// Whether a value is an item of a list, or a key of a map.
pub(super) fn is_in<'v>(meter: &mut Meter, value: &Val<'v>, range: &Val<'v>) -> Result<Val<'v>> {
    if let Some(count) = range.list_len() {
        for at in 0..count {
            if let Some(item) = range.item(at, meter)?
                && item.equals(value, meter)?
            {
                return Ok(Val::Bool(true));
            }
        }
        return Ok(Val::Bool(false));
    }
    if range.map_len().is_none() {
        return fail("no such overload");
    }
    Ok(Val::Bool(range.get(value, meter)?.is_some()))
}

/// The functions of `sets`.
pub(super) fn sets<'v>(meter: &mut Meter, name: &str, a: &Val<'v>, b: &Val<'v>) -> Result<Val<'v>> {
    let (Some(a), Some(b)) = (a.items(), b.items()) else { return fail("no such overload") };
    meter.prepay((a.len() as u64).saturating_mul(b.len() as u64))?;
    Ok(Val::Bool(match name {
        "sets.contains" => contains(meter, &a, &b)?,
        "sets.equivalent" => contains(meter, &a, &b)? && contains(meter, &b, &a)?,
        _ => {
            for value in &b {
                if has(meter, &a, value)? {
                    return Ok(Val::Bool(true));
                }
            }
            false
        }
    }))
}

fn contains<'v>(meter: &mut Meter, all: &[Val<'v>], some: &[Val<'v>]) -> Result<bool> {
    for value in some {
        if !has(meter, all, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has<'v>(meter: &mut Meter, list: &[Val<'v>], value: &Val<'v>) -> Result<bool> {
    for item in list {
        if item.equals(value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}
