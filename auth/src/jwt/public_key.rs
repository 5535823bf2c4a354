//! Public keys that verify tokens: ECDSA on P-256 and P-384, and RSA from 2048 to 8192 bits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::algorithm::Algorithm;
use crate::der::{self, Reader};

/// Object identifiers of RFC 5480 and RFC 8017, without tag and length.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// Sizes of RSA keys in bytes.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Maximum size of the exponent in bytes; larger ones make the verification expensive.
const EXPONENT_BYTES: usize = 4;

/// A key that cannot verify tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// The encoding is damaged.
    #[error("the key is damaged")]
    Malformed,
    /// Another kind of key.
    #[error("the key is not supported: use ECDSA on P-256 or P-384, or RSA with 2048 to 8192 bits")]
    Unsupported,
}

/// A curve for ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
}

impl Curve {
    pub(crate) fn oid(self) -> &'static [u8] {
        match self {
            Curve::P256 => P256,
            Curve::P384 => P384,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
        }
    }

    /// Bytes of a coordinate.
    fn coordinate(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
        }
    }

    fn of_oid(oid: &[u8]) -> Option<Self> {
        [Curve::P256, Curve::P384].into_iter().find(|curve| curve.oid() == oid)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    /// An uncompressed point.
    Ec(Curve, Vec<u8>),
    /// Big-endian numbers without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    material: Material,
}

impl PublicKey {
    /// A point on a curve, uncompressed. Its id is the digest of the key, as upstream's.
    pub(crate) fn from_point(curve: Curve, point: &[u8]) -> Result<Self, PublicKeyError> {
        if point.first() != Some(&4) || point.len() != 1 + 2 * curve.coordinate() {
            return Err(PublicKeyError::Malformed);
        }
        Ok(Self::with_digest(Material::Ec(curve, point.to_vec())))
    }

    /// An RSA key in PKCS #1.
    pub(crate) fn from_pkcs1(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        let sequence = Reader(bytes).expect(der::SEQUENCE).ok_or(PublicKeyError::Malformed)?;
        let mut numbers = Reader(sequence);
        let modulus = numbers.positive_integer().ok_or(PublicKeyError::Malformed)?;
        let exponent = numbers.positive_integer().ok_or(PublicKeyError::Malformed)?;
        Ok(Self::with_digest(rsa(modulus, exponent)?))
    }

    /// A key as certificates contain it (SubjectPublicKeyInfo, RFC 5280).
    ///
    /// # Errors
    /// The key is damaged, or of another kind.
    pub fn from_spki(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        let malformed = PublicKeyError::Malformed;
        let mut fields = Reader(Reader(bytes).expect(der::SEQUENCE).ok_or(malformed)?);
        let mut algorithm = Reader(fields.expect(der::SEQUENCE).ok_or(malformed)?);
        let key = fields.whole_bit_string().ok_or(malformed)?;
        match algorithm.expect(der::OBJECT_IDENTIFIER).ok_or(malformed)? {
            EC_PUBLIC_KEY => {
                let curve = algorithm.expect(der::OBJECT_IDENTIFIER).and_then(Curve::of_oid);
                Self::from_point(curve.ok_or(PublicKeyError::Unsupported)?, key)
            }
            RSA_ENCRYPTION => Self::from_pkcs1(key),
            _ => Err(PublicKeyError::Unsupported),
        }
    }

    /// The key as certificates contain it (SubjectPublicKeyInfo, RFC 5280).
    pub fn spki(&self) -> Vec<u8> {
        spki(&self.material)
    }

    /// A JSON Web Key (RFC 7517). Its id is that of the document, and may be empty.
    ///
    /// # Errors
    /// The key is damaged, of another kind, or not for signatures.
    pub fn from_jwk(key: &Value) -> Result<Self, PublicKeyError> {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)).map_err(|_| PublicKeyError::Malformed);
        if !matches!(text("use"), "" | "sig") {
            return Err(PublicKeyError::Unsupported);
        }
        let material = match (text("kty"), text("crv")) {
            ("EC", "P-256") => point(Curve::P256, &number("x")?, &number("y")?)?,
            ("EC", "P-384") => point(Curve::P384, &number("x")?, &number("y")?)?,
            ("RSA", _) => rsa(&number("n")?, &number("e")?)?,
            _ => return Err(PublicKeyError::Unsupported),
        };
        Ok(PublicKey { id: text("kid").to_owned(), material })
    }

    fn with_digest(material: Material) -> Self {
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(spki(&material)));
        PublicKey { id, material }
    }

    /// The id of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm of service account tokens that this key verifies.
    pub fn account_algorithm(&self) -> Algorithm {
        match &self.material {
            Material::Ec(Curve::P256, _) => Algorithm::Es256,
            Material::Ec(Curve::P384, _) => Algorithm::Es384,
            Material::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// Whether the key has signed a message with this algorithm.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let rsa_parameters = match (algorithm, &self.material) {
            (Algorithm::Es256, Material::Ec(Curve::P256, point)) => {
                return UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
                    .is_ok();
            }
            (Algorithm::Es384, Material::Ec(Curve::P384, point)) => {
                return UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
                    .is_ok();
            }
            (Algorithm::Es256 | Algorithm::Es384, Material::Ec(..) | Material::Rsa { .. }) => return false,
            (Algorithm::Rs256, _) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Algorithm::Rs384, _) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Algorithm::Rs512, _) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Algorithm::Ps256, _) => &signature::RSA_PSS_2048_8192_SHA256,
            (Algorithm::Ps384, _) => &signature::RSA_PSS_2048_8192_SHA384,
            (Algorithm::Ps512, _) => &signature::RSA_PSS_2048_8192_SHA512,
        };
        match &self.material {
            Material::Ec(..) => false,
            Material::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(rsa_parameters, message, signature)
                .is_ok(),
        }
    }

    /// The key as a JSON Web Key (RFC 7517), for service account tokens.
    pub fn jwk(&self) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let algorithm = self.account_algorithm().name();
        match &self.material {
            Material::Ec(curve, point) => {
                let (x, y) = point[1..].split_at(curve.coordinate());
                json!({
                    "use": "sig", "kty": "EC", "kid": self.id, "crv": curve.name(), "alg": algorithm,
                    "x": encoded(x), "y": encoded(y),
                })
            }
            Material::Rsa { modulus, exponent } => json!({
                "use": "sig", "kty": "RSA", "kid": self.id, "alg": algorithm,
                "n": encoded(modulus), "e": encoded(exponent),
            }),
        }
    }
}

