//! Plain HTTP on this machine: a client sends nothing to a server of another user.
//!
//! Every user of a machine can listen on a free port, for example while the API server restarts. TLS proves the identity of a server;
//! without TLS, the kernel reports the user of its process.

use std::net::SocketAddr;
use std::sync::Once;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::BoxError;

use crate::peer_user::{ServerUser, server_user};

const ROOT: u32 = 0;

/// Why the client does not use a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum LocalServerError {
    /// Another user could answer in place of the API server.
    #[error(
        "the server at {address} belongs to user {user}, not to root or to your own user; use https or a kubeconfig (the server writes \
         one if you start it with --tls-san localhost)"
    )]
    OtherUser { address: SocketAddr, user: u32 },
    /// The user has no ID in the user namespace of this process.
    #[error(
        "the user of the server at {address} has no ID in the user namespace of this process; use https or a kubeconfig (the server \
         writes one if you start it with --tls-san localhost)"
    )]
    Unmapped { address: SocketAddr },
    #[error("the server at {address} closed the connection")]
    Closed { address: SocketAddr },
    /// The kernel knows only the sockets of this network namespace.
    #[error(
        "the user of the server at {address} cannot be determined, because the port is forwarded (NAT); use the address to which it is \
         forwarded, https, or a kubeconfig (the server writes one if you start it with --tls-san localhost)"
    )]
    Forwarded { address: SocketAddr },
}

/// Returns the connection unless its server belongs to another user of this machine.
pub(super) fn check(connection: TokioIo<TcpStream>) -> Result<TokioIo<TcpStream>, BoxError> {
    let stream = connection.inner();
    let address = stream.peer_addr()?;
    match server_user(address, stream.local_addr()?) {
        Ok(None) => {}
        Ok(Some(user)) => judge(user, rustix::process::geteuid().as_raw(), address)?,
        // The server has reset the connection, so its socket no longer exists.
        Err(_) if stream.peer_addr().is_err() => return Err(LocalServerError::Closed { address }.into()),
        Err(error) => warn_once(&error),
    }
    Ok(connection)
}

/// Whether a process of the user `own` may send requests to the server. Pure.
fn judge(user: ServerUser, own: u32, address: SocketAddr) -> Result<(), LocalServerError> {
    let is_other = |user: &u32| *user != own && *user != ROOT;
    match user {
        ServerUser::Known { connection, listener } => match [connection, listener].into_iter().find(is_other)
        {
            None => Ok(()),
            Some(user) => Err(LocalServerError::OtherUser { address, user }),
        },
        ServerUser::Unmapped => Err(LocalServerError::Unmapped { address }),
        ServerUser::Closed => Err(LocalServerError::Closed { address }),
        ServerUser::Forwarded => Err(LocalServerError::Forwarded { address }),
    }
}

fn warn_once(error: &std::io::Error) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "the user of the server cannot be determined, so another user of this machine could answer in its place: {error}; use https, \
             or allow AF_NETLINK (RestrictAddressFamilies= of systemd)"
        );
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read as _;

    use super::*;
    use crate::client::{Endpoint, connect, message_of};

    #[tokio::test]
    async fn server_of_another_user_receives_nothing() {
        if !orlop_test_support::privileges::has_root("a server of another user") {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        std::os::unix::fs::fchown(&listener, Some(65_533), None).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        let plugin = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"hush"}}"#;
        let kubeconfig = serde_json::json!({
            "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": url}}],
            "users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo",
                "args": [plugin], "interactiveMode": "Never"}}}],
        });
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        let token = Some("hush".to_owned());
        for (case, endpoint) in [
            ("1 a token", Endpoint::Url { url, token, ca_file: None, insecure: false }),
            (
                "2 a plugin",
                Endpoint::Kubeconfig { path: Some(file.path().to_owned()), context: None, server: None },
            ),
        ] {
            let client = connect(endpoint).await.unwrap();
            let error = message_of(&client.apiserver_version().await.unwrap_err());
            assert!(
                error.contains("belongs to user 65533, not to root or to your own user"),
                "{case}: {error}"
            );
            assert!(!error.contains("hush"), "{case}: {error}");
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            assert_eq!(received, b"", "{case}");
        }
    }

    #[test]
    fn only_servers_of_root_and_of_the_own_user_are_used() {
        let address = "127.0.0.1:8080".parse().unwrap();
        let other_user = LocalServerError::OtherUser { address, user: 1001 };
        let other = Err(other_user);
        let known = |connection, listener| ServerUser::Known { connection, listener };
        for (case, user, own, want) in [
            ("1 root", known(0, 0), 1000, Ok(())),
            ("2 the own user", known(1000, 1000), 1000, Ok(())),
            ("3 root listens for the own user", known(1000, 0), 1000, Ok(())),
            ("4 another user", known(1001, 1001), 1000, other),
            ("5 another user, for root", known(1001, 1001), 0, other),
            ("6 root listens for another user", known(1001, 0), 1000, other),
            ("7 the kernel accepts for another user", known(0, 1001), 1000, other),
            ("8 no ID", ServerUser::Unmapped, 0, Err(LocalServerError::Unmapped { address })),
            ("9 closed", ServerUser::Closed, 0, Err(LocalServerError::Closed { address })),
            ("10 forwarded", ServerUser::Forwarded, 0, Err(LocalServerError::Forwarded { address })),
        ] {
            assert_eq!(judge(user, own, address), want, "{case}");
        }
        let text = other_user.to_string();
        assert!(text.starts_with("the server at 127.0.0.1:8080 belongs to user 1001, not to root"), "{text}");
    }
}
