//! Private keys that sign: RSA, ECDSA on P-256 and P-384, and Ed25519, in PKCS #8, PKCS #1 or SEC 1.

use std::fmt;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign;
use signature::{Keypair, Signer};
use x509_cert::der::asn1::{Any, BitString, Null, ObjectIdentifier};
use x509_cert::der::{self, Decode as _, Document, Encode as _};
use x509_cert::spki::{
    self, AlgorithmIdentifierOwned, DynSignatureAlgorithmIdentifier, EncodePublicKey,
    SignatureBitStringEncoding, SubjectPublicKeyInfoOwned,
};

use crate::pem;

pub(crate) const RSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
pub(crate) const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
pub(crate) const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

const PKCS8_LABEL: &str = "PRIVATE KEY";
const PKCS1_LABEL: &str = "RSA PRIVATE KEY";
const SEC1_LABEL: &str = "EC PRIVATE KEY";

/// The schemes with which keys sign, the first that suits a key.
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::ED25519,
];

/// Why a key cannot be used. The text does not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text contains no key that can sign.
    #[error("there is no private key of type RSA, ECDSA or Ed25519 in PEM")]
    Unusable,
    /// The system's random numbers are not available.
    #[error("no key can be generated: the system has no random numbers")]
    Random,
    /// The key cannot sign the message.
    #[error("the key cannot sign")]
    Sign,
}

/// A private key.
pub struct PrivateKey {
    key: Arc<dyn sign::SigningKey>,
    scheme: SignatureScheme,
    public: SubjectPublicKeyInfoOwned,
}

impl fmt::Debug for PrivateKey {
    /// Without the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PrivateKey").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl PrivateKey {
    /// A new ECDSA key on the curve P-256, and its PEM (PKCS #8).
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<(Self, String), KeyError> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
            .map_err(|_| KeyError::Random)?;
        let text = pem::encode(PKCS8_LABEL, pkcs8.as_ref());
        Ok((Self::from_pem(&text)?, text))
    }

    /// The first private key of a text in PEM.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = pem::blocks(text.as_bytes()).find_map(|block| match block.label.as_str() {
            PKCS8_LABEL => Some(PrivateKeyDer::Pkcs8(block.bytes.into())),
            PKCS1_LABEL => Some(PrivateKeyDer::Pkcs1(block.bytes.into())),
            SEC1_LABEL => Some(PrivateKeyDer::Sec1(block.bytes.into())),
            _ => None,
        });
        let key = any_supported_type(&der.ok_or(KeyError::Unusable)?).map_err(|_| KeyError::Unusable)?;
        let suits = |scheme: &SignatureScheme| key.choose_scheme(&[*scheme]).is_some();
        let scheme = SCHEMES.into_iter().find(suits).ok_or(KeyError::Unusable)?;
        let public = key.public_key().ok_or(KeyError::Unusable)?;
        let public = SubjectPublicKeyInfoOwned::from_der(&public).map_err(|_| KeyError::Unusable)?;
        Ok(PrivateKey { key, scheme, public })
    }

    /// The public key, as certificates contain it.
    pub(crate) fn public(&self) -> &SubjectPublicKeyInfoOwned {
        &self.public
    }

    /// Signs a message.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn sign_bytes(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signer = self.key.choose_scheme(&[self.scheme]).ok_or(KeyError::Sign)?;
        signer.sign(message).map_err(|_| KeyError::Sign)
    }

    /// The algorithm of the signatures.
    pub(crate) fn algorithm(&self) -> AlgorithmIdentifierOwned {
        let without = |oid| AlgorithmIdentifierOwned { oid, parameters: None };
        match self.scheme {
            SignatureScheme::ECDSA_NISTP384_SHA384 => without(ECDSA_WITH_SHA384),
            SignatureScheme::RSA_PKCS1_SHA256 => {
                AlgorithmIdentifierOwned { oid: RSA_WITH_SHA256, parameters: Some(Any::from(Null)) }
            }
            SignatureScheme::ED25519 => without(ED25519),
            // The rest of `SCHEMES`.
            _ => without(ECDSA_WITH_SHA256),
        }
    }
}

/// A signature, as certificates contain it.
pub(crate) struct Signature(Vec<u8>);

impl SignatureBitStringEncoding for Signature {
    fn to_bitstring(&self) -> der::Result<BitString> {
        BitString::from_bytes(&self.0)
    }
}

impl Signer<Signature> for PrivateKey {
    fn try_sign(&self, message: &[u8]) -> Result<Signature, signature::Error> {
        self.sign_bytes(message).map(Signature).map_err(|_| signature::Error::new())
    }
}

impl DynSignatureAlgorithmIdentifier for PrivateKey {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        Ok(self.algorithm())
    }
}

/// The public half of a [`PrivateKey`].
#[derive(Clone)]
pub struct VerifyingKey(SubjectPublicKeyInfoOwned);

impl EncodePublicKey for VerifyingKey {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        Ok(Document::try_from(self.0.to_der()?)?)
    }
}

impl Keypair for PrivateKey {
    type VerifyingKey = VerifyingKey;

    fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.public.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn generated_key_is_read_again_and_not_shown() {
        let (key, text) = PrivateKey::generate().unwrap();
        let again = PrivateKey::from_pem(&format!("notes\n{text}")).unwrap();
        assert_eq!(key.public(), again.public());
        assert!(!format!("{key:?}").contains(text.lines().nth(1).unwrap()));
    }

    #[test]
    fn text_without_a_usable_key_is_refused() {
        for text in ["", "x", &pem::encode("PRIVATE KEY", b"abc"), &pem::encode("CERTIFICATE", b"abc")] {
            assert_eq!(PrivateKey::from_pem(text).err(), Some(KeyError::Unusable), "{text:?}");
        }
    }
}
