//! Sockets of drivers: parsing endpoints, connecting to a driver, and listening as one.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use tonic::transport::{Channel, Endpoint};

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The endpoint does not have the form `unix:///path`.
    #[error("endpoint {0:?} is no unix socket: write it as unix:///run/csi/csi.sock")]
    NoUnixSocket(String),
    /// Another process is listening at the path.
    #[error("{} is in use: another driver answers there; stop it or choose another endpoint", .0.display())]
    InUse(PathBuf),
    /// Listening at the path failed.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The path of an endpoint: `unix:///path`, `unix:/path`, or an absolute path.
pub fn path_of(endpoint: &str) -> Result<PathBuf, SocketError> {
    let path =
        endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if !path.starts_with('/') {
        return Err(SocketError::NoUnixSocket(endpoint.to_owned()));
    }
    Ok(PathBuf::from(path))
}

/// Creates a channel to a driver. The channel connects with the first call, and again after a restart of the
/// driver; the calls themselves have deadlines.
pub fn connect(endpoint: &str) -> Result<Channel, SocketError> {
    let path = path_of(endpoint)?;
    let refused = |_| SocketError::NoUnixSocket(endpoint.to_owned());
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).map_err(refused)?;
    Ok(endpoint.connect_lazy())
}

/// Listens at a path. Replaces a socket without a listener that a dead process left behind. Only the owner may
/// connect.
pub async fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match UnixStream::connect(path).await {
        Ok(_) => return Err(SocketError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_absolute_unix_endpoints_have_a_path() {
        for (endpoint, path) in [
            ("unix:///run/csi.sock", Some("/run/csi.sock")),
            ("unix:/run/csi.sock", Some("/run/csi.sock")),
            ("/run/csi.sock", Some("/run/csi.sock")),
            ("unix://run/csi.sock", None),
            ("tcp://127.0.0.1:1", None),
            ("", None),
        ] {
            assert_eq!(path_of(endpoint).ok().as_deref(), path.map(Path::new), "{endpoint}");
        }
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_live_socket_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/csi.sock");
        let first = listen(&path).await.unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::InUse(_))));
        drop(first);
        assert!(path.exists());
        listen(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
