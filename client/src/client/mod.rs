//! Connections of controllers to the API server: over HTTP(S) from a URL or kubeconfig, or as a tower service in the same
//! process. Both send the same user agent, and neither has a rate limit or retries: queues retry, because they know which work
//! is still needed.

mod certificate;
mod credentials;
mod identity_file;
mod kubeconfig;
mod lines;
mod local_server;
pub mod token;
mod token_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::AuthInfo;
use kube::core::Status;
use kube::{Client, Config};
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use tower::timeout::Timeout;
use tower::util::{AndThen, MapFuture};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

pub use certificate::ClientCertificate;
pub use credentials::without_password;
use identity_file::IdentityFile;
pub use kubeconfig::read as read_kubeconfig;
pub use lines::Lines;
use token::TokenSource;
use token_file::TokenFile;

/// The user agent of every request, which distinguishes managers and audit lines.
pub const AGENT: &str = concat!("orlop-controller/", env!("CARGO_PKG_VERSION"));

/// An unused connection is closed after this time, so that the connections of a burst do not stay open. Longer than the 10 s after
/// which a Lease is renewed, so that the rare requests of an idle client share one connection.
const IDLE: Duration = Duration::from_secs(15);
/// A server that has not answered a connection attempt within this time is unreachable.
const CONNECT: Duration = Duration::from_secs(10);
/// A server is unreachable if it has not acknowledged bytes for this time, or does not answer the probes of a
/// connection that has been silent for half of this time, such as that of a watch.
const SILENCE: Duration = Duration::from_secs(60);
/// After this time without data a watch counts as dead where the client library makes the connections. A server sends bookmarks
/// every minute; upstream's server sends them every 75 seconds.
const LIBRARY_SILENCE: Duration = Duration::from_secs(120);

/// The address of an API server outside this process.
#[derive(Clone)]
pub enum Endpoint {
    /// A base URL such as `http://127.0.0.1:8080`.
    Url {
        /// Scheme, host and port.
        url: String,
        /// Bearer token, without the word `Bearer`.
        token: Option<String>,
        /// File with PEM certificates to trust in addition to those of the system.
        ca_file: Option<PathBuf>,
        /// Trusts any server certificate. For testing only.
        insecure: bool,
    },
    /// A kubeconfig file.
    Kubeconfig {
        /// The file; `None` means `KUBECONFIG` or `~/.kube/config`.
        path: Option<PathBuf>,
        /// Context to use; `None` means the current one.
        context: Option<String>,
        /// Base URL that overrides the one in the file.
        server: Option<String>,
    },
    /// A client certificate in memory.
    Certificate(Box<ClientCertificate>),
}

/// The reason why no client could be created. The text never contains tokens.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is invalid.
    #[error("the server address {url:?} is not a URL such as https://host:6443: {cause}")]
    Url {
        /// The given URL.
        url: String,
        /// The problem.
        cause: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}: {cause}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The problem.
        cause: String,
    },
    /// The token cannot be sent.
    #[error("cannot use the credentials: {0}")]
    Token(&'static str),
    /// The connection settings are invalid, for example a certificate file.
    #[error("cannot set up the connection to the API server: {0}")]
    Setup(String),
}

/// Creates a client for a server outside this process. Sends nothing yet: the first request detects an
/// unreachable server, and informers retry until it is reachable.
pub async fn connect(endpoint: Endpoint) -> Result<Client, ConnectError> {
    connect_over(endpoint, &Lines::default()).await
}

/// Like [`connect`]; `lines` can drop the requests.
///
/// # Errors
/// As [`connect`].
pub async fn connect_over(endpoint: Endpoint, lines: &Lines) -> Result<Client, ConnectError> {
    let config = configuration(endpoint).await?;
    client_of(config, lines, None)
}

/// Creates clients for a server outside this process that act as service accounts. Sends nothing yet.
///
/// # Errors
/// As [`connect`].
pub async fn connect_as_accounts(
    endpoint: Endpoint,
    namespace: &'static str,
) -> Result<token::AccountClients, ConnectError> {
    let config = configuration(endpoint).await?;
    let own = client_of(config.clone(), &Lines::default(), None)?;
    // The accounts' clients have no credentials of their own, and impersonate no other user.
    let mut anonymous = config;
    anonymous.auth_info = AuthInfo::default();
    // Fails here, and not when the first controller starts.
    client_of(anonymous.clone(), &Lines::default(), None)?;
    Ok(token::AccountClients::new(own, namespace, move |token| {
        client_of(anonymous.clone(), &Lines::default(), Some(token))
    }))
}

