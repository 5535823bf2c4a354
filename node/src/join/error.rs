//! Why a node cannot join. No text contains a token.

use std::io;
use std::path::PathBuf;

use orlop_client::certificate_request::OrderError;
use orlop_client::client::ConnectError;
use orlop_pki::private_key::KeyError;
use orlop_pki::request::RequestError;

/// Why a node cannot join, or renew its certificate.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The URL is not that of a server with TLS.
    #[error("{0:?} is not the URL of a server with TLS, such as https://10.0.0.1:6443")]
    Url(String),
    /// A digest is malformed.
    #[error(
        "{0:?} is not the digest of an authority: it is sha256: and 64 hexadecimal digits, as `orlop token create \
             --print-join-command` prints it"
    )]
    Hash(String),
    /// There is no token.
    #[error(
        "this machine has not joined yet: set --token or --token-file (`orlop token create` on the server prints a token)"
    )]
    NoToken,
    /// The server does not answer.
    #[error("{url} does not answer: {source}")]
    Unreachable {
        /// The URL.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// No authority of the server has one of the digests.
    #[error(
        "the authority of {url} has none of the digests of --ca-hash: another server answers at this address, or the digest is that \
         of another cluster"
    )]
    OtherAuthority {
        /// The URL.
        url: String,
    },
    /// The directory contains the certificate of another node.
    #[error(
        "{dir} has the certificate of {found}, not of {wanted}: set --name to the name of that node, or remove {kubeconfig} to join as \
         another one", dir = dir.display(), kubeconfig = dir.join("node.kubeconfig").display()
    )]
    OtherNode {
        /// The directory of the agent.
        dir: PathBuf,
        /// The user of the certificate.
        found: String,
        /// The user of this node.
        wanted: String,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The certificate of the node cannot be read.
    #[error("{} contains no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No key can be created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The request cannot be created.
    #[error("the name of the node cannot be in a certificate: {0}")]
    Request(#[from] RequestError),
    /// There is no certificate.
    #[error(transparent)]
    Order(#[from] OrderError),
}
