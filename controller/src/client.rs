//! How controllers reach the API server: over HTTP(S) from a URL or kubeconfig, or as a tower service in the same
//! process. Both carry the same user agent and neither has a rate limit or retries of its own: queues retry, and they
//! know what is still worth doing.

use std::path::{Path, PathBuf};

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceExt};

/// Sent with every request, so that managers and audit lines can be told apart.
pub const AGENT: &str = concat!("orlop-controller/", env!("CARGO_PKG_VERSION"));

/// Where the API server is, when it is not in this process.
#[derive(Clone)]
pub enum Endpoint {
    /// A base URL such as `http://127.0.0.1:8080`.
    Url {
        /// Scheme, host and port.
        url: String,
        /// Bearer token, without the word `Bearer`.
        token: Option<String>,
        /// File with PEM certificates to trust besides those of the system.
        ca_file: Option<PathBuf>,
        /// Trusts any server certificate. For trials only.
        insecure: bool,
    },
    /// A kubeconfig file.
    Kubeconfig {
        /// The file; none means `KUBECONFIG` or `~/.kube/config`.
        path: Option<PathBuf>,
        /// Context to use; none means the current one.
        context: Option<String>,
        /// Base URL that wins over the one in the file.
        server: Option<String>,
    },
}

/// Why no client could be made. Tokens never appear in the text.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be read.
    #[error("the server address {url:?} is not a URL such as https://host:6443: {cause}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}: {cause}; check the path and the context")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The connection settings cannot be used, for example a certificate file.
    #[error("cannot set up the connection to the API server: {0}")]
    Setup(String),
}

/// Makes a client for a server elsewhere. Nothing is sent yet: a server that is away is met by the first request,
/// and informers try again until it is there.
pub async fn connect(endpoint: Endpoint) -> Result<Client, ConnectError> {
    let mut config = match endpoint {
        Endpoint::Url { url, token, ca_file, insecure } => {
            let mut config = Config::new(parse_url(&url)?);
            config.root_cert_file = ca_file;
            config.accept_invalid_certs = insecure;
            config.auth_info = AuthInfo { token: token.map(Into::into), ..AuthInfo::default() };
            config
        }
        Endpoint::Kubeconfig { path, context, server } => {
            let mut config = from_kubeconfig(path, context).await?;
            if let Some(url) = server {
                config.cluster_url = parse_url(&url)?;
            }
            config
        }
    };
    config.default_retry = false;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    Client::try_from(config).map_err(|e| ConnectError::Setup(e.to_string()))
}

fn parse_url(url: &str) -> Result<Uri, ConnectError> {
    let wrong = |cause: String| ConnectError::Url { url: url.to_owned(), cause };
    let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| wrong(e.to_string()))?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        return Err(wrong("scheme or host is missing".to_owned()));
    }
    Ok(uri)
}

async fn from_kubeconfig(path: Option<PathBuf>, context: Option<String>) -> Result<Config, ConnectError> {
    let shown = path.as_ref().map_or_else(|| "(default)".to_owned(), |p| p.display().to_string());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let loaded = match path {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
            Err(e) => Err(e),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    loaded.map_err(|e| ConnectError::Kubeconfig { path: shown, cause: e.to_string() })
}

/// The certificates in PEM that a kubeconfig says to trust the server by. `None` when it names none or cannot be used;
/// what is wrong with it is told by [`connect`].
pub fn trusted_by(path: Option<&Path>, context: Option<&str>) -> Option<String> {
    let config = match path {
        Some(path) => Kubeconfig::read_from(path).ok()?,
        None => Kubeconfig::read().ok()?,
    };
    let name = context.or(config.current_context.as_deref())?;
    let context = config.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(data.clone().into()).ok()?;
            String::from_utf8(bytes.0).ok()
        }
        (None, Some(path)) => std::fs::read_to_string(path).ok(),
        (None, None) => None,
    }
}

/// Makes a client of a tower service in this process, such as the API server's router. Must be called inside a tokio
/// runtime.
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

/// The status that the server answered with, if it was an answer at all.
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

/// Somebody else wrote first: a version conflict, not "already exists".
pub fn is_conflict(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
}

/// An object of this name exists already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|s| s.code == 409 && s.reason == "AlreadyExists")
}

/// The text of an error as users see it in events and logs: the server's message without the wrapping of the client.
pub fn message_of(error: &kube::Error) -> String {
    match status_of(error) {
        Some(status) => status.message.clone(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn the_in_process_client_names_itself() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let agent = request.headers()[USER_AGENT].to_str().unwrap_or_default().to_owned();
            let body = serde_json::json!({"major": agent, "minor": "", "gitVersion": "", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.to_string().into_bytes())))
        });
        let version = in_process(service).apiserver_version().await.unwrap();
        assert_eq!(version.major, AGENT);
    }

    #[test]
    fn whom_a_kubeconfig_trusts() {
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
    async fn an_address_without_scheme_is_refused_with_advice() {
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
