//! `format` and `strings.quote`.
//!
//! Upstream: cel-go `ext/formatting.go`, `ext/strings.go`.

use std::fmt::Write as _;

use orlop_apimachinery::quoted;

use super::Val;
use super::cost::{Meter, Result, fail};
use super::numbers::{fixed, scientific};
use super::shown::shown;
use super::template::{Clause, Piece, pieces};

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "format" | "strings.quote")
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    match (name, args) {
        ("format", [Val::Text(template), list]) if list.list_len().is_some() => {
            Some(format(meter, template, list).map(|text| Val::text(&text)))
        }
        ("strings.quote", [Val::Text(text)]) => Some(Ok(Val::text(&quote(text)))),
        _ => None,
    }
}

fn format<'v>(meter: &mut Meter, template: &str, args: &Val<'v>) -> Result<String> {
    let mut text = String::new();
    let mut next = 0;
    for piece in pieces(template) {
        if let Piece::Literal(literal) = piece {
            text.push_str(literal);
            continue;
        }
        let Some(arg) = args.item(next, meter)? else {
            return fail(format!("index {next} out of range"));
        };
        next += 1;
        match piece {
            Piece::Literal(_) => {}
            Piece::Unfinished => return fail("unexpected end of string"),
            Piece::Argument(Err(why)) => return fail(why),
            Piece::Argument(Ok(clause)) => push(meter, &mut text, clause, &arg)?,
        }
        // An argument may be in the list many times.
        meter.pay(arg.weight())?;
    }
    Ok(text)
}

fn push<'v>(meter: &mut Meter, text: &mut String, clause: Clause, arg: &Val<'v>) -> Result<()> {
    let mismatch = || fail(format!("error during formatting: {}", clause.mismatch(arg.type_name())));
    let written = match (clause, arg) {
        (Clause::Text, arg) => return push_text(meter, text, arg),
        (Clause::Decimal, Val::Int(number)) => write!(text, "{number}"),
        (Clause::Decimal, Val::Uint(number)) => write!(text, "{number}"),
        (Clause::Octal, Val::Int(number)) => write!(text, "{}{:o}", sign(*number), number.unsigned_abs()),
        (Clause::Octal, Val::Uint(number)) => write!(text, "{number:o}"),
        (Clause::Binary, Val::Bool(flag)) => write!(text, "{}", u8::from(*flag)),
        (Clause::Binary, Val::Int(number)) => write!(text, "{}{:b}", sign(*number), number.unsigned_abs()),
        (Clause::Binary, Val::Uint(number)) => write!(text, "{number:b}"),
        (Clause::Hex { is_upper }, arg) => {
            let hex = match arg {
                Val::Int(number) => format!("{}{:x}", sign(*number), number.unsigned_abs()),
                Val::Uint(number) => format!("{number:x}"),
                Val::Text(text) => hex(text.as_bytes()),
                Val::Bytes(bytes) => hex(bytes),
                _ => return mismatch(),
            };
            text.push_str(&if is_upper { hex.to_ascii_uppercase() } else { hex });
            Ok(())
        }
        (Clause::Fixed(decimals) | Clause::Scientific(decimals), arg) => {
            let number = match arg {
                Val::Double(number) => *number,
                Val::Text(text) => match text.as_ref() {
                    "NaN" => f64::NAN,
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    _ => return mismatch(),
                },
                _ => return mismatch(),
            };
            meter.pay(u64::from(decimals))?;
            let is_fixed = matches!(clause, Clause::Fixed(_));
            text.push_str(&if is_fixed { fixed(number, decimals) } else { scientific(number, decimals) });
            Ok(())
        }
        _ => return mismatch(),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats an argument of `%s`.
fn push_text<'v>(meter: &mut Meter, text: &mut String, arg: &Val<'v>) -> Result<()> {
    if arg.list_len().is_some() || arg.map_len().is_some() {
        return push_part(meter, text, arg);
    }
    let ty = arg.type_name();
    if !Clause::Text.accepts(ty) {
        return fail(format!("error during formatting: {}", Clause::Text.mismatch(ty)));
    }
    if let Val::Bytes(bytes) = arg
        && std::str::from_utf8(bytes).is_err()
    {
        return fail("error during formatting: could not convert argument to string");
    }
    text.push_str(&shown(arg));
    Ok(())
}

/// Formats a part of a list or map, in the notation of expressions.
fn push_part<'v>(meter: &mut Meter, text: &mut String, part: &Val<'v>) -> Result<()> {
    meter.pay(1)?;
    match part {
        Val::Text(part) => text.push_str(&quoted(part)),
        Val::Bytes(bytes) => {
            text.push('b');
            text.push_str(&quoted(&String::from_utf8_lossy(bytes)));
        }
        Val::Double(number) if number.is_nan() || number.is_infinite() => {
            text.push_str(&quoted(&shown(part)));
        }
        Val::Double(number) => text.push_str(&format!("{number:.6}")),
        Val::Time(_) => text.push_str(&format!("timestamp({})", quoted(&shown(part)))),
        Val::Span(_) => text.push_str(&format!("duration({})", quoted(&shown(part)))),
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Type(_) => text.push_str(&shown(part)),
        list if list.list_len().is_some() => {
            text.push('[');
            for at in 0..list.list_len().unwrap_or_default() {
                if at > 0 {
                    text.push_str(", ");
                }
                let item = list.item(at, meter)?.unwrap_or(Val::Null);
                push_part(meter, text, &item)?;
            }
            text.push(']');
        }
        map if map.map_len().is_some() => push_map(meter, text, map)?,
        other => {
            let why = format!("no formatting function for {}", other.type_name());
            return fail(format!("error during formatting: {why}"));
        }
    }
    Ok(())
}

/// Formats a map, in the order of its formatted keys.
fn push_map<'v>(meter: &mut Meter, text: &mut String, map: &Val<'v>) -> Result<()> {
    let mut named = Vec::with_capacity(map.map_len().unwrap_or_default());
    for (key, value) in map.members(meter)? {
        if !matches!(key, Val::Text(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_)) {
            let why = format!("no formatting function for map key of type {}", key.type_name());
            return fail(format!("error during formatting: {why}"));
        }
        let mut name = String::new();
        push_part(meter, &mut name, &key)?;
        named.push((name, value));
    }
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    text.push('{');
    for (at, (name, value)) in named.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(name);
        text.push(':');
        push_part(meter, text, value)?;
    }
    text.push('}');
    Ok(())
}

/// Quotes a text in the notation of expressions.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
