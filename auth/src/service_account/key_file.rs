//! Keys of service account tokens in PEM files.
//!
//! Upstream: client-go `util/keyutil/key.go`.

use super::key::SigningKey;
use crate::certificate;
use crate::jwt::public_key::{Curve, PublicKey, PublicKeyError, pkcs8_of_sec1};
use crate::pem::{self, Block};

/// Maximum number of keys in a file: each verifies the tokens that name no key.
const MAX_KEYS: usize = 100;

/// Why a file contains no usable key. Never quotes the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// A block is damaged.
    #[error("a PEM block is damaged")]
    Damaged,
    /// There is no block with a key.
    #[error("it contains no key: expected a PEM block such as PRIVATE KEY or PUBLIC KEY")]
    Empty,
    /// There is no block with a private key.
    #[error("it contains no private key: expected a PEM block such as PRIVATE KEY")]
    NoPrivate,
    /// The private key cannot sign.
    #[error("the private key cannot be used: use ECDSA on P-256 or P-384, or RSA with 2048 to 8192 bits")]
    Private,
    /// The public key cannot verify.
    #[error("{0}")]
    Public(#[from] PublicKeyError),
    /// Too many keys.
    #[error("it contains more than {MAX_KEYS} keys")]
    TooMany,
}

/// The first private key of a file.
///
/// # Errors
/// There is none, or it cannot be used.
pub fn signing_key(text: &str) -> Result<SigningKey, KeyFileError> {
    for block in pem::blocks(text).ok_or(KeyFileError::Damaged)? {
        if let Some(key) = private(&block) {
            return key;
        }
    }
    Err(KeyFileError::NoPrivate)
}

/// All keys of a file: public keys, certificates, and the public halves of private keys.
///
/// # Errors
/// There is none, or one of them cannot be used.
pub fn public_keys(text: &str) -> Result<Vec<PublicKey>, KeyFileError> {
    let mut keys = Vec::new();
    for block in pem::blocks(text).ok_or(KeyFileError::Damaged)? {
        let key = match block.label {
            "PUBLIC KEY" => PublicKey::from_spki(&block.bytes)?,
            "RSA PUBLIC KEY" => PublicKey::from_pkcs1(&block.bytes)?,
            "CERTIFICATE" => {
                let key = certificate::public_key(&block.bytes).ok_or(PublicKeyError::Malformed)?;
                PublicKey::from_spki(key)?
            }
            _ => match private(&block) {
                Some(key) => key?.public().clone(),
                // EC PARAMETERS and other comments.
                None => continue,
            },
        };
        if keys.len() == MAX_KEYS {
            return Err(KeyFileError::TooMany);
        }
        keys.push(key);
    }
    if keys.is_empty() { Err(KeyFileError::Empty) } else { Ok(keys) }
}

