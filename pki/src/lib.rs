//! Certificates: reads and creates certificate requests, signs them, and compares public keys. Pure, except for random numbers and
//! [`private_file`].
//!
//! * [`pem`]: blocks of PEM. [`private_key`]: keys that sign.
//! * [`request`]: certificate requests (PKCS #10), read, verified and created.
//! * [`usage`]: the usages of certificates by their names in the API. [`signer`]: the signers of Kubernetes, and the
//!   requests that they accept.
//! * [`authority`]: a certificate authority that signs for the server, for users and for requests.
//! * [`kubeconfig`]: the text of a kubeconfig with a certificate. [`jws`]: signatures with bootstrap tokens.
//! * [`certificate`]: the dates of a certificate, and the digest of its public key.
//! * [`trust_anchor`]: the limits of an authority that verifies clients.
//! * [`private_file`]: replaces a file that contains a key.

pub mod authority;
pub mod certificate;
pub mod jws;
pub mod kubeconfig;
pub mod pem;
pub mod private_file;
pub mod private_key;
pub mod request;
pub mod signer;
pub mod trust_anchor;
pub mod usage;

mod public_key;
mod subject;