async fn configuration(endpoint: Endpoint) -> Result<Config, ConnectError> {
    let mut config = match endpoint {
        Endpoint::Url { url, token, ca_file, insecure } => {
            let mut config = Config::new(parse_url(&url)?);
            if let Some(file) = &ca_file {
                credentials::check_authority(file).map_err(ConnectError::Setup)?;
                // Only the file counts, so a machine without CA certificates can connect.
                config.root_cert = Some(Vec::new());
            }
            config.root_cert_file = ca_file;
            config.accept_invalid_certs = insecure;
            config.auth_info = AuthInfo { token: token.map(Into::into), ..AuthInfo::default() };
            config
        }
        Endpoint::Kubeconfig { path, context, server } => {
            let mut config = from_kubeconfig(path, context).await?;
            parse_url(&config.cluster_url.to_string())?;
            if let Some(url) = server {
                config.cluster_url = parse_url(&url)?;
            }
            config
        }
        Endpoint::Certificate(certificate) => {
            let url = parse_url(&certificate.url)?;
            certificate.configuration(url).map_err(ConnectError::Setup)?
        }
    };
    credentials::check_token(&config.auth_info).map_err(ConnectError::Token)?;
    if config.cluster_url.scheme_str() == Some("http") && config.root_cert_file.is_none() {
        // No certificate is verified. Otherwise a machine without CA certificates could not connect even then.
        config.root_cert = Some(Vec::new());
    }
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    // Without it, a watch that the server has forgotten waits forever.
    config.read_timeout = Some(LIBRARY_SILENCE);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    Ok(config)
}

/// A client that sends the token, if there is one, in addition to the credentials of the configuration.
fn client_of(
    mut config: Config,
    lines: &Lines,
    token: Option<Arc<token::AccountToken>>,
) -> Result<Client, ConnectError> {
    let source = match token {
        Some(token) => Some(TokenSource::Account(token)),
        None => TokenFile::take(&mut config.auth_info)
            .map_err(ConnectError::Setup)?
            .map(|file| TokenSource::File(Arc::new(file))),
    };
    let layer = token::TokenLayer(source);
    // Only TLS uses the certificate of an exec plugin.
    let may_have_plugin_certificate =
        config.auth_info.exec.is_some() && config.cluster_url.scheme_str() != Some("http");
    let client = match config.proxy_url.is_some() || may_have_plugin_certificate {
        // The client library's own connections support these.
        true => {
            ClientBuilder::try_from(config).map(|client| client.with_layer(lines).with_layer(&layer).build())
        }
        false => over_tcp(&config, lines, &layer),
    };
    client.map_err(|error| ConnectError::Setup(credentials::texts(&error).remove(0)))
}

/// Creates a client that opens its own TCP connections. The client library would never close the connections of a
/// burst, and would read the system's certificates even for a server without TLS.
fn over_tcp(config: &Config, lines: &Lines, token: &token::TokenLayer) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(SILENCE / 2));
    connector.set_tcp_user_timeout(Some(SILENCE));
    if config.cluster_url.scheme_str() == Some("http") {
        // A file that the user names is read, so that an invalid one is reported.
        if config.root_cert_file.is_some() {
            config.rustls_client_config()?;
        }
        let checked = |connection| std::future::ready(local_server::check(connection));
        return over(config, lines, token, MapFuture::new(AndThen::new(connector, checked), Box::pin));
    }
    let connector = match IdentityFile::of(&config.auth_info).filter(|_| config.tls_server_name.is_none()) {
        None => config.rustls_https_connector_with_connector(connector)?,
        Some(identity) => {
            let mut tls = config.rustls_client_config()?;
            tls.client_auth_cert_resolver = Arc::new(identity);
            let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
            builder.https_or_http().enable_http1().wrap_connector(connector)
        }
    };
    // The TLS handshake needs a timeout too.
    over(config, lines, token, MapFuture::new(Timeout::new(connector, CONNECT), Box::pin))
}

fn over<C>(config: &Config, lines: &Lines, token: &token::TokenLayer, connector: C) -> kube::Result<Client>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let connections: legacy::Client<C, Body> = legacy::Builder::new(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(token)
        .layer(lines)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn parse_url(url: &str) -> Result<Uri, ConnectError> {
    let wrong = |cause: String| ConnectError::Url { url: without_password(url).into_owned(), cause };
    let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| wrong(e.to_string()))?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        return Err(wrong("scheme or host is missing".to_owned()));
    }
    credentials::check_url(&uri).map_err(|problem| wrong(problem.to_owned()))?;
    Ok(uri)
}

async fn from_kubeconfig(path: Option<PathBuf>, context: Option<String>) -> Result<Config, ConnectError> {
    let loaded = kubeconfig::load(path.as_deref(), context).await;
    loaded.map_err(|cause| ConnectError::Kubeconfig { path: kubeconfig::shown(path.as_deref()), cause })
}

