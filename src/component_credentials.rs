//! The credentials of controllers and node agents in a process of their own.
//!
//! Such a process never uses the administrator's kubeconfig by itself, because a component needs only the rights of its role
//! (docs/authorize-users.md). If the server requires credentials and the process has none, it ends: all of its requests would fail.

use orlop_cli::anonymous::{self, AnonymousResponse};
use orlop_client::client::{Endpoint, without_password};

/// The process that connects to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ComponentProcess<'a> {
    /// `orlop controller`.
    Controllers,
    /// `orlop node`, with the name of the node.
    Node(&'a str),
}

/// The server requires credentials, and the process has none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoCredentials {
    #[error(
        "the server at {url} requires credentials, and `orlop controller` has none: set --kubeconfig FILE and \
         --use-service-account-credentials. `orlop kubeconfig create --user system:kube-controller-manager --output FILE` creates the file, if \
         the server is `orlop serve`. Otherwise, no controller signs certificates yet: use the token of a service account with the role \
         system:kube-controller-manager (--token-file FILE)"
    )]
    Controllers { url: String },
    #[error(
        "the server at {url} requires credentials, and `orlop node` has none: run `orlop kubeconfig create --user system:node:{name} \
         --group system:nodes --output FILE` on the machine of the server, and set --kubeconfig FILE; or run the command that `orlop token \
         create --print-join-command` prints"
    )]
    Node { url: String, name: String },
}

/// Checks that a process has credentials if the server requires them. A server that does not respond yet is no error.
pub(crate) async fn required(
    endpoint: &Endpoint,
    process: ComponentProcess<'_>,
) -> Result<(), NoCredentials> {
    let Endpoint::Url { url, token: None, .. } = endpoint else { return Ok(()) };
    if anonymous::ask(endpoint).await != AnonymousResponse::Rejected {
        return Ok(());
    }
    let url = without_password(url).into_owned();
    Err(match process {
        ComponentProcess::Controllers => NoCredentials::Controllers { url },
        ComponentProcess::Node(name) => NoCredentials::Node { url, name: name.to_owned() },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Rejects every request.
    async fn server() -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let response = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(response).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn error_without_credentials_names_the_commands_that_create_them() {
        let url = server().await;
        let endpoint = |url: &str, token: Option<&str>| Endpoint::Url {
            url: url.to_owned(),
            token: token.map(str::to_owned),
            ca_file: None,
            insecure: false,
        };
        for (process, parts) in [
            (ComponentProcess::Controllers, ["--user system:kube-controller-manager", "--kubeconfig FILE"]),
            (ComponentProcess::Node("n1"), ["--user system:node:n1", "--group system:nodes"]),
        ] {
            let error = required(&endpoint(&url, None), process).await.unwrap_err().to_string();
            for part in parts.iter().chain(&[url.as_str()]) {
                assert!(error.contains(part), "{process:?}: {part} is not in: {error}");
            }
            // Its credentials may be invalid; then its log shows the responses of the server.
            required(&endpoint(&url, Some("t")), process).await.unwrap();
            required(&endpoint("http://127.0.0.1:1", None), process).await.unwrap();
        }
    }
}
