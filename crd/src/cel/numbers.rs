//! Floating-point numbers as texts.
//!
//! Upstream: Go's `%g`; and `golang.org/x/text/message` for English, which cel-go `ext/formatting.go` uses.

/// The digits and the exponent of a finite number: 0.d1d2d3... times ten to the power of the exponent.
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// The shortest decimal that is read as the same number.
    fn of(value: f64) -> Decimal {
        let text = format!("{:e}", value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).map(|c| c - b'0').collect();
        let is_zero = digits.iter().all(|digit| *digit == 0);
        let exponent = if is_zero { 1 } else { exponent.parse::<i64>().unwrap_or_default() + 1 };
        Decimal { is_negative: value.is_sign_negative(), digits, exponent }
    }

    /// Rounds to a number of digits, half to even.
    fn round(&mut self, count: i64) {
        let Ok(count) = usize::try_from(count) else {
            self.digits.clear();
            return;
        };
        if count >= self.digits.len() {
            return;
        }
        let rest = self.digits.split_off(count);
        let is_odd = self.digits.last().is_some_and(|digit| digit % 2 == 1);
        let is_half = rest[0] == 5 && rest[1..].iter().all(|digit| *digit == 0);
        if rest[0] < 5 || is_half && !is_odd {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
        self.exponent += 1;
    }

    /// Returns the digit at a place: 0 is the first one before the point, -1 the first one behind it.
    fn digit(&self, place: i64) -> char {
        let at = usize::try_from(self.exponent - 1 - place).ok();
        char::from(b'0' + at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0))
    }

    fn sign(&self) -> &'static str {
        if self.is_negative { "-" } else { "" }
    }
}

/// Formats a number as `%g` does.
pub(super) fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let exponent = Decimal::of(value).exponent - 1;
    // Other exponents are written.
    if (-4..6).contains(&exponent) || value == 0.0 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let mantissa = text.split_once('e').map_or(text.as_str(), |(mantissa, _)| mantissa);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    let is_negative = value < 0.0;
    value.is_infinite().then(|| if is_negative { "-\u{221e}".to_owned() } else { "\u{221e}".to_owned() })
}

/// Formats a number with a number of decimals, and with commas between the thousands.
pub(super) fn fixed(value: f64, decimals: u32) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let mut number = Decimal::of(value);
    number.round(number.exponent + i64::from(decimals));
    let mut text = number.sign().to_owned();
    for place in (0..number.exponent.max(1)).rev() {
        text.push(number.digit(place));
        if place > 0 && place % 3 == 0 {
            text.push(',');
        }
    }
    push_decimals(&mut text, &number, -1, decimals);
    text
}

/// Formats a number in scientific notation with a number of decimals.
pub(super) fn scientific(value: f64, decimals: u32) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let mut number = Decimal::of(value);
    number.round(1 + i64::from(decimals));
    let mut text = number.sign().to_owned();
    let first = number.exponent - 1;
    text.push(number.digit(first));
    push_decimals(&mut text, &number, first - 1, decimals);
    text.push_str("\u{202f}\u{d7}\u{202f}10");
    if first < 0 {
        text.push('\u{207b}');
    }
    for digit in format!("{:02}", first.abs()).chars() {
        text.push(match digit {
            '1' => '\u{b9}',
            '2' => '\u{b2}',
            '3' => '\u{b3}',
            '4' => '\u{2074}',
            '5' => '\u{2075}',
            '6' => '\u{2076}',
            '7' => '\u{2077}',
            '8' => '\u{2078}',
            '9' => '\u{2079}',
            _ => '\u{2070}',
        });
    }
    text
}

fn push_decimals(text: &mut String, number: &Decimal, first: i64, decimals: u32) {
    if decimals > 0 {
        text.push('.');
    }
    for at in 0..i64::from(decimals) {
        text.push(number.digit(first - at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: Go's `fmt_test.go`; `message/fmt_test.go` of `golang.org/x/text`; cel-go `ext/formatting_test.go`.
    #[test]
    fn numbers_are_formatted_as_upstream() {
        for (value, want) in [
            (0.0, "0"),
            (2.71, "2.71"),
            (0.000_000_002, "2e-09"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (-12_345_678.0, "-1.2345678e+07"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(general(value), want);
        }
        for (value, decimals, want) in [
            (1.2345, 3, "1.234"),
            (1_234_567.8, 6, "1,234,567.800000"),
            (1234.5678e-8, 6, "0.000012"),
            (-7.0, 6, "-7.000000"),
            (-1e-9, 6, "-0.000000"),
            (0.5, 0, "0"),
            (9.99, 1, "10.0"),
            (f64::NEG_INFINITY, 2, "-\u{221e}"),
        ] {
            assert_eq!(fixed(value, decimals), want);
        }
        for (value, decimals, want) in [
            (1.0, 6, "1.000000 x 10^00"),
            (1234.5678e3, 6, "1.234568 x 10^06"),
            (1234.5678e-8, 6, "1.234568 x 10^-05"),
            (-1e-9, 6, "-1.000000 x 10^-09"),
            (1_052.032_911_275, 6, "1.052033 x 10^03"),
            (9.99, 1, "1.0 x 10^01"),
        ] {
            let text = scientific(value, decimals).replace("\u{202f}\u{d7}\u{202f}10", " x 10^");
            let text = text.replace('\u{207b}', "-");
            let plain = text.chars().map(|c| match c {
                '\u{b9}' => '1',
                '\u{b2}' => '2',
                '\u{b3}' => '3',
                '\u{2070}'..='\u{2079}' => char::from_digit(u32::from(c) - 0x2070, 10).unwrap_or('?'),
                c => c,
            });
            assert_eq!(plain.collect::<String>(), want);
        }
    }
}
