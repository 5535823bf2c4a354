//! Values as Go prints them in upstream's messages.

use orlop_apimachinery::quoted;
use serde_json::Value;

/// The JSON of a value as Go's `encoding/json` writes it: without characters that have a meaning in HTML, and with Go's form of
/// floating-point numbers.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

/// A value as upstream's field errors print it: strings in quotes, numbers as with Go's `%v`, everything else as JSON.
pub fn display(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => encode(value),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => general_float(float),
            None => number.to_string(),
        },
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                escape(out, &Value::from(name.as_str()).to_string());
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.push_str(&json_float(float)),
            None => out.push_str(&number.to_string()),
        },
        Value::String(_) => escape(out, &value.to_string()),
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

/// Appends the JSON of a string with the escapes that only Go adds.
fn escape(out: &mut String, json: &str) {
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// A number in Go's JSON: with an exponent if it is very small or very large.
fn json_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) { scientific(float, 1) } else { float.to_string() }
}

/// A number as Go's `%v` prints it: with an exponent of two digits from a million on, or below 0.0001.
fn general_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) { scientific(float, 2) } else { float.to_string() }
}

/// The shortest digits and an exponent with a sign and at least `width` digits.
fn scientific(float: f64, width: usize) -> String {
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>width$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_like_go() {
        for (value, encoded, displayed) in [
            (json!(null), "null", "null"),
            (json!("a<b>\u{2028}\n"), r#""a\u003cb\u003e\u2028\n""#, r#""a<b>\u2028\n""#),
            (json!(5), "5", "5"),
            (json!(-7.0), "-7", "-7"),
            (json!(0.5), "0.5", "0.5"),
            (json!(1_500_000.0), "1500000", "1.5e+06"),
            (json!(1e21), "1e+21", "1e+21"),
            (json!(0.000_05), "0.00005", "5e-05"),
            (json!(1.5e-7), "1.5e-7", "1.5e-07"),
            (json!([1.0, "&"]), r#"[1,"\u0026"]"#, r#"[1,"\u0026"]"#),
            (json!({"b": {}, "a>": [true]}), r#"{"a\u003e":[true],"b":{}}"#, r#"{"a\u003e":[true],"b":{}}"#),
        ] {
            assert_eq!(encode(&value), encoded);
            assert_eq!(display(&value), displayed);
        }
    }
}
