//! The file of `--encryption-provider-config`: an `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.
//!
//! No error contains a value of the file, because keys are in it.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use orlop_apimachinery::duration;
use orlop_codec::decode::read_yaml;
use serde_json::{Map, Value};

/// The providers of some resources.
pub(crate) struct ResourceConfiguration {
    pub(crate) resources: Vec<String>,
    pub(crate) providers: Vec<ProviderConfiguration>,
}

/// A provider: exactly one member is set in a valid configuration.
#[derive(Default)]
pub(crate) struct ProviderConfiguration {
    pub(crate) aesgcm: Option<Vec<KeyConfiguration>>,
    pub(crate) aescbc: Option<Vec<KeyConfiguration>>,
    pub(crate) secretbox: Option<Vec<KeyConfiguration>>,
    pub(crate) identity: bool,
    pub(crate) kms: Option<KmsConfiguration>,
}

/// A KMS plugin, with upstream's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KmsConfiguration {
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) endpoint: String,
    pub(crate) timeout: Timeout,
    /// `None` if the field is not set.
    pub(crate) cache_size: Option<i32>,
}

/// The timeout of the calls to a KMS plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout {
    /// Zero if the configured timeout is negative.
    pub(crate) duration: Duration,
    /// The configured number, in nanoseconds. Only validation uses it.
    pub(crate) nanos: i64,
}

impl Timeout {
    /// Upstream's default.
    const DEFAULT: Timeout = Timeout { duration: Duration::from_secs(3), nanos: 3_000_000_000 };

    /// Parses a duration in Go's format, which may be negative.
    fn parse(text: &str) -> Result<Self, String> {
        let (is_negative, size) = match text.strip_prefix('-') {
            Some(size) if !size.starts_with(['+', '-']) => (true, size),
            Some(_) | None => (false, text),
        };
        let size = duration::parse(size)?;
        let nanos = i64::try_from(size.as_nanos()).unwrap_or(i64::MAX);
        if is_negative {
            return Ok(Timeout { duration: Duration::ZERO, nanos: -nanos });
        }
        Ok(Timeout { duration: size, nanos })
    }

    /// The configured duration in Go's format.
    pub(crate) fn shown(self) -> String {
        let sign = if self.nanos < 0 { "-" } else { "" };
        format!("{sign}{}", duration::format(Duration::from_nanos(self.nanos.unsigned_abs())))
    }
}

/// A key. Not printable.
pub(crate) struct KeyConfiguration {
    pub(crate) name: String,
    pub(crate) secret: KeySecret,
}

/// The bytes of a key.
pub(crate) enum KeySecret {
    /// The field is empty.
    Missing,
    /// The field is not base64.
    Malformed,
    /// The key.
    Bytes(Vec<u8>),
}

/// As Go's decoder, which ignores the bits after the last byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

impl KeySecret {
    /// Decodes base64. As in Go, line breaks are ignored: a block of YAML ends with one.
    fn parse(text: &str) -> Self {
        if text.is_empty() {
            return KeySecret::Missing;
        }
        let text: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
        LENIENT.decode(text).map_or(KeySecret::Malformed, KeySecret::Bytes)
    }
}

/// The configuration.
pub(crate) struct EncryptionConfiguration {
    pub(crate) resources: Vec<ResourceConfiguration>,
}

/// Reads the text of a file. The error is for the operator.
pub(crate) fn parse(text: &[u8]) -> Result<EncryptionConfiguration, String> {
    if text.is_empty() {
        return Err("the file is empty".to_owned());
    }
    // The error of the parser could quote a key.
    let (document, duplicates) = read_yaml(text).map_err(|_| "the file is not valid YAML".to_owned())?;
    if !duplicates.is_empty() {
        return Err(format!("the file is not valid YAML: {}", duplicates.join("; ")));
    }
    let document = object(&document, "the document")?;
    for (name, want) in [("apiVersion", "apiserver.config.k8s.io/v1"), ("kind", "EncryptionConfiguration")] {
        if document.get(name).and_then(Value::as_str) != Some(want) {
            return Err(format!("{name} must be {want}"));
        }
    }
    known(document, "", &["apiVersion", "kind", "resources"])?;
    let mut resources = Vec::new();
    for (nth, one) in list(document.get("resources"), "resources")?.iter().enumerate() {
        resources.push(resource(one, &format!("resources[{nth}]"))?);
    }
    Ok(EncryptionConfiguration { resources })
}

