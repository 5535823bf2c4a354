//! The providers of a resource: the first one writes, and the prefix of a stored value selects the ones that may read it.
//!
//! Upstream: apiserver `pkg/storage/value/transformer.go`.

use std::sync::Arc;

use bytes::Bytes;
use orlop_store::TransformError;

use crate::errors::{aggregate, aggregate_failures};
use crate::kms::KmsProvider;
use crate::provider::Provider;

/// The start of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// The start of every value that a KMS plugin has encrypted.
pub(crate) const KMS: &str = "k8s:enc:kms:v2:";
/// Upstream's error for a value of a provider that is not configured.
const NO_PREFIX: &str = "no matching prefix found";
/// Upstream's error for an encrypted value of a resource without encryption.
const NOT_PLAIN: &str = "identity transformer tried to read encrypted data";

/// The providers of a resource, in order.
pub(crate) struct Chain(pub(crate) Vec<Link>);

/// A provider.
pub(crate) enum Link {
    /// No encryption.
    Identity,
    /// Keys of an algorithm.
    Keys(Keys),
    /// A KMS plugin.
    Kms(Kms),
}

/// A KMS plugin.
pub(crate) struct Kms {
    prefix: String,
    provider: Arc<KmsProvider>,
}

impl Kms {
    pub(crate) fn new(provider: Arc<KmsProvider>) -> Self {
        Kms { prefix: format!("{KMS}{}:", provider.name()), provider }
    }
}

/// Keys of an algorithm; the first one encrypts.
pub(crate) struct Keys {
    /// The prefix of the algorithm, such as `k8s:enc:aescbc:v1:`.
    pub(crate) prefix: &'static str,
    /// The error for a key name that does not exist.
    pub(crate) no_key: &'static str,
    /// The keys by name.
    pub(crate) keys: Vec<(String, Box<dyn Provider>)>,
}

/// A decrypted value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// `None` if the stored form is the value itself.
    pub(crate) value: Option<Bytes>,
    /// The value is not stored in the form in which it would be written today.
    pub(crate) is_stale: bool,
}

impl Chain {
    /// The providers of a resource without encryption.
    pub(crate) fn identity() -> Self {
        Chain(vec![Link::Identity])
    }

    /// The stored form of a value; `None` if it is the value itself.
    pub(crate) fn write(&self, key: &str, value: &[u8]) -> Result<Option<Bytes>, TransformError> {
        match self.0.first() {
            None | Some(Link::Identity) => Ok(None),
            Some(Link::Keys(Keys { prefix, keys, .. })) => {
                let Some((name, provider)) = keys.first() else { return Err(NO_PREFIX.into()) };
                let encrypted = provider.encrypt(key, value)?;
                Ok(Some([prefix.as_bytes(), name.as_bytes(), b":", &encrypted].concat().into()))
            }
            Some(Link::Kms(Kms { prefix, provider })) => {
                Ok(Some([prefix.as_bytes(), &provider.encrypt(key, value)?].concat().into()))
            }
        }
    }

    /// Whether a stored form is not the one in which its value would be written today. Never calls a KMS plugin.
    pub(crate) fn is_stale(&self, key: &str, stored: &[u8]) -> bool {
        for (nth, link) in self.0.iter().enumerate() {
            if let Link::Kms(Kms { prefix, provider }) = link
                && let Some(object) = stored.strip_prefix(prefix.as_bytes())
            {
                return nth > 0 || provider.is_stale(object).unwrap_or(true);
            }
        }
        self.read(key, stored).map_or(true, |read| read.is_stale)
    }

