//! Functions that Kubernetes adds to CEL, for strings, lists, patterns, quantities, addresses and URLs.
//!
//! Upstream: apiserver `pkg/cel/library`, cel-go `ext/strings.go`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use orlop_apimachinery::quantity::Quantity;

use super::cost::{Meter, Result, fail};
use super::{Val, lists, patterns};

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
    "ip",
    "isIP",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "cidr",
    "isCIDR",
    "containsIP",
    "containsCIDR",
    "prefixLength",
    "masked",
];

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    texts(meter, name, args)
        .or_else(|| lists::call(meter, name, args))
        .or_else(|| quantities(name, args))
        .or_else(|| urls(meter, name, args))
        .or_else(|| addresses(name, args))
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
    let slice = |from: i64, to: i64| {
        let chars = chars();
        let (from, to) = (usize::try_from(from).ok(), usize::try_from(to).ok());
        match from.zip(to).and_then(|(from, to)| chars.get(from..to)) {
            Some(part) => Ok(Val::text(&part.iter().collect::<String>())),
            None => fail("index out of range"),
        }
    };
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Some(match (name, rest) {
        ("charAt", [Val::Int(at)]) if *at == length() => Ok(Val::text("")),
        ("charAt", [Val::Int(at)]) => slice(*at, at.saturating_add(1)),
        ("substring", [Val::Int(from)]) => slice(*from, length()),
        ("substring", [Val::Int(from), Val::Int(to)]) => slice(*from, *to),
        ("indexOf", [Val::Text(part)]) => Ok(place(text, text.find(part.as_ref()))),
        ("lastIndexOf", [Val::Text(part)]) => Ok(place(text, text.rfind(part.as_ref()))),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => {
            let start =
                usize::try_from(*from).ok().and_then(|from| text.char_indices().nth(from)).map(|(at, _)| at);
            match start {
                Some(start) => Ok(place(text, text[start..].find(part.as_ref()).map(|at| at + start))),
                None => fail("index out of range"),
            }
        }
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
        ("isInteger", [Val::Quantity(quantity)]) => Ok(Val::Bool(quantity.is_integer())),
        ("asInteger", [Val::Quantity(quantity)]) if quantity.is_integer() => Ok(Val::Int(quantity.value())),
        ("asInteger", [Val::Quantity(_)]) => fail("cannot convert value to integer"),
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
        ("asApproximateFloat", [Val::Quantity(quantity)]) if quantity.is_integer() =>
        {
            #[allow(clippy::cast_precision_loss)]
            Ok(Val::Double(quantity.value() as f64))
        }
        ("asApproximateFloat", [Val::Quantity(_)]) => fail("the quantity is not a whole number"),
        _ => return None,
    })
}

/// Parses an absolute URL or an absolute path.
fn parse_url(text: &str) -> Option<http::Uri> {
    let uri: http::Uri = text.parse().ok()?;
    (uri.scheme().is_some() || text.starts_with('/')).then_some(uri)
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

fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    if !crate::format::is_cidr(text) {
        return None;
    }
    let (address, bits) = text.split_once('/')?;
    Some((address.parse().ok()?, bits.parse().ok()?))
}

/// Returns the bits of an address, left-aligned, and their number.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    match address {
        IpAddr::V4(_) => {
            let bits = (bits(address).0 & mask) >> 96;
            IpAddr::V4(u32::try_from(bits).unwrap_or_default().into())
        }
        IpAddr::V6(_) => IpAddr::V6((bits(address).0 & mask).into()),
    }
}

fn covers(network: IpAddr, length: u8, address: IpAddr) -> bool {
    bits(network).1 == bits(address).1 && masked(network, length) == masked(address, length)
}

fn addresses<'v>(name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    let flag = |value: bool| Ok(Val::Bool(value));
    Some(match (name, args) {
        ("isIP", [Val::Text(text)]) => flag(text.parse::<IpAddr>().is_ok()),
        ("ip", [Val::Text(text)]) => match text.parse() {
            Ok(address) => Ok(Val::Ip(address)),
            Err(_) => fail(format!("IP Address {text:?} parse error during conversion from string")),
        },
        ("family", [Val::Ip(address)]) => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Val::Ip(address)]) => flag(address.is_unspecified()),
        ("isLoopback", [Val::Ip(address)]) => flag(address.is_loopback()),
        ("isLinkLocalUnicast", [Val::Ip(address)]) => flag(is_link_local(*address)),
        ("isLinkLocalMulticast", [Val::Ip(address)]) => flag(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }),
        ("isGlobalUnicast", [Val::Ip(address)]) => {
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            flag(!special && !is_broadcast && !is_link_local(*address))
        }
        ("isCIDR", [Val::Text(text)]) => flag(parse_cidr(text).is_some()),
        ("cidr", [Val::Text(text)]) => match parse_cidr(text) {
            Some((address, length)) => Ok(Val::Cidr(address, length)),
            None => fail(format!("network address {text:?} parse error during conversion from string")),
        },
        ("ip", [Val::Cidr(address, _)]) => Ok(Val::Ip(*address)),
        ("prefixLength", [Val::Cidr(_, length)]) => Ok(Val::Int(i64::from(*length))),
        ("masked", [Val::Cidr(address, length)]) => Ok(Val::Cidr(masked(*address, *length), *length)),
        ("containsIP", [Val::Cidr(network, length), Val::Ip(address)]) => {
            flag(covers(*network, *length, *address))
        }
        ("containsIP", [Val::Cidr(network, length), Val::Text(text)]) => match text.parse() {
            Ok(address) => flag(covers(*network, *length, address)),
            Err(_) => fail(format!("IP Address {text:?} parse error during conversion from string")),
        },
        ("containsCIDR", [Val::Cidr(network, length), Val::Cidr(other, inner)]) => {
            flag(inner >= length && covers(*network, *length, *other))
        }
        ("containsCIDR", [Val::Cidr(network, length), Val::Text(text)]) => match parse_cidr(text) {
            Some((other, inner)) => flag(inner >= *length && covers(*network, *length, other)),
            None => fail(format!("network address {text:?} parse error during conversion from string")),
        },
        _ => return None,
    })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}
