//! Joins a cluster: verifies the server by the digest of its authority, and requests a client certificate for the node with a bootstrap
//! token. Later, [`rotation`] renews the certificate.
//!
//! | file below the agent's directory | content |
//! |---|---|
//! | `pki/ca.crt` | the certificate of the server's authority |
//! | `pki/node-client.pem` | the certificate of the node and its key; replaced by each renewal |
//! | `node.kubeconfig` | the address of the server, its authority, and the path of the certificate |
//!
//! The kubeconfig is written last. Without it, the node has not joined, and the next attempt starts from the beginning.
//!
//! Upstream: cmd/kubeadm/app/discovery/token and pkg/kubelet/certificate/bootstrap.

mod authority;
mod error;
mod files;
mod order;
pub mod rotation;

use std::path::PathBuf;

use jiff::Timestamp;
use orlop_client::client::{self, Endpoint};
use orlop_pki::certificate::facts;
use orlop_pki::kubeconfig::{Kubeconfig, KubeconfigUser};

pub use self::error::JoinError;
pub use self::files::JoinFiles;

/// How to join.
#[derive(Clone)]
pub struct JoinOptions {
    /// The URL of the server.
    pub url: String,
    /// The bootstrap token; `None` suffices for a node that has joined.
    pub token: Option<String>,
    /// Digests of public keys of authorities; the server's must be one of them.
    pub ca_hashes: Vec<String>,
    /// The name of the node.
    pub name: String,
    /// The directory of the agent.
    pub root_dir: PathBuf,
}

/// Joins, unless the node has joined before. Returns the node's kubeconfig.
///
/// # Errors
/// The server cannot be reached or verified, or the node gets no certificate.
pub async fn join(options: &JoinOptions, now: Timestamp) -> Result<PathBuf, JoinError> {
    let files = JoinFiles::below(&options.root_dir);
    let user = order::user_of(&options.name);
    if has_joined(&files, &user, now)? {
        tracing::info!(
            "node {} has joined before; its kubeconfig is {}",
            options.name,
            files.kubeconfig.display()
        );
        return Ok(files.kubeconfig);
    }
    let Some(token) = options.token.clone() else { return Err(JoinError::NoToken) };
    let authority = authority::discover(&options.url, &options.ca_hashes).await?;
    files.create_dir()?;
    files.write(&files.authority, &authority)?;
    // From here on, the server is verified; only now does it receive the token.
    let endpoint = Endpoint::Url {
        url: options.url.clone(),
        token: Some(token),
        ca_file: Some(files.authority.clone()),
        insecure: false,
    };
    let client = client::connect(endpoint).await?;
    let identity = order::order(&client, &options.name).await?;
    files.write(&files.identity, &identity)?;
    let user = KubeconfigUser::File { name: &user, path: &files.identity };
    let kubeconfig = Kubeconfig { server: &options.url, authority: Some(&authority), user };
    files.write(&files.kubeconfig, &kubeconfig.to_string())?;
    tracing::info!("node {} has joined {}", options.name, options.url);
    Ok(files.kubeconfig)
}

/// Whether there is a kubeconfig with a certificate that is still valid.
fn has_joined(files: &JoinFiles, user: &str, now: Timestamp) -> Result<bool, JoinError> {
    if !files.kubeconfig.exists() {
        return Ok(false);
    }
    let Some(text) = files.read(&files.identity)? else { return Ok(false) };
    let Some(facts) = facts(text.as_bytes()).filter(|facts| facts.not_after > now) else { return Ok(false) };
    if facts.common_name != user {
        return Err(JoinError::OtherNode {
            dir: files.dir.clone(),
            found: facts.common_name,
            wanted: user.to_owned(),
        });
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
