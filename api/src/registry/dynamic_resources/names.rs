//! The names of drivers, pools, devices, attributes and requests.

use std::collections::{HashMap, HashSet};

use orlop_apimachinery::names;
use serde_json::Value;

use super::collection::items;
use crate::registry::checks;
use crate::registry::volume_rules;
use crate::registry::workload::text;
use crate::validate::{FieldErrors, Path};

/// Maximum length of a pool's name, bytes.
const POOL_MAX: usize = 253;
/// Maximum length of the name of an attribute without its domain, bytes.
const ID_MAX: usize = 32;
/// Maximum length of the domain of an attribute, bytes.
const DOMAIN_MAX: usize = 63;
/// Maximum length of the name of an attribute or a capacity, bytes.
pub(super) const QUALIFIED_MAX: usize = DOMAIN_MAX + 1 + ID_MAX;

const NO_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                             alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used \
                             for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const NO_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const NOT_NORMAL: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                          hexadecimal characters";

/// The name of a driver: the same rules as for a CSI driver.
pub(super) fn driver(name: &str, path: &Path, errors: &mut FieldErrors) {
    volume_rules::driver_name(path, name, errors);
}

/// The name of a pool: subdomains, separated by slashes.
pub(super) fn pool(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > POOL_MAX {
        errors.too_long(path, POOL_MAX);
        return;
    }
    for part in name.split('/') {
        checks::subdomain(errors, path, part);
    }
}

/// The name of an attribute or a capacity: an identifier, with the domain of a driver or without.
pub(super) fn qualified(name: &str, path: &Path, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(id, path, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                driver(domain, path, errors);
            }
            if id.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                identifier(id, path, errors);
            }
        }
        _ => errors.invalid(path, name, "must not contain more than one slash"),
    }
}

/// The name of an attribute with its domain.
pub(super) fn fully_qualified(name: &str, path: &Path, errors: &mut FieldErrors) {
    qualified(name, path, errors);
    if !name.contains('/') {
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(id: &str, path: &Path, errors: &mut FieldErrors) {
    if id.len() > ID_MAX {
        errors.too_long(path, ID_MAX);
    }
    let begins = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        errors.invalid(path, id, NO_IDENTIFIER);
    }
}

/// A UUID in its normal form.
pub(super) fn uid(uid: &str, path: &Path, errors: &mut FieldErrors) {
    match uuid::Uuid::try_parse(uid) {
        Err(why) => errors.invalid(path, uid, &format!("error validating uid: {why}")),
        Ok(parsed) if parsed.hyphenated().to_string() != uid => errors.invalid(path, uid, NOT_NORMAL),
        Ok(_) => {}
    }
}

/// The names of the requests of a claim, with those of their alternatives.
#[derive(Debug)]
pub(super) struct RequestNames<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> RequestNames<'a> {
    /// The names in a claim's `devices`.
    pub(super) fn of(devices: &'a Value) -> Self {
        let names = items(devices, "requests").iter().map(|request| {
            let alternatives = items(request, "firstAvailable").iter().map(|one| text(one, "name"));
            (text(request, "name"), alternatives.collect())
        });
        RequestNames(names.collect())
    }

    /// A reference to a request, or to one of its alternatives.
    pub(super) fn validate_reference(&self, name: &str, path: &Path, errors: &mut FieldErrors) {
        let parts: Vec<&str> = name.split('/').take(3).collect();
        if parts.len() > 2 {
            return errors.invalid(path, name, NO_REQUEST);
        }
        for part in &parts {
            checks::each(errors, path, part, names::dns_label(part));
        }
        let alternatives = self.0.get(parts[0]);
        let is_known = match parts.get(1) {
            None => alternatives.is_some(),
            Some(part) => alternatives.is_some_and(|known| known.contains(part)),
        };
        if !is_known {
            errors.invalid(path, name, NO_REQUEST);
        }
    }
}