fn resource(value: &Value, path: &str) -> Result<ResourceConfiguration, String> {
    let value = object(value, path)?;
    known(value, path, &["resources", "providers"])?;
    let mut resources = Vec::new();
    for (nth, name) in list(value.get("resources"), &format!("{path}.resources"))?.iter().enumerate() {
        resources.push(string(Some(name), &format!("{path}.resources[{nth}]"))?);
    }
    let mut providers = Vec::new();
    for (nth, one) in list(value.get("providers"), &format!("{path}.providers"))?.iter().enumerate() {
        providers.push(provider(one, &format!("{path}.providers[{nth}]"))?);
    }
    Ok(ResourceConfiguration { resources, providers })
}

fn provider(value: &Value, path: &str) -> Result<ProviderConfiguration, String> {
    let value = object(value, path)?;
    known(value, path, &["aesgcm", "aescbc", "secretbox", "identity", "kms"])?;
    let of = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(provider) => keys(provider, &format!("{path}.{name}")).map(Some),
    };
    let is_set = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
    if is_set("identity") {
        known(object(&value["identity"], &format!("{path}.identity"))?, &format!("{path}.identity"), &[])?;
    }
    Ok(ProviderConfiguration {
        aesgcm: of("aesgcm")?,
        aescbc: of("aescbc")?,
        secretbox: of("secretbox")?,
        identity: is_set("identity"),
        kms: is_set("kms").then(|| kms(&value["kms"], &format!("{path}.kms"))).transpose()?,
    })
}

fn kms(value: &Value, path: &str) -> Result<KmsConfiguration, String> {
    let value = object(value, path)?;
    known(value, path, &["apiVersion", "name", "cachesize", "endpoint", "timeout"])?;
    let text = |name: &str| string(value.get(name), &format!("{path}.{name}"));
    let set = |name: &str| value.get(name).filter(|value| !value.is_null());
    let timeout = match set("timeout") {
        None => Timeout::DEFAULT,
        Some(_) => Timeout::parse(&text("timeout")?).map_err(|why| format!("{path}.timeout: {why}"))?,
    };
    let cache_size = set("cachesize").map(|size| {
        let size = size.as_i64().and_then(|size| i32::try_from(size).ok());
        size.ok_or_else(|| format!("{path}.cachesize must be an integer of 32 bits"))
    });
    let api_version = text("apiVersion")?;
    Ok(KmsConfiguration {
        api_version: if api_version.is_empty() { "v1".to_owned() } else { api_version },
        name: text("name")?,
        endpoint: text("endpoint")?,
        timeout,
        cache_size: cache_size.transpose()?,
    })
}

fn keys(value: &Value, path: &str) -> Result<Vec<KeyConfiguration>, String> {
    let value = object(value, path)?;
    known(value, path, &["keys"])?;
    let mut keys = Vec::new();
    for (nth, key) in list(value.get("keys"), &format!("{path}.keys"))?.iter().enumerate() {
        let path = format!("{path}.keys[{nth}]");
        let key = object(key, &path)?;
        known(key, &path, &["name", "secret"])?;
        keys.push(KeyConfiguration {
            name: string(key.get("name"), &format!("{path}.name"))?,
            secret: KeySecret::parse(&string(key.get("secret"), &format!("{path}.secret"))?),
        });
    }
    Ok(keys)
}

fn object<'v>(value: &'v Value, path: &str) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{path} must be an object"))
}

fn list<'v>(value: Option<&'v Value>, path: &str) -> Result<&'v [Value], String> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{path} must be a list")),
    }
}

fn string(value: Option<&Value>, path: &str) -> Result<String, String> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{path} must be a string")),
    }
}

