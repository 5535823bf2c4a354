//! The keys of service account tokens: one signs, and former ones are accepted until a time. Pure.
//!
//! The text of a key set is JSON. It contains the private half of the signing key only: former keys cannot sign.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::key::{NoRandom, SigningKey, generate};
use crate::jwt::public_key::PublicKey;

/// Maximum number of former keys: verifying a token costs at most one signature for each.
const MAX_FORMER: usize = 8;

/// The keys of a server.
pub struct KeySet {
    signing: SigningKey,
    /// The private half of the signing key.
    pkcs8: Vec<u8>,
    /// Newest first.
    former: Vec<FormerKey>,
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySet").field("signing", self.signing.public()).finish_non_exhaustive()
    }
}

/// A key that no longer signs.
struct FormerKey {
    key: PublicKey,
    /// When its tokens become invalid.
    until: Timestamp,
}

/// The text of a key set.
#[derive(Serialize, Deserialize)]
struct Document {
    signing: SigningDocument,
    #[serde(default)]
    former: Vec<FormerDocument>,
}

#[derive(Serialize, Deserialize)]
struct SigningDocument {
    /// The private key in PKCS #8, in base64.
    pkcs8: String,
}

#[derive(Serialize, Deserialize)]
struct FormerDocument {
    /// The public key as certificates contain it (SubjectPublicKeyInfo), in base64.
    public: String,
    until: Timestamp,
}

impl KeySet {
    /// Generates a key set without former keys.
    ///
    /// # Errors
    /// The system returned no random numbers.
    pub fn generate() -> Result<Self, NoRandom> {
        KeySet::of(&generate()?).ok_or(NoRandom)
    }

    /// A key set of a private key in PKCS #8. `None` if it is no key of this kind.
    pub fn of(pkcs8: &[u8]) -> Option<Self> {
        let signing = SigningKey::from_pkcs8(pkcs8)?;
        Some(KeySet { signing, pkcs8: pkcs8.to_vec(), former: Vec::new() })
    }

    /// Reads the text of a key set. `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let Document { signing, former } = serde_json::from_slice(text).ok()?;
        let mut set = KeySet::of(&STANDARD.decode(signing.pkcs8).ok()?)?;
        for FormerDocument { public, until } in former.into_iter().take(MAX_FORMER) {
            let key = PublicKey::from_spki(&STANDARD.decode(public).ok()?).ok()?;
            set.former.push(FormerKey { key, until });
        }
        Some(set)
    }

    /// The text of the key set.
    pub fn text(&self) -> String {
        let former = |former: &FormerKey| FormerDocument {
            public: STANDARD.encode(former.key.spki()),
            until: former.until,
        };
        let document = Document {
            signing: SigningDocument { pkcs8: STANDARD.encode(&self.pkcs8) },
            former: self.former.iter().map(former).collect(),
        };
        serde_json::to_string(&document).expect("strings and times are always JSON") + "\n"
    }

    /// A key set with a new signing key. Tokens of the previous key stay valid for `keep_old`.
    ///
    /// # Errors
    /// The system returned no random numbers.
    pub fn rotate(&self, now: Timestamp, keep_old: SignedDuration) -> Result<Self, NoRandom> {
        let mut next = KeySet::generate()?;
        if keep_old > SignedDuration::ZERO {
            let until = now.checked_add(keep_old).unwrap_or(Timestamp::MAX);
            next.former.push(FormerKey { key: self.signing.public().clone(), until });
            // Earlier keys are not accepted longer than the key that followed them.
            let earlier = self.former.iter().filter(|former| former.until > now);
            let earlier =
                earlier.map(|former| FormerKey { key: former.key.clone(), until: former.until.min(until) });
            next.former.extend(earlier.take(MAX_FORMER - 1));
        }
        Ok(next)
    }

    /// The key that signs.
    pub fn signing(&self) -> &SigningKey {
        &self.signing
    }

    /// The keys that are accepted at a time; the signing key is the first.
    pub fn accepted(&self, now: Timestamp) -> impl Iterator<Item = &PublicKey> {
        let former = self.former.iter().filter(move |former| former.until > now).map(|former| &former.key);
        std::iter::once(self.signing.public()).chain(former)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn rotation_ends_former_keys_in_time() {
        let first = KeySet::generate().unwrap();
        // Each rotation: its time, and how long the previous key stays valid.
        for (case, rotations, now, accepted, keys) in [
            ("1 not rotated", &[][..], 1000, true, 1),
            ("2 ended immediately", &[(100, 0)], 100, false, 1),
            ("3 still valid", &[(100, 50)], 149, true, 2),
            ("4 no longer valid", &[(100, 50)], 150, false, 1),
            ("5 two former keys are valid", &[(100, 50), (120, 50)], 149, true, 3),
            ("6 the second rotation ends both", &[(100, 50), (120, 0)], 120, false, 1),
            ("7 the second rotation ends both earlier", &[(100, 50), (110, 5)], 115, false, 1),
            ("8 a later rotation extends nothing", &[(100, 50), (120, 500)], 150, false, 2),
        ] {
            let mut set = KeySet::of(&first.pkcs8).unwrap();
            for (when, keep) in rotations {
                set = set.rotate(at(*when), seconds(*keep)).unwrap();
                set = KeySet::parse(set.text().as_bytes()).unwrap();
            }
            let current: Vec<&PublicKey> = set.accepted(at(now)).collect();
            assert_eq!(current.contains(&first.signing().public()), accepted, "{case}");
            assert_eq!(current.len(), keys, "{case}");
        }
    }

    #[test]
    fn number_of_former_keys_is_bounded() {
        let mut set = KeySet::generate().unwrap();
        for _ in 0..20 {
            set = set.rotate(at(0), seconds(1000)).unwrap();
        }
        assert_eq!(set.accepted(at(1)).count(), MAX_FORMER + 1);
    }

    #[test]
    fn private_half_of_a_former_key_is_not_retained() {
        let first = KeySet::generate().unwrap();
        let secret = STANDARD.encode(&first.pkcs8);
        assert!(first.text().contains(&secret));
        let next = first.rotate(at(0), seconds(1000)).unwrap();
        assert!(!next.text().contains(&secret));
        assert!(!format!("{next:?}").contains(&STANDARD.encode(&next.pkcs8)));
    }

    #[test]
    fn damaged_text_is_no_key_set() {
        let text = KeySet::generate().unwrap().text();
        for damaged in ["", "{}", &text[1..], &text.replace("pkcs8\":\"", "pkcs8\":\"AAAA")] {
            assert!(KeySet::parse(damaged.as_bytes()).is_none(), "{}", damaged.len());
        }
    }
}
