//! The formats of names and other strings that Kubernetes validates.
//!
//! Upstream: apiserver `pkg/cel/library/format.go`.

use std::rc::Rc;

use orlop_apimachinery::{names, quoted};

use super::Val;
use super::cost::{Meter, Result};
use super::extensions::parse_url;
use crate::format::fits;

/// A format.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    /// The function that returns it.
    function: &'static str,
    /// The length of the pattern that stands for the cost of a validation.
    pattern: u64,
    /// Returns the mistakes of a string.
    validate: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

const fn format(function: &'static str, pattern: u64, validate: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { function, pattern, validate }
}

static FORMATS: [NamedFormat; 13] = [
    format("format.dns1123Label", 30, names::dns_label),
    format("format.dns1123Subdomain", 60, names::dns_subdomain),
    format("format.dns1035Label", 30, names::dns1035_label),
    format("format.qualifiedName", 60, names::qualified_name),
    format("format.dns1123LabelPrefix", 30, names::dns_label_prefix),
    format("format.dns1123SubdomainPrefix", 60, names::dns_subdomain_prefix),
    format("format.dns1035LabelPrefix", 30, names::dns1035_label_prefix),
    format("format.labelValue", 40, names::label_value),
    format("format.uri", 1103, uri),
    format("format.uuid", 100, |text| one("uuid", text, "does not match the UUID format")),
    format("format.byte", 84, |text| one("byte", text, "invalid base64")),
    format("format.date", 100, |text| one("date", text, "invalid date")),
    format("format.datetime", 100, |text| one("datetime", text, "invalid datetime")),
];

fn one(format: &str, text: &str, why: &str) -> Vec<String> {
    if fits(format, text) { Vec::new() } else { vec![why.to_owned()] }
}

fn uri(text: &str) -> Vec<String> {
    if parse_url(text).is_some() {
        return Vec::new();
    }
    let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
    vec![format!("parse {}: {why}", quoted(text))]
}

fn returned_by(function: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.function == function)
}

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "format.named" | "validate") || returned_by(name).is_some()
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    match (name, args) {
        ("format.named", [Val::Text(text)]) => {
            let found = returned_by(&format!("format.{}", text.as_ref()));
            Some(Ok(Val::Optional(found.map(|format| Rc::new(Val::Format(format))))))
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            let cost = (1 + text.len() as u64 / 10).saturating_mul(1 + format.pattern / 4);
            if let Err(failure) = meter.pay(cost) {
                return Some(Err(failure));
            }
            let mistakes = (format.validate)(text);
            let mistakes: Vec<Val<'v>> = mistakes.iter().map(|why| Val::text(why)).collect();
            Some(Ok(Val::Optional((!mistakes.is_empty()).then(|| Rc::new(Val::List(Rc::new(mistakes)))))))
        }
        (function, []) => returned_by(function).map(|format| Ok(Val::Format(format))),
        _ => None,
    }
}
