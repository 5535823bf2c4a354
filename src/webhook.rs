//! Clients of the webhooks that kubeconfigs describe: those of the audit log and of token reviews.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use orlop_apimachinery::input_file;
use orlop_client::client::{self, ConnectError, Endpoint};

/// Maximum size of a kubeconfig, bytes.
const MAX_KUBECONFIG: u64 = 1 << 20;

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error("{flag} {}: {problem}", path.display())]
    Kubeconfig { flag: &'static str, path: PathBuf, problem: String },
    #[error("{flag} {}: cannot connect to the webhook", path.display())]
    Connect {
        flag: &'static str,
        path: PathBuf,
        #[source]
        error: ConnectError,
    },
}

/// A failed request.
#[derive(Debug)]
pub(crate) struct PostFailure {
    pub(crate) message: String,
    /// Whether another attempt may succeed.
    pub(crate) is_temporary: bool,
}

/// A client of a webhook, and the path of its URL.
#[derive(Clone)]
pub(crate) struct WebhookClient {
    client: Client,
    target: String,
}

impl WebhookClient {
    /// Connects as the kubeconfig describes that `flag` names. No request is sent.
    pub(crate) async fn connect(flag: &'static str, path: &Path) -> Result<Self, WebhookError> {
        let wrong = |problem: String| WebhookError::Kubeconfig { flag, path: path.to_owned(), problem };
        input_file::read(path, MAX_KUBECONFIG)
            .map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        let kubeconfig = client::read_kubeconfig(Some(path)).map_err(wrong)?;
        let url: Uri = server_of(&kubeconfig)
            .ok_or_else(|| wrong("its current context names no cluster with a server".to_owned()))?
            .parse()
            .map_err(|error| wrong(format!("the URL of its server is not valid: {error}")))?;
        let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wrong("the URL of its server has no scheme or no host".to_owned()));
        };
        // The client would append a path to that of the server, and the webhook has only the latter.
        let endpoint = Endpoint::Kubeconfig {
            path: Some(path.to_owned()),
            context: None,
            server: Some(format!("{scheme}://{authority}")),
        };
        let target = url.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let client = client::connect(endpoint).await;
        let client = client.map_err(|error| WebhookError::Connect { flag, path: path.to_owned(), error })?;
        Ok(WebhookClient { client, target })
    }

    /// Posts a document and returns the answer of at most `max` bytes.
    pub(crate) async fn post(self, document: Bytes, max: usize) -> Result<Bytes, PostFailure> {
        let failure = |message, is_temporary| PostFailure { message, is_temporary };
        let request =
            Request::post(self.target).header(CONTENT_TYPE, "application/json").body(Body::from(document));
        let request = request.map_err(|error| failure(error.to_string(), false))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| failure(client::message_of(&error), true))?;
        result_of(response.status())?;
        let body = Limited::new(response.into_body(), max).collect().await;
        Ok(body.map_err(|error| failure(format!("the answer cannot be read: {error}"), false))?.to_bytes())
    }
}

fn server_of(kubeconfig: &Kubeconfig) -> Option<&str> {
    let name = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.as_deref()
}

/// The result of a response. Upstream: apiserver `pkg/util/webhook/webhook.go` (DefaultShouldRetry).
fn result_of(status: StatusCode) -> Result<(), PostFailure> {
    if status.is_success() {
        return Ok(());
    }
    let is_temporary = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    Err(PostFailure { message: format!("the webhook responds with {status}"), is_temporary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_the_webhook_decides_about_retries() {
        for (code, want) in [
            (200, None),
            (204, None),
            (400, Some(false)),
            (401, Some(false)),
            (429, Some(true)),
            (503, Some(true)),
        ] {
            let status = StatusCode::from_u16(code).expect("a code");
            assert_eq!(result_of(status).err().map(|error| error.is_temporary), want, "{code}");
        }
    }

    #[tokio::test]
    async fn unusable_kubeconfig_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let of_server = |cluster: &str, user: &str| {
            format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
                 clusters: [{{name: a, cluster: {cluster}}}]\nusers: [{{name: a, user: {user}}}]\n"
            )
        };
        let good = "{server: 'https://127.0.0.1:1/x'}";
        let large = "#".repeat(1 + MAX_KUBECONFIG as usize);
        for (case, text, part) in [
            ("1 empty", String::new(), ""),
            ("2 no YAML", "{".to_owned(), ""),
            ("3 a list", "[]".to_owned(), ""),
            ("4 no context", "apiVersion: v1\nkind: Config\n".to_owned(), "names no cluster"),
            ("5 no host", of_server("{server: /audit}", "{}"), "has no scheme"),
            ("6 no URL", of_server("{server: 'https://a b'}", "{}"), "is not valid"),
            (
                "7 a damaged authority",
                of_server("{server: 'https://a', certificate-authority-data: '!'}", "{}"),
                "",
            ),
            (
                "8 a missing authority",
                of_server("{server: 'https://a', certificate-authority: /nowhere}", "{}"),
                "",
            ),
            ("9 a missing token", of_server(good, "{tokenFile: /nowhere}"), ""),
            (
                "10 half a key pair",
                of_server(good, "{client-certificate-data: AQ==, client-key-data: AQ==}"),
                "",
            ),
            ("11 too large", large, "larger than"),
        ] {
            std::fs::write(file.path(), text).expect("it is written");
            let error = WebhookClient::connect("--flag", file.path()).await.err();
            let error = error.map(|error| error.to_string()).unwrap_or_default();
            let begin = format!("--flag {}: ", file.path().display());
            assert!(error.starts_with(&begin) && error.contains(part), "{case}: {error:?}");
        }
        let error = WebhookClient::connect("--flag", Path::new("/nowhere/k")).await.err();
        assert!(error.is_some_and(|error| error.to_string().contains("cannot be read")));
    }
}
