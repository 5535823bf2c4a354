//! Formats values like Go's `%v` and `%#v`, for error messages about patches.

use std::fmt::{self, Write};

use serde_json::Value;

/// Maximum length of a formatted value, bytes. Errors quote values of the client, which may be as long as the body.
const MAX_TEXT: usize = 16 << 10;

/// A text that ends after [`MAX_TEXT`] bytes.
#[derive(Default)]
struct Text(String);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.floor_char_boundary(MAX_TEXT - self.0.len());
        self.0.push_str(&text[..room]);
        if room == text.len() {
            return Ok(());
        }
        // Nothing more is written after an error.
        self.0.push_str("...");
        Err(fmt::Error)
    }
}

/// Formats a value as `map[a:1 b:[x y]]`, with sorted keys and unquoted strings. A long text is cut.
pub fn shown(value: &Value) -> String {
    let mut text = Text::default();
    // The only error is that the text was cut.
    let _ = write(value, &mut text);
    text.0
}

/// Formats a list like [`shown`].
pub fn shown_list(items: &[Value]) -> String {
    let mut text = Text::default();
    let _ = write_list(items, &mut text);
    text.0
}

/// Formats a value as JSON. A long text is cut.
pub fn json(value: &Value) -> String {
    let mut text = Text::default();
    let _ = write!(text, "{value}");
    text.0
}

fn write(value: &Value, text: &mut Text) -> fmt::Result {
    match value {
        Value::Null => text.write_str("<nil>"),
        Value::String(plain) => text.write_str(plain),
        Value::Bool(_) | Value::Number(_) => write!(text, "{value}"),
        Value::Array(items) => write_list(items, text),
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            text.write_str("map[")?;
            for (i, key) in keys.into_iter().enumerate() {
                write!(text, "{}{key}:", if i > 0 { " " } else { "" })?;
                write(&members[key], text)?;
            }
            text.write_str("]")
        }
    }
}

fn write_list(items: &[Value], text: &mut Text) -> fmt::Result {
    text.write_str("[")?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            text.write_str(" ")?;
        }
        write(item, text)?;
    }
    text.write_str("]")
}

/// Formats a value like Go's `%#v`, such as `map[string]interface {}{"a":1}`. A long text is cut.
pub fn syntax(value: &Value) -> String {
    let mut text = Text::default();
    let _ = write_syntax(value, &mut text);
    text.0
}

fn write_syntax(value: &Value, text: &mut Text) -> fmt::Result {
    match value {
        Value::Null => text.write_str("interface {}(nil)"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => write!(text, "{value}"),
        Value::Array(items) => {
            write!(text, "{}{{", type_name(value))?;
            for (i, item) in items.iter().enumerate() {
                text.write_str(if i > 0 { ", " } else { "" })?;
                write_syntax(item, text)?;
            }
            text.write_str("}")
        }
        Value::Object(members) => {
            write!(text, "{}{{", type_name(value))?;
            for (i, (name, value)) in members.iter().enumerate() {
                text.write_str(if i > 0 { ", " } else { "" })?;
                // Quoted as JSON.
                write!(text, "{}:", Value::from(name.as_str()))?;
                write_syntax(value, text)?;
            }
            text.write_str("}")
        }
    }
}

/// The Go type of a value, formatted like a `reflect.Type` with `%s`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_formatted_like_go() {
        let value = json!({"b": [1, "x y", null, true, 1.5], "a": {"k": {}}, "c": []});
        assert_eq!(shown(&value), "map[a:map[k:map[]] b:[1 x y <nil> true 1.5] c:[]]");
        assert_eq!(
            syntax(&json!({"b": [1, "x"], "a": {}, "c": null})),
            "map[string]interface {}{\"a\":map[string]interface {}{}, \"b\":[]interface {}{1, \"x\"}, \
             \"c\":interface {}(nil)}"
        );
        let types: Vec<_> =
            json!([null, true, 1, 1.5, "", [], {}]).as_array().into_iter().flatten().map(type_name).collect();
        let expected =
            ["nil", "bool", "int64", "float64", "string", "[]interface {}", "map[string]interface {}"];
        assert_eq!(types, expected);
    }

    #[test]
    fn long_values_are_cut() {
        let long = "\u{1f600}".repeat(MAX_TEXT);
        let value = json!([long, {(long.as_str()): [long]}]);
        for text in
            [shown(&value), shown_list(std::slice::from_ref(&value)), super::json(&value), syntax(&value)]
        {
            assert!(text.len() <= MAX_TEXT + 3 && text.ends_with("..."), "{}", text.len());
        }
    }
}