/// Rejects unknown fields, as upstream does.
fn known(value: &Map<String, Value>, path: &str, names: &[&str]) -> Result<(), String> {
    match value.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if path.is_empty() => Err(format!("strict decoding error: unknown field {name:?}")),
        Some(name) => Err(format!("strict decoding error: unknown field \"{path}.{name}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
    const MARKER: &str = "bWFya2VyLW9mLWEtc2VjcmV0";

    fn refusal(text: &str) -> String {
        parse(text.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn secret_may_contain_line_breaks() {
        for (text, want) in [
            ("bWFy\na2Vy\r\n", Some("marker")),
            ("bWFya2Vy", Some("marker")),
            ("\n", Some("")),
            ("", None),
            ("bWFya2Vy ", None),
            ("bWFya2V", None),
        ] {
            let found = match KeySecret::parse(text) {
                KeySecret::Bytes(key) => Some(key),
                KeySecret::Missing | KeySecret::Malformed => None,
            };
            assert_eq!(found.as_deref(), want.map(str::as_bytes), "{text:?}");
        }
        let block = "resources:\n- resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - name: a\n        secret: |\n          bWFya2Vy\n";
        let parsed = parse(format!("{HEAD}{block}").as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        let keys = parsed.resources[0].providers[0].aescbc.as_ref().map(|keys| &keys[0].secret);
        assert!(matches!(keys, Some(KeySecret::Bytes(key)) if key == b"marker"));
    }

    #[test]
    fn kms_provider_has_upstreams_defaults() {
        let parsed = |fields: &str| {
            let text =
                format!("{HEAD}resources: [{{resources: [secrets], providers: [{{kms: {{{fields}}}}}]}}]");
            let parsed = parse(text.as_bytes()).unwrap_or_else(|why| panic!("{fields}: {why}"));
            parsed.resources[0].providers[0].kms.clone().unwrap_or_else(|| panic!("{fields}"))
        };
        let found = parsed("");
        assert_eq!((found.api_version.as_str(), found.timeout.shown().as_str()), ("v1", "3s"));
        assert_eq!((found.name.as_str(), found.endpoint.as_str(), found.cache_size), ("", "", None));
        let found = parsed("apiVersion: v2, name: a, endpoint: unix:///a, cachesize: -1, timeout: 1m30s");
        assert_eq!((found.api_version.as_str(), found.name.as_str()), ("v2", "a"));
        assert_eq!((found.endpoint.as_str(), found.cache_size), ("unix:///a", Some(-1)));
        for (text, duration, shown) in [
            ("1m30s", Duration::from_secs(90), "1m30s"),
            ("'0'", Duration::ZERO, "0s"),
            ("'-1m'", Duration::ZERO, "-1m0s"),
            ("null", Duration::from_secs(3), "3s"),
        ] {
            let found = parsed(&format!("timeout: {text}")).timeout;
            assert_eq!((found.duration, found.shown().as_str()), (duration, shown), "{text}");
        }
    }

    #[test]
    fn documents_of_another_form_are_refused_without_their_values() {
        let provider =
            |provider: &str| format!("{HEAD}resources: [{{resources: [secrets], providers: [{provider}]}}]");
        for (text, want) in [
            (String::new(), "the file is empty"),
            (format!("{HEAD}resources: [{MARKER}"), "the file is not valid YAML"),
            (format!("- {MARKER}"), "the document must be an object"),
            (MARKER.to_owned(), "the document must be an object"),
            ("kind: EncryptionConfiguration".to_owned(), "apiVersion must be apiserver.config.k8s.io/v1"),
            (HEAD.replace("Encryption", "Other"), "kind must be EncryptionConfiguration"),
            (format!("{HEAD}kind: EncryptionConfiguration"), "the file is not valid YAML: line 3"),
            (format!("{HEAD}resources: {MARKER}"), "resources must be a list"),
            (format!("{HEAD}resource: {MARKER}"), "strict decoding error: unknown field \"resource\""),
            (provider(MARKER), "resources[0].providers[0] must be an object"),
            (
                provider(&format!("{{aescbc: {{key: {MARKER}}}}}")),
                "strict decoding error: unknown field \"resources[0].providers[0].aescbc.key\"",
            ),
            (
                provider(&format!("{{aescbc: {{keys: [{{name: 1, secret: {MARKER}}}]}}}}")),
                "resources[0].providers[0].aescbc.keys[0].name must be a string",
            ),
            (provider("{identity: []}"), "resources[0].providers[0].identity must be an object"),
            (provider("{kms: []}"), "resources[0].providers[0].kms must be an object"),
            (
                provider("{kms: {cacheSize: 1}}"),
                "strict decoding error: unknown field \"resources[0].providers[0].kms.cacheSize\"",
            ),
            (
                provider("{kms: {timeout: soon}}"),
                "resources[0].providers[0].kms.timeout: time: invalid duration \"soon\"",
            ),
            (provider("{kms: {timeout: 3}}"), "resources[0].providers[0].kms.timeout must be a string"),
            (
                provider("{kms: {cachesize: many}}"),
                "resources[0].providers[0].kms.cachesize must be an integer of 32 bits",
            ),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.starts_with(want) && !refusal.contains(MARKER), "{text}: {refusal}");
        }
    }
}
