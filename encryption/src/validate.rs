//! Validates a configuration, with upstream's messages.
//!
//! Upstream: apiserver `pkg/apis/apiserver/validation/validation_encryption.go`.

use std::collections::HashSet;

use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use crate::config::{
    EncryptionConfiguration, KeyConfiguration, KeySecret, KmsConfiguration, ProviderConfiguration,
};
use crate::kms::{EndpointError, parse_endpoint};
use crate::resource::GroupResource;

const AES_KEY_SIZES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_SIZES: &[usize] = &[32];
/// Resources that upstream stores without an API.
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

/// Validates a configuration.
pub(crate) fn validate(configuration: &EncryptionConfiguration) -> Result<(), String> {
    let mut errors = FieldErrors::new();
    let root = Path::new("resources");
    if configuration.resources.is_empty() {
        errors.required(&root, "at least one resources is required");
    }
    let mut kms_names = HashSet::new();
    for (nth, resource) in configuration.resources.iter().enumerate() {
        let names = root.index(nth).child("resources");
        let providers = root.index(nth).child("providers");
        if resource.resources.is_empty() {
            errors.required(&names, &format!("at least one resources[{nth}].resources is required"));
        }
        overlap(&resource.resources, &names, &mut errors);
        for (nth, name) in resource.resources.iter().enumerate() {
            if let Some(fault) = name_fault(name) {
                errors.invalid(&names.index(nth), name.as_str(), fault);
            }
        }
        if resource.providers.is_empty() {
            errors.required(&providers, &format!("at least one resources[{nth}].providers is required"));
        }
        for (nth, one) in resource.providers.iter().enumerate() {
            let path = providers.index(nth);
            provider(one, &path, &mut errors);
            if let Some(kms) = &one.kms {
                validate_kms(kms, &path.child("kms"), &kms_names, &mut errors);
                kms_names.insert(kms.name.as_str());
            }
        }
    }
    aggregate(&errors)
}

fn aggregate(errors: &FieldErrors) -> Result<(), String> {
    let texts: Vec<String> =
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        more => Err(format!("[{}]", more.join(", "))),
    }
}

fn overlap(names: &[String], path: &Path, errors: &mut FieldErrors) {
    let parsed: Vec<_> = names.iter().map(|name| GroupResource::parse(name)).collect();
    let all = GroupResource::all();
    let (mut duplicate, mut masked) = (false, false);
    for (at, one) in parsed.iter().enumerate() {
        for other in &parsed[..at] {
            if one == other {
                duplicate = true;
            } else {
                let is_whole_group =
                    one.group == other.group && (one.resource == "*" || other.resource == "*");
                masked |= is_whole_group || *one == all || *other == all;
            }
        }
    }
    let shown = || Value::from(names.to_vec());
    if duplicate {
        errors.invalid(path, shown(), "the same resource cannot be specified multiple times");
    }
    if masked {
        errors.invalid(
            path,
            shown(),
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
             will be masked",
        );
    }
}

fn name_fault(name: &str) -> Option<&'static str> {
    let parsed = GroupResource::parse(name);
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    if name == "*" {
        return Some(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        );
    }
    if WITHOUT_API.contains(&name) {
        return Some("resources which do not have REST API/s cannot be encrypted");
    }
    match (parsed.group.as_str(), parsed.resource.as_str()) {
        ("events.k8s.io", _) => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file",
        ),
        ("extensions", _) => Some("'extensions' group has been removed and cannot be used for encryption"),
        ("*", resource) if resource != "*" => {
            Some("encrypting the same resource across groups is not supported")
        }
        _ => None,
    }
}

