//! Converts values to JSON, and checks the names of the objects that an expression makes.
//!
//! Upstream: apiserver `pkg/cel/mutation/dynamic/objects.go`.

use serde_json::{Map, Number, Value};

use super::Val;
use super::shown::shown;

/// Converts a value to JSON.
pub(crate) fn to_json(value: &Val<'_>) -> Result<Value, String> {
    Ok(match value {
        Val::Null | Val::Optional(None) => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Int(number) => Value::from(*number),
        Val::Uint(number) => Value::from(*number),
        Val::Double(number) => {
            Number::from_f64(*number).map(Value::Number).ok_or("a number is not finite".to_owned())?
        }
        Val::Text(text) => Value::String(text.to_string()),
        Val::Bytes(bytes) => {
            use base64::Engine as _;
            Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        Val::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Val::Map(pairs) => {
            let mut map = Map::with_capacity(pairs.len());
            for (key, value) in pairs.iter() {
                let Val::Text(key) = key else {
                    return Err(format!(
                        "map key {:?} is of type {}, not string",
                        shown(key),
                        key.type_name()
                    ));
                };
                map.insert(key.to_string(), to_json(value)?);
            }
            Value::Object(map)
        }
        Val::Made(_, fields) => {
            let mut map = Map::with_capacity(fields.len());
            for (name, value) in fields.iter() {
                map.insert((*name).to_owned(), to_json(value)?);
            }
            Value::Object(map)
        }
        Val::Json(value, _) => (*value).clone(),
        Val::Optional(Some(value)) => to_json(value)?,
        Val::Time(_) | Val::Span(_) | Val::Quantity(_) | Val::Url(_) | Val::Ip(_) | Val::Cidr(..) => {
            Value::String(shown(value))
        }
        Val::Type(_) | Val::Variables | Val::Access(_) => {
            return Err(format!("a value of type {} has no JSON form", value.type_name()));
        }
    })
}

/// Checks that the types of the objects in a value are named after the fields that contain them: the object in the field
/// `spec` of an `Object` is an `Object.spec`. `path` is the expected name. Maps and lists add nothing to the name. Ends after `most`
/// errors, which quote the names.
pub(crate) fn check_names(value: &Val<'_>, path: &mut String, most: usize, wrong: &mut Vec<String>) {
    if wrong.len() >= most {
        return;
    }
    match value {
        Val::Made(name, fields) => {
            if *name != path.as_str() {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object \
                     type"
                ));
            }
            for (field, value) in fields.iter() {
                let length = path.len();
                path.push('.');
                path.push_str(field);
                check_names(value, path, most, wrong);
                path.truncate(length);
            }
        }
        Val::List(items) => items.iter().for_each(|item| check_names(item, path, most, wrong)),
        Val::Map(pairs) => pairs.iter().for_each(|(_, value)| check_names(value, path, most, wrong)),
        _ => {}
    }
}
