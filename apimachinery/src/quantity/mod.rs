//! Quantities such as `5Gi`, `100m` or `1e3`: exact, compared by value, formatted canonically.
//!
//! Upstream: apimachinery `pkg/api/resource`. A value is a whole number of billionths; smaller fractions
//! are rounded away from zero. Binary quantities are capped at 2^63-1; decimal ones may be larger, up
//! to 10^29, and are rejected beyond.

mod text;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// Billionths in one.
const NANO: i128 = 1_000_000_000;
/// The largest binary value, 2^63-1, in billionths.
const LIMIT: i128 = i64::MAX as i128 * NANO;

/// A quantity. Equality and order are by value: `1Gi` equals `1024Mi`.
#[derive(Clone, Debug)]
pub struct Quantity {
    nano: i128,
    family: Family,
    /// The original text, where upstream preserves it.
    written: Option<String>,
}

/// The suffix family a quantity was parsed with and is formatted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `n u m k M G T P E` or none.
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`.
    Exponent,
}

/// Why a text is not a valid quantity; the messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not have the format of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number before the suffix is invalid or out of range.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// The quantity 0.
    pub const ZERO: Quantity = Quantity { nano: 0, family: Family::Decimal, written: None };

    /// Parses a quantity; surrounding whitespace is ignored.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(text: &str) -> Result<Quantity, ParseError> {
        text::parse(text)
    }

    /// Creates a quantity from a number of bytes, with binary suffixes.
    pub fn from_bytes(bytes: i64) -> Quantity {
        Quantity { nano: i128::from(bytes) * NANO, family: Family::Binary, written: None }
    }

    /// Creates a quantity from an integer, with decimal suffixes.
    pub fn from_integer(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * NANO, family: Family::Decimal, written: None }
    }

    /// Returns whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// Returns whether the value is negative.
    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Returns whether the value is an integer.
    pub fn is_integer(&self) -> bool {
        self.nano % NANO == 0
    }

    /// Returns the value, rounded away from zero and clamped to `i64`.
    pub fn value(&self) -> i64 {
        let up = if self.is_integer() { 0 } else { self.nano.signum() };
        let whole = self.nano / NANO + up;
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the value in thousandths, rounded away from zero and clamped to `i64` (upstream: MilliValue).
    pub fn milli_value(&self) -> i64 {
        let milli = NANO / 1000;
        let up = if self.nano % milli == 0 { 0 } else { self.nano.signum() };
        let whole = self.nano / milli + up;
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the nearest `f64` to the value.
    #[expect(clippy::cast_precision_loss, reason = "that is what is said")]
    pub fn to_f64(&self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Rounds away from zero to an integer.
    pub fn rounded_up(self) -> Quantity {
        if self.is_integer() {
            return self;
        }
        let nano = (self.nano / NANO + self.nano.signum()).saturating_mul(NANO);
        Quantity { nano, written: None, ..self }
    }

    /// Creates the result of an arithmetic operation. As upstream, it has the format of the first nonzero operand.
    fn with_nano(&self, other: &Quantity, nano: i128) -> Quantity {
        let family = if self.nano == 0 { other.family } else { self.family };
        Quantity { nano, family, written: None }
    }

    /// Returns the sum, capped at the maximum.
    pub fn plus(&self, other: &Quantity) -> Quantity {
        self.with_nano(other, self.nano.saturating_add(other.nano))
    }

    /// Returns the difference of `self` and the other quantity.
    pub fn minus(&self, other: &Quantity) -> Quantity {
        self.with_nano(other, self.nano.saturating_sub(other.nano))
    }

    /// Returns whether `part` times `self` is less than `whole`, that is, whether `whole` exceeds that ratio of
    /// `self`.
    /// Compares magnitudes.
    pub fn is_exceeded_by(&self, whole: &Quantity, part: &Quantity) -> bool {
        let allowed = self.nano.unsigned_abs().checked_mul(part.nano.unsigned_abs());
        let given = whole.nano.unsigned_abs().checked_mul(NANO.unsigned_abs());
        match (given, allowed) {
            (Some(given), Some(allowed)) => given > allowed,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => whole.to_f64().abs() > self.to_f64().abs() * part.to_f64().abs(),
        }
    }

    /// Drops the original text, so that the value is formatted canonically.
    pub fn canonical(mut self) -> Quantity {
        self.written = None;
        self
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Quantity::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl Display for Quantity {
    /// The canonical form: no fraction, the largest suffix of its family that allows that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        if self.nano == 0 {
            return f.write_str("0");
        }
        match self.family {
            // Below 1024, or with a fraction, binary suffixes would lose precision.
            Family::Binary if self.nano.unsigned_abs() >= 1024 * NANO.unsigned_abs() && self.is_integer() => {
                write_binary(f, self.nano / NANO)
            }
            Family::Binary | Family::Decimal => write_decimal(f, self.nano, false),
            Family::Exponent => write_decimal(f, self.nano, true),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut value: i128) -> fmt::Result {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while value % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        value /= 1024;
        suffix = next;
    }
    write!(f, "{value}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nano: i128, as_exponent: bool) -> fmt::Result {
    let (mut value, mut exponent) = (nano, -9);
    while value % 1000 == 0 {
        value /= 1000;
        exponent += 3;
    }
    let suffix = match exponent {
        0 => "",
        _ if as_exponent => return write!(f, "{value}e{exponent}"),
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        // No suffix is that large.
        _ => return write!(f, "{value}e{exponent}"),
    };
    write!(f, "{value}{suffix}")
}
