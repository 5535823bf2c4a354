//! Validation of names, keys and values. Each function returns upstream's error texts;
//! an empty list means valid. Upstream: apimachinery `pkg/api/validate/content` and
//! `pkg/util/validation`.

#[cfg(test)]
mod tests;

use std::fmt::Write;

/// Maximum length of a CSI driver name in a reference to the driver, in bytes. Exceeding it is a separate
/// error (`Too long`), so [`csi_driver_name`] does not check it.
pub const CSI_DRIVER_NAME_MAX: usize = 63;

const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;
const SUBDOMAIN_REGEX: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const KEY_NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(max: usize, unit: &str) -> String {
    format!("must be no more than {max} {unit}")
}

/// `what (e.g. 'a',  or 'b', regex used for validation is '...')`
fn unlike(what: &str, regex: &str, examples: &[&str]) -> String {
    let mut text = format!("{what} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        let _ = write!(text, "{}'{example}', ", if i == 0 { "" } else { " or " });
    }
    let _ = write!(text, "regex used for validation is '{regex}')");
    text
}

/// Returns whether the text is not empty, its first and last byte are `edge`, and the others `edge` or `inner`.
fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    edge(*first) && edge(*last) && bytes.iter().all(|b| edge(*b) || inner(*b))
}

fn lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn like_dns_label(text: &str) -> bool {
    framed(text, lower, |b| b == b'-')
}

fn like_dns_subdomain(text: &str) -> bool {
    text.split('.').all(like_dns_label)
}

/// Returns whether the text is valid as the name part of a label key or as a non-empty label value.
fn like_key_name(text: &str) -> bool {
    framed(text, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

/// Masks a name prefix for validation as if a suffix followed: a trailing dash is valid.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        // Upstream replaces the last two bytes with the letter.
        Some(rest) if !rest.is_empty() => {
            let mut keep = rest.len() - 1;
            while !rest.is_char_boundary(keep) {
                keep -= 1;
            }
            format!("{}a", &rest[..keep])
        }
        Some(_) | None => prefix.to_owned(),
    }
}

/// An RFC 1123 subdomain of at most 253 bytes.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX, "characters"));
    }
    if !like_dns_subdomain(text) {
        let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                    '-' or '.', and must start and end with an alphanumeric character";
        errors.push(unlike(what, SUBDOMAIN_REGEX, &["example.com"]));
    }
    errors
}

/// Validates a `generateName` by the rules of [`dns_subdomain`].
pub fn dns_subdomain_prefix(text: &str) -> Vec<String> {
    dns_subdomain(&masked(text))
}

/// An RFC 1123 label of at most 63 bytes.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX, "characters"));
    }
    if like_dns_label(text) {
        return errors;
    }
    errors.push(if like_dns_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        let what = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                    '-', and must start and end with an alphanumeric character";
        unlike(what, LABEL_REGEX, &["my-name", "123-abc"])
    });
    errors
}

/// Validates a `generateName` by the rules of [`dns_label`].
pub fn dns_label_prefix(text: &str) -> Vec<String> {
    dns_label(&masked(text))
}

/// An RFC 1035 label of at most 63 bytes: as [`dns_label`], but it must begin with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX, "characters"));
    }
    if !like_dns_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        let what = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
                    with an alphabetic character, and end with an alphanumeric character";
        errors.push(unlike(what, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

/// Validates a `generateName` by the rules of [`dns1035_label`].
pub fn dns1035_label_prefix(text: &str) -> Vec<String> {
    dns1035_label(&masked(text))
}

/// A path segment, as the prefix of a name.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|bad| text.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// A path segment, as a whole name.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// A qualified name, such as a label key: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character";
    let examples = &["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            let what = unlike(&format!("a valid label key {what}"), KEY_NAME_REGEX, examples);
            return vec![format!(
                "{what} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            errors.extend(dns_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", too_long(LABEL_MAX, "bytes")));
    }
    if !like_key_name(name) {
        errors.push(format!("name part {}", unlike(what, KEY_NAME_REGEX, examples)));
    }
    errors
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX, "bytes"));
    }
    if !text.is_empty() && !like_key_name(text) {
        let what = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
                    or '.', and must start and end with an alphanumeric character";
        errors.push(unlike(what, &format!("({KEY_NAME_REGEX})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// A key in the data of a ConfigMap or a Secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX, "characters"));
    }
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fine) {
        let what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(unlike(what, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// The name of an environment variable.
pub fn env_var_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    let text =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![text.to_owned()]
}

/// The name of a CSI driver in a reference to it, except for its length
/// ([`CSI_DRIVER_NAME_MAX`]): capital letters are valid.
pub fn csi_driver_name(text: &str) -> Vec<String> {
    dns_subdomain(&text.to_lowercase())
}

/// The name of a container's port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(too_long(15, "characters"));
    }
    if text.is_empty() || !text.bytes().all(|b| lower(b) || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// The name of an HTTP header.
pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let what = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![unlike(what, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A percentage such as `25%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let what = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![unlike(what, "[0-9]+%", &["1%", "93%"])]
}
