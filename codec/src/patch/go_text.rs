//! Formats values like Go's `%v` and `%#v`, for error messages about patches.

use std::fmt::Write;

use serde_json::Value;

/// Formats a value as `map[a:1 b:[x y]]`, with sorted keys and unquoted strings.
pub fn shown(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(plain) => text.push_str(plain),
        Value::Bool(_) | Value::Number(_) => {
            let _ = write!(text, "{value}");
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            text.push_str("map[");
            for (i, key) in keys.into_iter().enumerate() {
                let _ = write!(text, "{}{key}:", if i > 0 { " " } else { "" });
                write(&members[key], text);
            }
            text.push(']');
        }
    }
}

/// Formats a value like Go's `%#v`, such as `map[string]interface {}{"a":1}`.
pub fn syntax(value: &Value) -> String {
    let joined = |parts: Vec<String>| format!("{}{{{}}}", type_name(value), parts.join(", "));
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => joined(items.iter().map(syntax).collect()),
        Value::Object(members) => {
            let part = |(name, value): (&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), syntax(value))
            };
            joined(members.iter().map(part).collect())
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
}
