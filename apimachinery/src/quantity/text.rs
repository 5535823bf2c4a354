//! Parser for quantities: number, suffix, and the rules for preserving the original text.

use super::{Family, LIMIT, NANO, ParseError, Quantity};

/// The parts of a quantity's text.
struct Parts<'a> {
    positive: bool,
    /// The number as written, with its sign.
    value: &'a str,
    /// Digits before the point without leading zeros; `0` when there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

/// Parses a quantity. Surrounding whitespace is ignored.
pub(super) fn parse(text: &str) -> Result<Quantity, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let parts = split(text)?;
    let (base, exponent, family) = suffix(parts.suffix).ok_or(ParseError::Suffix)?;
    if let Some(quick) = quick(text, &parts, exponent, family) {
        return Ok(quick);
    }
    // The fast path reads a number without digits as 0; this path rejects it.
    if !parts.value.bytes().any(|b| b.is_ascii_digit()) {
        return Err(ParseError::Numeric);
    }
    let nano = if base == 2 {
        doubled(&parts, exponent)
    } else {
        let scale =
            i64::from(exponent) - i64::try_from(parts.fraction.len()).map_err(|_| ParseError::Numeric)?;
        to_nano(&digits(parts.whole, parts.fraction), scale)
    };
    let nano = match (nano, family) {
        (Some(nano), Family::Binary) => nano.min(LIMIT),
        (Some(nano), Family::Decimal | Family::Exponent) => nano,
        // Upstream caps binary values at 2^63-1, silently.
        (None, Family::Binary) => LIMIT,
        (None, Family::Decimal | Family::Exponent) => return Err(ParseError::Numeric),
    };
    // A fraction of a byte has no binary suffix.
    let family = if family == Family::Binary && nano > 0 && nano < NANO { Family::Decimal } else { family };
    Ok(Quantity { nano: if parts.positive { nano } else { -nano }, family, written: None })
}

/// Upstream parses short numbers on a fast path, which preserves the original text
/// if it looks canonical; `+5` and `1.` do. Returns `None` if the number is not eligible for that path.
fn quick(text: &str, parts: &Parts<'_>, exponent: i32, family: Family) -> Option<Quantity> {
    let (whole_len, fraction_len) = (parts.whole.len(), parts.fraction.len());
    let (scale, room) = match family {
        Family::Decimal | Family::Exponent => {
            let scale = i64::from(exponent).checked_sub(i64::try_from(fraction_len).ok()?)?;
            (scale, 18usize.checked_sub(whole_len + fraction_len))
        }
        Family::Binary if parts.fraction.is_empty() => {
            let used = usize::try_from(exponent).ok()? * 3 / 10 + 1;
            (0, 15usize.checked_sub(whole_len + used))
        }
        Family::Binary => (0, None),
    };
    room?;
    if scale < -9 {
        return None;
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let value: i64 = shifted.parse().ok()?;
    let (nano, canonical) = match family {
        Family::Binary => {
            let bytes = value.checked_mul(1i64.checked_shl(u32::try_from(exponent).ok()?)?)?;
            (i128::from(bytes) * NANO, value & 7 != 0)
        }
        Family::Decimal | Family::Exponent => {
            let power = u32::try_from(scale + 9).ok()?;
            let nano =
                if value == 0 { 0 } else { i128::from(value).checked_mul(10i128.checked_pow(power)?)? };
            (nano, scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'))
        }
    };
    // The number zero preserves its text only if that is `0`.
    let written = (canonical || text == "0").then(|| text.to_owned());
    Some(Quantity { nano: if parts.positive { nano } else { -nano }, family, written })
}

fn digits(whole: &str, fraction: &str) -> Vec<u8> {
    whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect()
}

/// A number before the point with more digits than this exceeds every quantity.
const WHOLE_MAX: usize = 40;
/// Digits after the point that can change a binary quantity, except that they round it up: its billionths are multiples
/// of 2^-60 / 10^9, which have 69 digits after the point.
const FRACTION_MAX: usize = 70;

/// Returns the number times `2^exponent` in billionths, rounded up, or `None` on overflow. Each doubling visits all
/// digits, so only those that matter are kept.
fn doubled(parts: &Parts<'_>, exponent: i32) -> Option<i128> {
    if parts.whole.len() > WHOLE_MAX {
        return None;
    }
    let (kept, dropped) = parts.fraction.split_at(parts.fraction.len().min(FRACTION_MAX));
    let mut digits = digits(parts.whole, kept);
    // Any digit that is not zero stands for the dropped ones.
    digits.push(u8::from(dropped.bytes().any(|digit| digit != b'0')));
    for _ in 0..exponent {
        double(&mut digits);
    }
    to_nano(&digits, -i64::try_from(kept.len() + 1).ok()?)
}

/// Returns `digits * 10^scale` in billionths, rounded up, or `None` on overflow.
fn to_nano(digits: &[u8], scale: i64) -> Option<i128> {
    let first = digits.iter().position(|digit| *digit != 0);
    let Some(first) = first else { return Some(0) };
    let digits = &digits[first..];
    let shift = scale.checked_add(9)?;
    let (kept, dropped) = if shift >= 0 {
        (digits, &digits[..0])
    } else {
        let drop = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX).min(digits.len());
        digits.split_at(digits.len() - drop)
    };
    let mut value: i128 = 0;
    for digit in kept {
        value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
    }
    if shift > 0 {
        value = value.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    }
    // Round up: a request for a tiny amount must not become zero.
    if dropped.iter().any(|digit| *digit != 0) {
        value = value.checked_add(1)?;
    }
    Some(value)
}

/// Doubles a decimal number.
fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let twice = *digit * 2 + carry;
        *digit = twice % 10;
        carry = twice / 10;
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// Splits a text into its parts. Like upstream, it accepts numbers that lack digits.
fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    let positive = !text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = unsigned.trim_start_matches('0');
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = number.split_at(digits(number));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = rest.bytes().take_while(|b| b"eEinumkKMGTP".contains(b)).count();
    let exponent = &rest[letters..];
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !exponent.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Format);
    }
    Ok(Parts {
        positive,
        value: &text[..text.len() - rest.len()],
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix: rest,
    })
}

/// Returns the base, exponent and family of a suffix.
fn suffix(suffix: &str) -> Option<(u32, i32, Family)> {
    let decimal = |exponent| Some((10, exponent, Family::Decimal));
    let binary = |exponent| Some((2, exponent, Family::Binary));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((10, exponent, Family::Exponent))
        }
    }
}
