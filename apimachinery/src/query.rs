//! Booleans and numbers in query strings.

use crate::quoted;

/// Parses the value of a boolean parameter: everything is true except `false` (in any case) and `0`.
/// An absent parameter is false.
pub fn query_bool(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// Parses the value of an integer parameter.
///
/// # Errors
/// Returns the message of a 400: `strconv.ParseInt: parsing "abc": invalid syntax`.
pub fn query_int(value: &str) -> Result<i64, String> {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    let why = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match value.parse() {
            Ok(number) => return Ok(number),
            // The text has only digits, so only the range can be wrong.
            Err(_) => "value out of range",
        }
    };
    Err(format!("strconv.ParseInt: parsing {}: {why}", quoted(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans() {
        for (value, expected) in [
            ("", true),
            ("true", true),
            ("1", true),
            ("abc", true),
            ("no", true),
            ("00", true),
            ("0", false),
            ("false", false),
            ("False", false),
            ("FALSE", false),
        ] {
            assert_eq!(query_bool(value), expected, "{value:?}");
        }
    }

    #[test]
    fn integers() {
        for (value, expected) in [
            ("0", Ok(0)),
            ("500", Ok(500)),
            ("-3", Ok(-3)),
            ("+3", Ok(3)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("abc", Err("strconv.ParseInt: parsing \"abc\": invalid syntax")),
            ("", Err("strconv.ParseInt: parsing \"\": invalid syntax")),
            ("-", Err("strconv.ParseInt: parsing \"-\": invalid syntax")),
            ("1.5", Err("strconv.ParseInt: parsing \"1.5\": invalid syntax")),
            (
                "9223372036854775808",
                Err("strconv.ParseInt: parsing \"9223372036854775808\": value out of range"),
            ),
        ] {
            assert_eq!(query_int(value), expected.map_err(str::to_owned), "{value:?}");
        }
    }
}
