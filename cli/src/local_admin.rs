//! The administrator's kubeconfig of a server on this machine: commands of the server's user and of root find it themselves.
//!
//! A server that requires credentials on loopback writes `admin.kubeconfig` to its data directory. A command without credentials for
//! such a server uses this file, if it is in `ORLOP_DATA_DIR` or in the default data directory. The mode of the file permits no other
//! user to read it.

use std::path::{Path, PathBuf};

use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use orlop_client::client::{self, ConnectError, Endpoint};

use crate::config::{host_of, is_here};
use crate::data_dir;

/// The file in the data directory.
const FILE: &str = "admin.kubeconfig";

/// Connects to a server, as its administrator if the server requires credentials and the endpoint has none.
///
/// # Errors
/// As [`client::connect`].
pub(crate) async fn connect(endpoint: Endpoint) -> Result<Client, ConnectError> {
    client::connect(resolve(endpoint).await).await
}

/// The endpoint with the administrator's credentials, if the server requires credentials and the endpoint has none.
pub(crate) async fn resolve(endpoint: Endpoint) -> Endpoint {
    let is_root = rustix::process::geteuid().is_root();
    let dirs = [
        std::env::var_os("ORLOP_DATA_DIR").map(PathBuf::from),
        data_dir::default(is_root, |name| std::env::var_os(name)),
    ];
    let Some(path) = candidate(&endpoint, dirs.into_iter().flatten()) else { return endpoint };
    match rejects(&endpoint).await {
        true => Endpoint::Kubeconfig { path: Some(path), context: None, server: None },
        false => endpoint,
    }
}

/// The kubeconfig for this endpoint in one of the directories.
fn candidate(endpoint: &Endpoint, dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let Endpoint::Url { url, token: None, ca_file: None, .. } = endpoint else { return None };
    if !url.starts_with("http://") || !is_here(endpoint) {
        return None;
    }
    let wanted = host_of(endpoint)?;
    dirs.map(|dir| dir.join(FILE)).find(|path| is_for(path, &wanted))
}

/// Whether a kubeconfig is one for this host and port.
fn is_for(path: &Path, wanted: &(String, u16)) -> bool {
    let file = Endpoint::Kubeconfig { path: Some(path.to_owned()), context: None, server: None };
    host_of(&file).is_some_and(|found| is_same(&found, wanted))
}

/// Whether two addresses name the same server. `localhost` may name each loopback address. Pure.
fn is_same((host, port): &(String, u16), (wanted, wanted_port): &(String, u16)) -> bool {
    port == wanted_port && (host == wanted || host == "localhost" || wanted == "localhost")
}

/// Whether the server rejects a request without credentials: the file may be one of an earlier start with other flags.
async fn rejects(endpoint: &Endpoint) -> bool {
    let Ok(client) = client::connect(endpoint.clone()).await else { return false };
    let Ok(request) = Request::get("/api").body(Body::empty()) else { return false };
    let response = client.send(request).await;
    response
        .is_ok_and(|response| matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn url(url: &str, token: Option<&str>) -> Endpoint {
        let token = token.map(str::to_owned);
        Endpoint::Url { url: url.to_owned(), token, ca_file: None, insecure: false }
    }

    #[test]
    fn kubeconfig_of_the_same_server_is_found() {
        let (empty, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = serde_json::json!({"current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:8080"}}]});
        std::fs::write(dir.path().join(FILE), config.to_string()).unwrap();
        for (case, endpoint, want) in [
            ("1 the same", url("http://127.0.0.1:8080", None), true),
            ("2 by name", url("http://localhost:8080", None), true),
            ("3 another port", url("http://127.0.0.1:8081", None), false),
            ("4 another address", url("http://127.0.0.2:8080", None), false),
            ("5 another machine", url("http://10.0.0.1:8080", None), false),
            ("6 a token", url("http://127.0.0.1:8080", Some("t")), false),
            ("7 TLS", url("https://127.0.0.1:8080", None), false),
            ("8 a kubeconfig", Endpoint::Kubeconfig { path: None, context: None, server: None }, false),
        ] {
            let dirs = [empty.path().to_owned(), dir.path().to_owned()].into_iter();
            let want = want.then(|| dir.path().join(FILE));
            assert_eq!(candidate(&endpoint, dirs), want, "{case}");
        }
    }

    /// Answers each request with a status.
    async fn server(status: &'static str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn credentials_are_used_only_where_they_are_required() {
        for (status, want) in
            [("200 OK", false), ("401 Unauthorized", true), ("403 Forbidden", true), ("500 Error", false)]
        {
            assert_eq!(rejects(&url(&server(status).await, None)).await, want, "{status}");
        }
        assert!(!rejects(&url("http://127.0.0.1:1", None)).await, "no server");
    }
}
