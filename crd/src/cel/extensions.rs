//! Functions that Kubernetes and CEL's extensions add, for strings, patterns, quantities and URLs.
//!
//! Upstream: apiserver `pkg/cel/library`, cel-go `ext/strings.go`.

use std::collections::HashMap;
use std::rc::Rc;

use orlop_apimachinery::quantity::Quantity;

use super::cost::{Meter, Result, fail};
use super::{Val, addresses, format_library, formatting, list_library, lists, patterns, semver_library};
use crate::format::parse_url;

const KNOWN: &[&str] = &[
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "isSorted",
    "sum",
    "min",
    "max",
    "find",
    "findAll",
    "quantity",
    "isQuantity",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "sign",
    "isLessThan",
    "isGreaterThan",
    "compareTo",
    "add",
    "sub",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
        || addresses::is_known(name)
        || formatting::is_known(name)
        || list_library::is_known(name)
        || format_library::is_known(name)
        || semver_library::is_known(name)
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    texts(meter, name, args)
        .or_else(|| lists::call(meter, name, args))
        .or_else(|| quantities(name, args))
        .or_else(|| urls(meter, name, args))
        .or_else(|| addresses::call(name, args))
        .or_else(|| formatting::call(meter, name, args))
        .or_else(|| list_library::call(meter, name, args))
        .or_else(|| format_library::call(meter, name, args))
        .or_else(|| semver_library::call(name, args))
}

fn texts<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    let [Val::Text(text), rest @ ..] = args else {
        return match (name, args) {
            ("join", [list]) => Some(join(meter, list, "")),
            ("join", [list, Val::Text(between)]) => Some(join(meter, list, between)),
            _ => None,
        };
    };
    let chars = || text.chars().collect::<Vec<char>>();
    let out_of_range = |at: i64| fail(format!("index out of range: {at}"));
    // Checks the bounds in upstream's order.
    let slice = |from: i64, to: i64| {
        let chars = chars();
        let place = |at: i64| usize::try_from(at).ok().filter(|at| *at <= chars.len());
        let (Some(first), last) = (place(from), place(to)) else { return out_of_range(from) };
        let Some(last) = last else { return out_of_range(to) };
        Ok(Val::text(&chars.get(first..last).unwrap_or_default().iter().collect::<String>()))
    };
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Some(match (name, rest) {
        ("charAt", [Val::Int(at)]) if *at == length() => Ok(Val::text("")),
        ("charAt", [Val::Int(at)]) => slice(*at, at.saturating_add(1)),
        ("substring", [Val::Int(from)]) => slice(*from, length()),
        ("substring", [Val::Int(from), Val::Int(to)]) if from > to => {
            fail(format!("invalid substring range. start: {from}, end: {to}"))
        }
        ("substring", [Val::Int(from), Val::Int(to)]) => slice(*from, *to),
        ("indexOf", [Val::Text(part)]) => Ok(place(text, text.find(part.as_ref()))),
        ("lastIndexOf", [Val::Text(part)]) => Ok(place(text, text.rfind(part.as_ref()))),
        ("indexOf" | "lastIndexOf", [Val::Text(part), at @ Val::Int(_)]) if part.is_empty() => Ok(at.clone()),
        ("indexOf" | "lastIndexOf", [Val::Text(_), Val::Int(at)]) if *at < 0 => out_of_range(*at),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => Ok(match offset(text, *from) {
            Some(start) => place(text, text[start..].find(part.as_ref()).map(|at| at + start)),
            None => Val::Int(-1),
        }),
        ("lastIndexOf", [Val::Text(part), Val::Int(from)]) => Ok(match offset(text, *from) {
            // The last place that is not behind the start.
            Some(start) => {
                let mut end = start.saturating_add(part.len()).min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                place(text, text[..end].rfind(part.as_ref()))
            }
            None => Val::Int(-1),
        }),
        ("lowerAscii", []) => Ok(Val::text(&text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(&text.to_ascii_uppercase())),
        ("jsonpatch.escapeKey", []) => Ok(Val::text(&text.replace('~', "~0").replace('/', "~1"))),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::Text(from), Val::Text(to)]) => replaced(meter, text, from, to, usize::MAX),
        ("replace", [Val::Text(from), Val::Text(to), Val::Int(times)]) => {
            replaced(meter, text, from, to, usize::try_from(*times).unwrap_or(usize::MAX))
        }
        ("split", [Val::Text(by)]) => split(meter, text, by, None),
        ("split", [Val::Text(by), Val::Int(most)]) => split(meter, text, by, usize::try_from(*most).ok()),
        ("find", [Val::Text(pattern)]) => found(meter, text, pattern, 1)
            .map(|found| found.into_iter().next().unwrap_or_else(|| Val::text(""))),
        ("findAll", [Val::Text(pattern)]) => {
            found(meter, text, pattern, usize::MAX).map(|found| Val::List(Rc::new(found)))
        }
        ("findAll", [Val::Text(pattern), Val::Int(most)]) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            found(meter, text, pattern, most).map(|found| Val::List(Rc::new(found)))
        }
        _ => return None,
    })
}

/// Converts a character offset to a byte offset; `None` behind the last character.
fn offset(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    text.char_indices().nth(at).map(|(offset, _)| offset)
}

/// Converts a byte offset to a character offset; -1 for `None`.
fn place<'v>(text: &str, at: Option<usize>) -> Val<'v> {
    at.map_or(Val::Int(-1), |at| lists::number(text[..at].chars().count()))
}

fn replaced<'v>(meter: &mut Meter, text: &str, from: &str, to: &str, times: usize) -> Result<Val<'v>> {
    // The result may be far longer than the input.
    let hits = text.matches(from).count().min(times) as u64;
    meter.pay(hits.saturating_mul(1 + to.len() as u64 / 16))?;
    Ok(Val::text(&text.replacen(from, to, times)))
}