fn point(curve: Curve, x: &[u8], y: &[u8]) -> Result<Material, PublicKeyError> {
    if x.len() != curve.coordinate() || y.len() != curve.coordinate() {
        return Err(PublicKeyError::Malformed);
    }
    Ok(Material::Ec(curve, [&[4], x, y].concat()))
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Material, PublicKeyError> {
    let (modulus, exponent) = (der::without_leading_zeros(modulus), der::without_leading_zeros(exponent));
    if exponent.is_empty() || modulus.is_empty() {
        return Err(PublicKeyError::Malformed);
    }
    if !RSA_BYTES.contains(&modulus.len()) || exponent.len() > EXPONENT_BYTES {
        return Err(PublicKeyError::Unsupported);
    }
    Ok(Material::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() })
}

fn spki(material: &Material) -> Vec<u8> {
    let oid = |bytes| der::encode(der::OBJECT_IDENTIFIER, &[bytes]);
    let (algorithm, key) = match material {
        Material::Ec(curve, point) => {
            (der::encode(der::SEQUENCE, &[&oid(EC_PUBLIC_KEY), &oid(curve.oid())]), point.clone())
        }
        Material::Rsa { modulus, exponent } => {
            let numbers = [der::encode_integer(modulus), der::encode_integer(exponent)];
            let key = der::encode(der::SEQUENCE, &[&numbers[0], &numbers[1]]);
            (der::encode(der::SEQUENCE, &[&oid(RSA_ENCRYPTION), &[der::NULL, 0]]), key)
        }
    };
    der::encode(der::SEQUENCE, &[&algorithm, &der::encode(der::BIT_STRING, &[&[0], &key])])
}

/// PKCS #8 around a key of a curve in its own form (`EC PRIVATE KEY`, RFC 5915).
pub(crate) fn pkcs8_of_sec1(curve: Curve, sec1: &[u8]) -> Vec<u8> {
    let oid = |bytes| der::encode(der::OBJECT_IDENTIFIER, &[bytes]);
    let algorithm = der::encode(der::SEQUENCE, &[&oid(EC_PUBLIC_KEY), &oid(curve.oid())]);
    let version = der::encode(der::INTEGER, &[&[0]]);
    der::encode(der::SEQUENCE, &[&version, &algorithm, &der::encode(der::OCTET_STRING, &[sec1])])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large() -> Vec<u8> {
        let mut modulus = vec![0xff; 256];
        modulus[0] = 0x80;
        modulus
    }

    #[test]
    fn keys_survive_both_encodings() {
        let point = [&[4][..], &[1; 96]].concat();
        let keys = [
            PublicKey::from_point(Curve::P256, &point[..65]),
            PublicKey::from_point(Curve::P384, &point),
            Ok(PublicKey::with_digest(rsa(&large(), &[1, 0, 1]).expect("a key"))),
        ];
        for key in keys {
            let key = key.expect("a key");
            assert_eq!(PublicKey::from_jwk(&key.jwk()), Ok(key.clone()));
            let bytes = key.spki();
            assert_eq!(PublicKey::from_spki(&bytes), Ok(key));
            for length in 0..bytes.len() {
                assert!(PublicKey::from_spki(&bytes[..length]).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn unusable_keys_are_rejected() {
        let n = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![0x80; bytes]);
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        for (case, key, want) in [
            ("1 nothing", json!({}), PublicKeyError::Unsupported),
            ("2 symmetric", json!({"kty": "oct", "k": "AQ"}), PublicKeyError::Unsupported),
            ("3 short", json!({"kty": "RSA", "n": n(255), "e": "AQAB"}), PublicKeyError::Unsupported),
            ("4 long", json!({"kty": "RSA", "n": n(1025), "e": "AQAB"}), PublicKeyError::Unsupported),
            ("5 exponent", json!({"kty": "RSA", "n": n(256), "e": n(5)}), PublicKeyError::Unsupported),
            ("6 no exponent", json!({"kty": "RSA", "n": n(256)}), PublicKeyError::Malformed),
            ("7 half", json!({"kty": "EC", "crv": "P-256", "x": x}), PublicKeyError::Malformed),
            ("8 curve", json!({"kty": "EC", "crv": "P-521", "x": x, "y": x}), PublicKeyError::Unsupported),
            ("9 encryption", json!({"kty": "EC", "use": "enc"}), PublicKeyError::Unsupported),
            ("10 a number", json!({"kty": 1}), PublicKeyError::Unsupported),
        ] {
            assert_eq!(PublicKey::from_jwk(&key), Err(want), "{case}");
        }
    }

    #[test]
    fn algorithm_of_another_key_verifies_nothing() {
        let key = PublicKey::from_point(Curve::P256, &[&[4][..], &[1; 64]].concat()).expect("a key");
        for algorithm in Algorithm::ALL {
            assert!(!key.verify(algorithm, b"message", &[0; 64]), "{algorithm}");
        }
    }
}
