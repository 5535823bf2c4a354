//! The text form of values.

use super::Val;
use super::numbers::general;

/// Formats a value for strings and error messages.
pub(super) fn shown(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => general(*value),
        Val::Text(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Time(time) => time.to_string(),
        Val::Span(span) => format!("{}s", span.as_secs_f64()),
        Val::Quantity(quantity) => quantity.to_string(),
        Val::Url(url) => url.to_string(),
        Val::Ip(address) => address.to_string(),
        Val::Cidr(address, bits) => format!("{address}/{bits}"),
        Val::Json(value, _) => value.to_string(),
        Val::Type(name) => (*name).to_owned(),
        Val::List(_)
        | Val::Map(_)
        | Val::Optional(_)
        | Val::Made(..)
        | Val::Variables
        | Val::Access(_)
        | Val::Semver(_)
        | Val::Format(_) => value.type_name().to_owned(),
    }
}