fn provider(provider: &ProviderConfiguration, path: &Path, errors: &mut FieldErrors) {
    let ProviderConfiguration { aesgcm, aescbc, secretbox, identity, kms } = provider;
    let set = [aesgcm.is_some(), aescbc.is_some(), secretbox.is_some(), *identity, kms.is_some()];
    match set.iter().filter(|set| **set).count() {
        0 => errors.invalid_unshown(
            path,
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        1 => {}
        _ => errors.invalid_unshown(
            path,
            "more than one provider specified in a single element, should split into different list elements",
        ),
    }
    for (name, keys, sizes) in [
        ("aesgcm", aesgcm, AES_KEY_SIZES),
        ("aescbc", aescbc, AES_KEY_SIZES),
        ("secretbox", secretbox, SECRETBOX_KEY_SIZES),
    ] {
        if let Some(keys) = keys {
            validate_keys(keys, &path.child(name).child("keys"), sizes, errors);
        }
    }
}

fn validate_kms(kms: &KmsConfiguration, path: &Path, names: &HashSet<&str>, errors: &mut FieldErrors) {
    let KmsConfiguration { api_version, name, endpoint, timeout, cache_size } = kms;
    let is_v1 = api_version == "v1";
    let at = path.child("name");
    if name.is_empty() {
        errors.required(&at, "name is a mandatory field for a provider");
    }
    if !is_v1 && name.contains(':') {
        let why = format!("invalid KMS provider name {name}, must not contain ':'");
        errors.invalid(&at, name.as_str(), &why);
    }
    if !is_v1 && names.contains(name.as_str()) {
        let why = format!("duplicate KMS provider name {name}, names must be unique");
        errors.invalid(&at, name.as_str(), &why);
    }
    if timeout.nanos <= 0 {
        errors.invalid_shown(&path.child("timeout"), &timeout.shown(), "timeout should be a positive value");
    }
    let at = path.child("endpoint");
    if endpoint.is_empty() {
        errors.invalid(&at, "", "endpoint is a mandatory field for a kms");
    } else if let Err(error) = parse_endpoint(endpoint) {
        let why = match error {
            EndpointError::Malformed(why) => format!("invalid endpoint for kms provider, error: {why}"),
            EndpointError::Scheme(scheme) => {
                format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported")
            }
        };
        errors.invalid(&at, endpoint.as_str(), &why);
    }
    let at = path.child("cachesize");
    match cache_size {
        Some(size) if !is_v1 => errors.invalid(&at, *size, "cachesize is not supported in v2"),
        Some(0) => {
            errors.invalid(&at, 0, "cachesize should be a positive value, or negative to disable");
        }
        Some(_) | None => {}
    }
    if !is_v1 && api_version != "v2" {
        // Upstream prints the name of the field, not its value.
        let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.invalid(&path.child("apiVersion"), api_version.as_str(), why);
    }
}

fn validate_keys(keys: &[KeyConfiguration], path: &Path, sizes: &[usize], errors: &mut FieldErrors) {
    if keys.is_empty() {
        errors.required(path, "at least one keys is required");
    }
    for (nth, KeyConfiguration { name, secret }) in keys.iter().enumerate() {
        let path = path.index(nth);
        if name.is_empty() {
            errors.required(&path.child("name"), "name is a mandatory field for a key");
        }
        let path = path.child("secret");
        let key = match secret {
            KeySecret::Bytes(key) => key,
            KeySecret::Missing => {
                errors.required(&path, "secret is a mandatory field for a key");
                continue;
            }
            KeySecret::Malformed => {
                errors.invalid(&path, "REDACTED", "secrets must be base64 encoded");
                continue;
            }
        };
        if !sizes.contains(&key.len()) {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let (length, sizes) = (key.len(), sizes.join(" "));
            let why =
                format!("secret is not of the expected length, got {length}, expected one of [{sizes}]");
            errors.invalid(&path, "REDACTED", &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::validate;
    use crate::config::parse;

    const MARKER: &str = "bWFya2VyLW9mLWEtc2VjcmV0";

    fn checked(resources: &str, providers: &str) -> Result<(), String> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
        let text = format!("{head}resources: [{{resources: {resources}, providers: {providers}}}]");
        parse(text.as_bytes()).and_then(|configuration| validate(&configuration))
    }

    #[test]
    fn resources_are_validated_as_upstream_does() {
        for (resources, want) in [
            ("[secrets, configmaps, pandas.awesome.bears.example]", ""),
            ("['*.*']", ""),
            ("['*.', '*.apps']", ""),
            ("[]", "resources[0].resources: Required value: at least one resources[0].resources is required"),
            (
                "[Secrets]",
                "resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters",
            ),
            ("['*']", "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt"),
            (
                "[apiserveripinfo]",
                "resources[0].resources[0]: Invalid value: \"apiserveripinfo\": resources which do not",
            ),
            (
                "[events.events.k8s.io]",
                "resources[0].resources[0]: Invalid value: \"events.events.k8s.io\": '*.events.k8s.io' objects",
            ),
            (
                "['*.extensions']",
                "resources[0].resources[0]: Invalid value: \"*.extensions\": 'extensions' group",
            ),
            (
                "['secrets.*']",
                "resources[0].resources[0]: Invalid value: \"secrets.*\": encrypting the same resource",
            ),
            (
                "[secrets, secrets]",
                "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource",
            ),
            (
                "[secrets, '*.']",
                "resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping",
            ),
            (
                "[secrets, '*.*']",
                "resources[0].resources: Invalid value: [\"secrets\",\"*.*\"]: using overlapping",
            ),
        ] {
            let found = checked(resources, "[{identity: {}}]").err().unwrap_or_default();
            assert!(found.starts_with(want) && want.is_empty() == found.is_empty(), "{resources}: {found}");
        }
    }

    #[test]
    fn providers_are_validated_as_upstream_does_and_no_key_is_shown() {
        let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        let secret = "resources[0].providers[0].aescbc.keys[0].secret";
        for (providers, want) in [
            (format!("[{{aescbc: {{keys: [{{name: a, secret: {key}}}]}}}}, {{identity: {{}}}}]"), String::new()),
            ("[]".to_owned(), "resources[0].providers: Required value: at least one".to_owned()),
            ("[{}]".to_owned(), "resources[0].providers[0]: Invalid value: provider does not contain any".to_owned()),
            (
                format!("[{{identity: {{}}, aescbc: {{keys: [{{name: a, secret: {key}}}]}}}}]"),
                "resources[0].providers[0]: Invalid value: more than one provider".to_owned(),
            ),
            (
                "[{aescbc: {keys: []}}]".to_owned(),
                "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required".to_owned(),
            ),
            (
                format!("[{{aescbc: {{keys: [{{secret: {key}}}]}}}}]"),
                "resources[0].providers[0].aescbc.keys[0].name: Required value: name is a mandatory field for a key".to_owned(),
            ),
            (
                "[{aescbc: {keys: [{name: a}]}}]".to_owned(),
                format!("{secret}: Required value: secret is a mandatory field for a key"),
            ),
            (
                format!("[{{aescbc: {{keys: [{{name: a, secret: '!{MARKER}'}}]}}}}]"),
                format!("{secret}: Invalid value: \"REDACTED\": secrets must be base64 encoded"),
            ),
            (
                format!("[{{aescbc: {{keys: [{{name: a, secret: {MARKER}}}]}}}}]"),
                format!("{secret}: Invalid value: \"REDACTED\": secret is not of the expected length, got 18, expected one of [16 24 32]"),
            ),
            (
                "[{secretbox: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}}]".to_owned(),
                "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected one of [32]".to_owned(),
            ),
        ] {
            let found = checked("[secrets]", &providers).err().unwrap_or_default();
            assert!(found.starts_with(&want) && want.is_empty() == found.is_empty(), "{providers}: {found}");
            assert!(!found.contains(MARKER), "{found}");
        }
    }

    #[test]
    fn kms_providers_are_validated_as_upstream_does() {
        let at = "resources[0].providers[0].kms";
        for (fields, want) in [
            ("apiVersion: v2, name: foo, endpoint: unix:///kms.sock, timeout: 1m", String::new()),
            ("apiVersion: v2, name: foo, endpoint: 'unix:///@kms'", String::new()),
            ("name: 'foo:bar', endpoint: unix:///kms.sock, cachesize: -1", String::new()),
            (
                "apiVersion: v2, endpoint: unix:///kms.sock",
                format!("{at}.name: Required value: name is a mandatory field for a provider"),
            ),
            (
                "apiVersion: v2, name: 'foo:bar', endpoint: unix:///kms.sock",
                format!(
                    "{at}.name: Invalid value: \"foo:bar\": invalid KMS provider name foo:bar, must not contain ':'"
                ),
            ),
            (
                "apiVersion: v2, name: foo, endpoint: unix:///kms.sock, timeout: '-1m'",
                format!("{at}.timeout: Invalid value: -1m0s: timeout should be a positive value"),
            ),
            (
                "apiVersion: v2, name: foo, endpoint: unix:///kms.sock, timeout: 0s",
                format!("{at}.timeout: Invalid value: 0s: timeout should be a positive value"),
            ),
            (
                "apiVersion: v2, name: foo",
                format!("{at}.endpoint: Invalid value: \"\": endpoint is a mandatory field for a kms"),
            ),
            (
                "apiVersion: v2, name: foo, endpoint: 'https://www.foo.com'",
                format!(
                    "{at}.endpoint: Invalid value: \"https://www.foo.com\": unsupported scheme \"https\" for KMS provider, only unix is supported"
                ),
            ),
            (
                "apiVersion: v2, name: foo, endpoint: \"unix:///foo\\n.socket\"",
                format!(
                    "{at}.endpoint: Invalid value: \"unix:///foo\\n.socket\": invalid endpoint for kms provider, error: parse \"unix:///foo\\n.socket\": net/url: invalid control character in URL"
                ),
            ),
            (
                "apiVersion: v2, name: foo, endpoint: unix:///kms.sock, cachesize: 10",
                format!("{at}.cachesize: Invalid value: 10: cachesize is not supported in v2"),
            ),
            (
                "apiVersion: v1, name: foo, endpoint: unix:///kms.sock, cachesize: 0",
                format!(
                    "{at}.cachesize: Invalid value: 0: cachesize should be a positive value, or negative to disable"
                ),
            ),
            (
                "apiVersion: v3, name: foo, endpoint: unix:///kms.sock",
                format!(
                    "{at}.apiVersion: Invalid value: \"v3\": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
                ),
            ),
        ] {
            let found = checked("[secrets]", &format!("[{{kms: {{{fields}}}}}]")).err().unwrap_or_default();
            assert_eq!(found, want, "{fields}");
        }
    }

    #[test]
    fn names_of_kms_providers_are_unique() {
        let provider = |version: &str| {
            format!("{{kms: {{apiVersion: {version}, name: foo, endpoint: unix:///kms.sock}}}}")
        };
        let duplicate = "resources[0].providers[1].kms.name: Invalid value: \"foo\": duplicate KMS provider name foo, names must be unique";
        for (first, second, want) in [("v2", "v2", duplicate), ("v1", "v2", duplicate), ("v1", "v1", "")] {
            let found = checked("[secrets]", &format!("[{}, {}]", provider(first), provider(second)));
            assert_eq!(found.err().unwrap_or_default(), want, "{first} {second}");
        }
    }
}