    /// The value of a stored form.
    pub(crate) fn read(&self, key: &str, stored: &[u8]) -> Result<Read, TransformError> {
        let mut errors = Vec::new();
        for (nth, link) in self.0.iter().enumerate() {
            match link {
                // An encrypted value is left to the providers after this one: encryption is being disabled.
                Link::Identity if stored.starts_with(ENCRYPTED) => {}
                Link::Identity => return Ok(Read { value: None, is_stale: nth > 0 }),
                Link::Keys(keys) => match keys.read(key, stored) {
                    Some(Ok((value, is_first))) => {
                        return Ok(Read { value: Some(value.into()), is_stale: nth > 0 || !is_first });
                    }
                    // A later provider may have the same prefix and the right key.
                    Some(Err(error)) => errors.push(error.into()),
                    None => {}
                },
                Link::Kms(Kms { prefix, provider }) => {
                    let Some(object) = stored.strip_prefix(prefix.as_bytes()) else { continue };
                    match provider.decrypt(key, object) {
                        Ok((value, is_stale)) => {
                            return Ok(Read { value: Some(value.into()), is_stale: is_stale || nth > 0 });
                        }
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        match aggregate_failures(&errors) {
            Some(error) => Err(error),
            None if matches!(self.0[..], [Link::Identity]) => Err(NOT_PLAIN.into()),
            None => Err(NO_PREFIX.into()),
        }
    }
}

impl Keys {
    /// The value, and whether the first key was used; `None` if the stored form has another prefix.
    fn read(&self, key: &str, stored: &[u8]) -> Option<Result<(Vec<u8>, bool), String>> {
        let rest = stored.strip_prefix(self.prefix.as_bytes())?;
        let mut errors = Vec::new();
        for (nth, (name, provider)) in self.keys.iter().enumerate() {
            let Some(encrypted) = rest.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"))
            else {
                continue;
            };
            match provider.decrypt(key, encrypted) {
                Ok(value) => return Some(Ok((value, nth == 0))),
                Err(error) => errors.push(error.to_owned()),
            }
        }
        Some(Err(aggregate(errors).unwrap_or_else(|| self.no_key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::provider::{AesCbc, AesGcmKey, Secretbox};

    const KEY: &str = "/registry/secrets/a/b";

    fn gcm(keys: &[(&str, u8)]) -> Link {
        let keys = keys.iter().map(|(name, byte)| {
            let key = AesGcmKey::new(&[*byte; 32]).unwrap();
            ((*name).to_owned(), Box::new(key) as Box<dyn Provider>)
        });
        Link::Keys(Keys { prefix: "k8s:enc:aesgcm:v1:", no_key: "no key", keys: keys.collect() })
    }

    fn cbc(name: &str) -> Link {
        let keys: Vec<(String, Box<dyn Provider>)> =
            vec![(name.to_owned(), Box::new(AesCbc::new(&[1; 32]).unwrap()))];
        Link::Keys(Keys { prefix: "k8s:enc:aescbc:v1:", no_key: "no key", keys })
    }

    fn secretbox(name: &str) -> Link {
        let keys: Vec<(String, Box<dyn Provider>)> =
            vec![(name.to_owned(), Box::new(Secretbox::new(&[1; 32]).unwrap()))];
        Link::Keys(Keys { prefix: "k8s:enc:secretbox:v1:", no_key: "no key", keys })
    }

    #[test]
    fn first_provider_writes_and_all_read() {
        let writers = [
            ("identity", Chain::identity(), ""),
            ("gcm 1", Chain(vec![gcm(&[("1", 1)])]), "k8s:enc:aesgcm:v1:1:"),
            ("gcm 2", Chain(vec![gcm(&[("2", 2), ("1", 1)])]), "k8s:enc:aesgcm:v1:2:"),
            ("cbc", Chain(vec![cbc("k:1")]), "k8s:enc:aescbc:v1:k:1:"),
            ("secretbox", Chain(vec![secretbox("s")]), "k8s:enc:secretbox:v1:s:"),
        ];
        let reader = Chain(vec![gcm(&[("2", 2), ("1", 1)]), cbc("k:1"), Link::Identity, secretbox("s")]);
        for (name, writer, prefix) in writers {
            let stored = writer.write(KEY, b"{value}").unwrap().unwrap_or_else(|| b"{value}"[..].into());
            assert!(stored.starts_with(prefix.as_bytes()), "{name}");
            let read = reader.read(KEY, &stored).unwrap();
            let value = (name != "identity").then(|| Bytes::from_static(b"{value}"));
            assert_eq!(read, Read { value, is_stale: name != "gcm 2" }, "{name}");
        }
    }

    #[test]
    fn unreadable_values_are_reported_in_upstreams_words() {
        let stored = |link| Chain(vec![link]).write(KEY, b"{value}").unwrap().unwrap();
        let failed = "cipher: message authentication failed";
        for (name, reader, value, want) in [
            ("no provider", Chain(vec![cbc("k")]), stored(gcm(&[("1", 1)])), NO_PREFIX),
            ("not encrypted", Chain(vec![cbc("k")]), Bytes::from_static(b"{}"), NO_PREFIX),
            ("no encryption", Chain::identity(), stored(cbc("k")), NOT_PLAIN),
            ("identity first", Chain(vec![Link::Identity, cbc("k")]), stored(gcm(&[("1", 1)])), NO_PREFIX),
            ("no key", Chain(vec![gcm(&[("2", 2)])]), stored(gcm(&[("1", 1)])), "no key"),
            ("another key of that name", Chain(vec![gcm(&[("1", 2)])]), stored(gcm(&[("1", 1)])), failed),
            (
                "two providers",
                Chain(vec![gcm(&[("1", 2)]), gcm(&[("2", 2)])]),
                stored(gcm(&[("1", 1)])),
                "[cipher: message authentication failed, no key]",
            ),
        ] {
            assert_eq!(reader.read(KEY, &value), Err(want.into()), "{name}");
        }
    }

    #[test]
    fn second_provider_with_the_same_prefix_is_tried() {
        let stored = Chain(vec![gcm(&[("1", 1)])]).write(KEY, b"{value}").unwrap().unwrap();
        let reader = Chain(vec![gcm(&[("1", 2)]), gcm(&[("1", 1)])]);
        assert!(reader.read(KEY, &stored).unwrap().is_stale);
    }
}
