//! The formats of names and other strings that Kubernetes validates. `format_library` has the functions.
//!
//! Upstream: apiserver `pkg/cel/library/format.go`.

use orlop_apimachinery::{names, quoted};

use crate::format::{fits, parse_url};

/// A format.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    /// The function that returns it.
    function: &'static str,
    /// The length of the pattern that stands for the cost of a validation.
    pub(super) pattern: u64,
    /// Returns the mistakes of a string.
    pub(super) validate: fn(&str) -> Vec<String>,
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

/// Returns the format that a function returns.
pub(super) fn returned_by(function: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.function == function)
}