/// The private key of a block; none for other blocks.
fn private(block: &Block<'_>) -> Option<Result<SigningKey, KeyFileError>> {
    let bytes = &block.bytes;
    let key = match block.label {
        "PRIVATE KEY" => SigningKey::from_pkcs8(bytes),
        "RSA PRIVATE KEY" => SigningKey::from_pkcs1(bytes),
        "EC PRIVATE KEY" => [Curve::P256, Curve::P384]
            .into_iter()
            .find_map(|curve| SigningKey::from_pkcs8(&pkcs8_of_sec1(curve, bytes))),
        _ => return None,
    };
    Some(key.ok_or(KeyFileError::Private))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use sha2::{Digest as _, Sha256};

    use super::super::key::generate;
    use super::*;
    use crate::jwt::algorithm::Algorithm;

    #[test]
    fn keys_are_read() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        let text = pem::encode("PRIVATE KEY", &one) + &pem::encode("PRIVATE KEY", &other);
        let key = signing_key(&text).unwrap();
        assert_eq!(key.public(), SigningKey::from_pkcs8(&one).unwrap().public());
        let ids: Vec<_> = public_keys(&text).unwrap().iter().map(|key| key.id().to_owned()).collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids[0], key.public().id());
    }

    const RSA: &str = include_str!("../../test_keys/rsa.pem");
    const P384: &str = include_str!("../../test_keys/p384.pem");

    #[test]
    fn keys_of_openssl_sign_and_verify() {
        for (private, public) in [
            (RSA, include_str!("../../test_keys/rsa.pub.pem")),
            (P384, include_str!("../../test_keys/p384.pub.pem")),
        ] {
            let key = signing_key(private).unwrap();
            let verifying = public_keys(public).unwrap();
            assert_eq!(verifying, public_keys(private).unwrap());
            assert_eq!(verifying, [key.public().clone()]);
            // The id is the digest of the key as OpenSSL encodes it.
            let bytes = &pem::blocks(public).unwrap()[0].bytes;
            assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), key.public().id());
            let algorithm = key.public().account_algorithm();
            let signature = key.sign(b"message").unwrap();
            assert!(verifying[0].verify(algorithm, b"message", &signature));
            assert!(!verifying[0].verify(algorithm, b"massage", &signature));
        }
    }

    #[test]
    fn rsa_keys_verify_every_padding_and_digest() {
        use ring::signature as rs;

        let pair = rs::RsaKeyPair::from_der(&pem::blocks(RSA).unwrap()[0].bytes).unwrap();
        let public = &public_keys(RSA).unwrap()[0];
        let paddings: [(Algorithm, &'static dyn rs::RsaEncoding); 6] = [
            (Algorithm::Rs256, &rs::RSA_PKCS1_SHA256),
            (Algorithm::Rs384, &rs::RSA_PKCS1_SHA384),
            (Algorithm::Rs512, &rs::RSA_PKCS1_SHA512),
            (Algorithm::Ps256, &rs::RSA_PSS_SHA256),
            (Algorithm::Ps384, &rs::RSA_PSS_SHA384),
            (Algorithm::Ps512, &rs::RSA_PSS_SHA512),
        ];
        for (algorithm, padding) in paddings {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(padding, &ring::rand::SystemRandom::new(), b"message", &mut signature).unwrap();
            for other in Algorithm::ALL {
                let is_valid = public.verify(other, b"message", &signature);
                assert_eq!(is_valid, other == algorithm, "{algorithm} as {other}");
            }
        }
    }

    #[test]
    fn unusable_files_are_described_without_their_content() {
        let key = generate().unwrap();
        let many = pem::encode("PRIVATE KEY", &key).repeat(MAX_KEYS + 1);
        for (case, text, want) in [
            ("1 empty", String::new(), KeyFileError::Empty),
            ("2 other blocks", pem::encode("EC PARAMETERS", &[1]), KeyFileError::Empty),
            ("3 cut", pem::encode("PRIVATE KEY", &key[..key.len() / 2]), KeyFileError::Private),
            ("4 no end", pem::encode("PRIVATE KEY", &key).replace("END", "DNE"), KeyFileError::Damaged),
            ("5 another curve", pem::encode("EC PRIVATE KEY", &[0x30, 0]), KeyFileError::Private),
            ("6 a short RSA key", pem::encode("RSA PRIVATE KEY", &[0x30, 0]), KeyFileError::Private),
            ("7 a public key", pem::encode("PUBLIC KEY", &[1]), PublicKeyError::Malformed.into()),
            ("8 a certificate", pem::encode("CERTIFICATE", &[1]), PublicKeyError::Malformed.into()),
            ("9 too many", many, KeyFileError::TooMany),
        ] {
            assert_eq!(public_keys(&text).unwrap_err(), want, "{case}");
        }
        for text in ["", include_str!("../../test_keys/rsa.pub.pem")] {
            assert_eq!(signing_key(text).unwrap_err(), KeyFileError::NoPrivate);
        }
    }
}
