//! The digest of a public key, and times of certificates.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use x509_cert::der::{self, Encode as _};
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use x509_cert::time::Time;

/// The digest of a key in the form of a certificate (`SubjectPublicKeyInfo`): `sha256:` and 64 hexadecimal digits.
pub(crate) fn digest_of(public: &SubjectPublicKeyInfoOwned) -> Result<String, der::Error> {
    let digest = Sha256::digest(&public.to_der()?);
    Ok(digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}")))
}

/// A time of a certificate.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    i64::try_from(time.to_unix_duration().as_secs())
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX)
}