/// The CA certificates (PEM) of a kubeconfig. `None` if it has none or is invalid; [`connect`] reports the error.
pub fn trusted_by(path: Option<&Path>, context: Option<&str>) -> Option<String> {
    let config = read_kubeconfig(path).ok()?;
    let name = context.or(config.current_context.as_deref())?;
    let context = config.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(data.clone().into()).ok()?;
            String::from_utf8(bytes.0).ok()
        }
        (None, Some(path)) => input_file::read_text(Path::new(path), MAX_CONFIG).ok(),
        (None, None) => None,
    }
}

/// Creates a client for a tower service in this process, such as the API server's router. Must be called inside a
/// tokio runtime.
pub fn in_process<S, B>(service: S) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let with_agent = service.map_request(|mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        request
    });
    Client::new(with_agent, "default")
}

/// The Status in the server's response; `None` if the server did not respond.
pub fn status_of(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// The object does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|s| s.code == 404)
}

/// Another client wrote first: a version conflict, not "already exists".
pub fn is_conflict(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
}

/// An object with this name already exists.
pub fn is_already_exists(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|s| s.code == 409 && s.reason == "AlreadyExists")
}

/// Whether the server rejected a creation because the namespace is being deleted.
pub fn is_namespace_ending(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 403
            && (causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
                || status.message.ends_with("because it is being terminated"))
    })
}

/// The text of an error for events and logs: the server's message without the client's wrapping. If no server was reached, all
/// causes (`Connection refused` is the last one).
pub fn message_of(error: &kube::Error) -> String {
    if let Some(status) = status_of(error) {
        return status.message.clone();
    }
    let mut all = credentials::texts(error).into_iter();
    let mut text = all.next().unwrap_or_default();
    for next in all {
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn in_process_client_sends_its_user_agent() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let agent = request.headers()[USER_AGENT].to_str().unwrap_or_default().to_owned();
            let body = serde_json::json!({"major": agent, "minor": "", "gitVersion": "", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.to_string().into_bytes())))
        });
        let version = in_process(service).apiserver_version().await.unwrap();
        assert_eq!(version.major, AGENT);
    }

    #[tokio::test]
    async fn unused_connections_are_closed() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        use tokio::sync::{Barrier, watch};

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (open, mut seen) = watch::channel(0_usize);
        let open = Arc::new(open);
        // Responses wait for three requests, so that each needs a connection.
        let all = Arc::new(Barrier::new(3));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                open.send_modify(|open| *open += 1);
                let (open, all) = (Arc::clone(&open), Arc::clone(&all));
                tokio::spawn(async move {
                    let mut asked = [0; 4096];
                    while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                        all.wait().await;
                        let body = r#"{"major":"1","minor":"36","gitVersion":"","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
                        stream
                            .write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())
                            .await
                            .unwrap();
                    }
                    open.send_modify(|open| *open -= 1);
                });
            }
        });
        let client =
            connect(Endpoint::Url { url, token: None, ca_file: None, insecure: false }).await.unwrap();
        let ask = async || client.apiserver_version().await.unwrap().major;
        assert_eq!(tokio::join!(ask(), ask(), ask()), ("1".into(), "1".into(), "1".into()));
        assert_eq!(*seen.borrow_and_update(), 3);
        tokio::time::pause();
        let closed = tokio::time::timeout(4 * IDLE, seen.wait_for(|open| *open == 0)).await.is_ok();
        assert!(closed, "{} are still open", *seen.borrow());
    }

    #[tokio::test]
    async fn unreachable_server_is_reported() {
        // A free port: it was bound and released immediately.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let endpoint = Endpoint::Url { url, token: None, ca_file: None, insecure: false };
        let error = connect(endpoint).await.unwrap().apiserver_version().await.unwrap_err();
        let text = message_of(&error);
        assert!(text.contains("Connection refused"), "{text}");
    }

    #[test]
    fn ca_certificates_are_read_from_a_kubeconfig() {
        let file = std::env::temp_dir().join(format!("orlop-kubeconfig-{}", uuid::Uuid::new_v4()));
        let trusted = |cluster: serde_json::Value| {
            let text = serde_json::json!({"current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}]});
            std::fs::write(&file, text.to_string()).unwrap();
            (trusted_by(Some(&file), None), trusted_by(Some(&file), Some("other")))
        };
        let data = k8s_openapi::ByteString(b"PEM".to_vec());
        let shown = trusted(serde_json::json!({"server": "https://x", "certificate-authority-data": data}));
        assert_eq!(shown, (Some("PEM".to_owned()), None));
        assert_eq!(trusted(serde_json::json!({"server": "https://x"})), (None, None));
        std::fs::remove_file(&file).unwrap();
    }

    #[tokio::test]
    async fn address_without_scheme_is_refused_with_advice() {
        let endpoint = Endpoint::Url {
            url: "localhost".into(),
            token: Some("hush".into()),
            ca_file: None,
            insecure: false,
        };
        let error = connect(endpoint).await.err().unwrap().to_string();
        assert!(error.contains("https://host:6443") && !error.contains("hush"), "{error}");
    }
}