fn split<'v>(meter: &mut Meter, text: &str, by: &str, most: Option<usize>) -> Result<Val<'v>> {
    let mut whole = Vec::new();
    match (by, most) {
        ("", _) => {
            for (at, c) in text.char_indices() {
                push_part(meter, &mut whole, &text[at..at + c.len_utf8()])?;
            }
        }
        (by, Some(most)) => {
            for part in text.splitn(most, by) {
                push_part(meter, &mut whole, part)?;
            }
        }
        (by, None) => {
            for part in text.split(by) {
                push_part(meter, &mut whole, part)?;
            }
        }
    }
    Ok(Val::List(Rc::new(whole)))
}

/// Adds a part of a text to a list, and pays for its memory.
fn push_part<'v>(meter: &mut Meter, parts: &mut Vec<Val<'v>>, part: &str) -> Result<()> {
    meter.pay(2 + part.len() as u64 / 16)?;
    parts.push(Val::text(part));
    Ok(())
}

fn join<'v>(meter: &mut Meter, list: &Val<'v>, between: &str) -> Result<Val<'v>> {
    let Some(items) = list.items() else { return fail("no such overload") };
    // The text between is there once for each item.
    meter.pay((items.len() as u64).saturating_mul(between.len() as u64) / 16)?;
    let mut joined = String::new();
    for (at, item) in items.iter().enumerate() {
        let Val::Text(text) = item else { return fail("no such overload") };
        if at > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    Ok(Val::text(&joined))
}

fn found<'v>(meter: &mut Meter, text: &str, pattern: &str, most: usize) -> Result<Vec<Val<'v>>> {
    let pattern = patterns::compiled(meter, text, pattern)?;
    let mut parts = Vec::new();
    for found in pattern.regex.find_iter(text).take(most) {
        // The search for one match may read all the rest of the text.
        let rest = (text.len() - found.start()) as u64;
        meter.pay(rest.saturating_mul(1 + pattern.positions as u64 / 64) / 64)?;
        push_part(meter, &mut parts, found.as_str())?;
    }
    Ok(parts)
}

fn quantities<'v>(name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    Some(match (name, args) {
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        ("quantity", [Val::Text(text)]) => match Quantity::parse(text) {
            Ok(quantity) => Ok(Val::Quantity(quantity)),
            Err(error) => fail(error.to_string()),
        },
        ("isInteger", [Val::Quantity(quantity)]) => Ok(Val::Bool(whole(quantity).is_some())),
        ("asInteger", [Val::Quantity(quantity)]) => match whole(quantity) {
            Some(number) => Ok(Val::Int(number)),
            None => fail("cannot convert value to integer"),
        },
        ("sign", [Val::Quantity(quantity)]) => {
            Ok(Val::Int(match (quantity.is_zero(), quantity.is_negative()) {
                (true, _) => 0,
                (false, true) => -1,
                (false, false) => 1,
            }))
        }
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Quantity(a.plus(b))),
        ("add", [Val::Quantity(a), Val::Int(b)]) => Ok(Val::Quantity(a.plus(&Quantity::from_integer(*b)))),
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Quantity(a.minus(b))),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => Ok(Val::Quantity(a.minus(&Quantity::from_integer(*b)))),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a < b)),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a > b)),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Int(a.cmp(b) as i64)),
        ("asApproximateFloat", [Val::Quantity(quantity)]) => Ok(Val::Double(quantity.to_f64())),
        _ => return None,
    })
}

/// Returns the value of a quantity if it is an integer of 64 bits.
fn whole(quantity: &Quantity) -> Option<i64> {
    let number = quantity.value();
    (Quantity::from_integer(number) == *quantity).then_some(number)
}

fn urls<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    Some(match (name, args) {
        ("isURL", [Val::Text(text)]) => Ok(Val::Bool(parse_url(text).is_some())),
        ("url", [Val::Text(text)]) => match parse_url(text) {
            Some(url) => Ok(Val::Url(Rc::new(url))),
            None => fail(format!(
                "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
            )),
        },
        ("getScheme", [Val::Url(url)]) => Ok(Val::text(url.scheme_str().unwrap_or_default())),
        ("getHost", [Val::Url(url)]) => {
            let authority = url.authority().map_or("", |authority| authority.as_str());
            Ok(Val::text(authority.rsplit('@').next().unwrap_or_default()))
        }
        ("getHostname", [Val::Url(url)]) => {
            Ok(Val::text(url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')))
        }
        ("getPort", [Val::Url(url)]) => {
            Ok(Val::text(&url.port_u16().map(|port| port.to_string()).unwrap_or_default()))
        }
        ("getEscapedPath", [Val::Url(url)]) => Ok(Val::text(url.path())),
        ("getQuery", [Val::Url(url)]) => query(meter, url),
        _ => return None,
    })
}

fn query<'v>(meter: &mut Meter, url: &http::Uri) -> Result<Val<'v>> {
    let mut pairs: Vec<(String, Vec<Val<'v>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (key, value) in form_urlencoded::parse(url.query().unwrap_or_default().as_bytes()) {
        // The key occurs twice.
        meter.pay(4 + (2 * key.len() + value.len()) as u64 / 16)?;
        let place = *places.entry(key.clone().into_owned()).or_insert(pairs.len());
        match pairs.get_mut(place) {
            Some((_, values)) => values.push(Val::text(&value)),
            None => pairs.push((key.into_owned(), vec![Val::text(&value)])),
        }
    }
    let pairs = pairs.into_iter().map(|(key, values)| (Val::text(&key), Val::List(Rc::new(values))));
    Ok(Val::Map(Rc::new(pairs.collect())))
}
