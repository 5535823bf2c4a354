//! Sends reviews to webhooks. The time, the bytes of an answer and the number of calls at the same time are bounded, and a slow
//! webhook does not make the calls of others fail.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_store::{MemoryBudget, ReservedMemory};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::answer::NoAnswer;
use super::review::Review;
use crate::admission::outcome::{MAX_TEXT, cut};
use crate::https;

/// Maximum number of calls of all webhooks at the same time.
const CONCURRENT: usize = 128;
/// Maximum number of calls of one webhook at the same time.
const CONCURRENT_OF_ONE: usize = 16;
/// Maximum size of an answer, bytes.
const LONGEST_ANSWER: usize = 3 << 20;

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port of the URL, as in its text.
    pub(crate) authority: String,
    /// The path, with a leading slash if there is one.
    pub(crate) path: String,
    /// The name in the certificate.
    pub(crate) server_name: String,
    /// Host and port to connect to.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    /// The target of an `https` URL.
    ///
    /// # Errors
    /// Why the URL is none.
    pub(crate) fn of_url(url: &str) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let authority = uri.authority().ok_or("Unparsable URL: it has no host")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Target {
            authority: authority.as_str().to_owned(),
            path: if uri.path() == "/" && !url.ends_with('/') {
                String::new()
            } else {
                uri.path().to_owned()
            },
            server_name: host.clone(),
            host,
            port: authority.port_u16().unwrap_or(443),
        })
    }
}

/// The connection settings of one webhook, and its calls in progress.
pub(crate) struct Connector {
    /// The certificates that sign the webhook's, PEM; empty for those of the system.
    ca_bundle: Vec<u8>,
    seconds: u64,
    permits: Semaphore,
    /// Built at the first call.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Connector {
    /// The connector of a webhook with these certificates and this time limit in seconds.
    pub(super) fn new(ca_bundle: Vec<u8>, seconds: u64) -> Self {
        let permits = Semaphore::new(CONCURRENT_OF_ONE);
        Connector { ca_bundle, seconds, permits, tls: OnceLock::new() }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.get_or_init(|| https::client_config(&self.ca_bundle)).clone()
    }
}

/// The client of all webhooks.
pub(crate) struct WebhookClient {
    permits: Semaphore,
    /// The memory for answers.
    memory: Arc<MemoryBudget>,
}

/// The body of a successful response.
pub(super) struct AnswerBody {
    pub(super) text: Vec<u8>,
    pub(super) memory: ReservedMemory,
}

impl WebhookClient {
    /// A client whose answers share this memory.
    pub(crate) fn new(memory: Arc<MemoryBudget>) -> Self {
        WebhookClient { permits: Semaphore::new(CONCURRENT), memory }
    }

    /// The memory for documents and answers.
    pub(super) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Sends a review and returns the answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn post(
        &self,
        connector: &Connector,
        target: Result<Target, (String, String)>,
        review: Review,
    ) -> Result<AnswerBody, NoAnswer> {
        let seconds = connector.seconds;
        let url = |authority: &str| format!("Post \"https://{authority}?timeout={seconds}s\"");
        let target =
            target.map_err(|(authority, why)| NoAnswer::Failed(format!("{}: {why}", url(&authority))))?;
        let shown = url(&format!("{}{}", target.authority, target.path));
        let late = || NoAnswer::Failed(format!("{shown}: context deadline exceeded"));
        let mut left = Duration::from_secs(seconds);
        let _permits = self.permits(connector, &mut left).await.ok_or_else(late)?;
        let memory = self.memory.reserve(0)?;
        let (status, body) = match timeout(left, send(&target, connector, review, memory)).await {
            Ok(Err(NoAnswer::Failed(why))) => return Err(NoAnswer::Failed(format!("{shown}: {why}"))),
            Ok(result) => result?,
            Err(_) => return Err(late()),
        };
        match status.is_success() {
            true => Ok(body),
            false => Err(NoAnswer::Failed(status_error(status, &body.text))),
        }
    }

    /// Waits for a permit of the webhook and for one of all webhooks. Only the first wait counts against `left`; `None` if that is
    /// too little. Calls that wait for other webhooks have no permit of their own, so that the first wait never depends on other
    /// webhooks.
    async fn permits<'p>(
        &'p self,
        connector: &'p Connector,
        left: &mut Duration,
    ) -> Option<(SemaphorePermit<'p>, SemaphorePermit<'p>)> {
        loop {
            let begin = Instant::now();
            // The semaphores are never closed.
            let own = timeout(*left, connector.permits.acquire()).await.ok()?.ok()?;
            *left = left.saturating_sub(begin.elapsed());
            if let Ok(shared) = self.permits.try_acquire() {
                return Some((own, shared));
            }
            drop(own);
            let shared = self.permits.acquire().await.ok()?;
            if let Ok(own) = connector.permits.try_acquire() {
                return Some((own, shared));
            }
        }
    }
}

async fn send(
    target: &Target,
    connector: &Connector,
    review: Review,
    mut memory: ReservedMemory,
) -> Result<(StatusCode, AnswerBody), NoAnswer> {
    let response = request(target, connector, review).await.map_err(NoAnswer::Failed)?;
    let status = response.status();
    let (mut body, mut text) = (Limited::new(response.into_body(), LONGEST_ANSWER), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| NoAnswer::Failed(error.to_string()))?;
        if let Some(data) = frame.data_ref() {
            memory.grow(data.len() as u64)?;
            text.extend_from_slice(data);
        }
    }
    Ok((status, AnswerBody { text, memory }))
}

async fn request(
    target: &Target,
    connector: &Connector,
    review: Review,
) -> Result<Response<Incoming>, String> {
    let seconds = connector.seconds;
    let stream = https::connect(&target.host, target.port).await?;
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let tls = TlsConnector::from(connector.tls()?);
    let stream = tls.connect(name, stream).await.map_err(|error| https::handshake_error(&error))?;
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // The task ends with the answer, because the sender is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to a webhook broke: {error}");
        }
    });
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let request = Request::post(format!("{path}?timeout={seconds}s"))
        .header(header::HOST, &target.authority)
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(review.into_body()))
        .map_err(|error| error.to_string())?;
    sender.send_request(request).await.map_err(words)
}

/// The error for an answer without success, as client-go describes it.
fn status_error(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorStatus {
        kind: String,
        message: String,
    }
    let status_message = || -> Option<String> {
        let status: ErrorStatus = serde_json::from_slice(body).ok()?;
        (status.kind == "Status").then(|| cut(&status.message, MAX_TEXT).to_owned())
    };
    if let Some(message) = status_message() {
        return message;
    }
    match status.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => "unknown".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        500.. => {
            let shown: String = String::from_utf8_lossy(body).trim().chars().take(2048).collect();
            format!("an error on the server ({shown:?}) has prevented the request from succeeding")
        }
        code => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::review::object_text;
    use super::*;

    fn client() -> WebhookClient {
        WebhookClient::new(MemoryBudget::new(0))
    }

    fn review() -> Review {
        Review::new("v1", "u", Value::Null, object_text(None), object_text(None))
    }

    fn why(answer: Result<AnswerBody, NoAnswer>) -> String {
        match answer {
            Ok(_) => "an answer".to_owned(),
            Err(NoAnswer::Failed(why)) => why,
            Err(NoAnswer::OutOfMemory(error)) => error.to_string(),
        }
    }

    #[test]
    fn urls_have_host_port_and_path() {
        for (url, want) in [
            ("https://127.0.0.1:1/hook", ("127.0.0.1:1", "/hook", "127.0.0.1", 1)),
            ("https://example.com", ("example.com", "", "example.com", 443)),
            ("https://[::1]:8443/", ("[::1]:8443", "/", "::1", 8443)),
        ] {
            let target = Target::of_url(url).expect("a URL");
            let got = (target.authority.as_str(), target.path.as_str(), target.host.as_str(), target.port);
            assert_eq!(got, want, "{url}");
        }
        assert!(Target::of_url("/path").is_err());
    }

    #[tokio::test]
    async fn refused_connections_are_described_as_go_does() {
        let target = Target::of_url("https://127.0.0.1:1/hook").expect("a URL");
        let connector = Connector::new(Vec::new(), 5);
        let error = why(client().post(&connector, Ok(target), review()).await);
        assert_eq!(
            error,
            "Post \"https://127.0.0.1:1/hook?timeout=5s\": dial tcp 127.0.0.1:1: connect: connection refused"
        );
    }

    #[tokio::test]
    async fn slow_webhook_does_not_delay_others() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = client();
        let (slow, other) = (Connector::new(Vec::new(), 30), Connector::new(Vec::new(), 5));
        let target = |url: &str| Ok(Target::of_url(url).expect("a URL"));
        let url = format!("https://{address}/");
        let calls = (0..2 * CONCURRENT).map(|_| client.post(&slow, target(&url), review()));
        let other = client.post(&other, target("https://127.0.0.1:1/"), review());
        tokio::select! {
            biased;
            _ = futures::future::join_all(calls) => panic!("the slow webhook answers"),
            error = other => assert!(why(error).ends_with("connection refused")),
        }
        assert_eq!(client.permits.available_permits(), CONCURRENT, "dropped calls release their permits");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_wait_for_the_same_webhook_counts() {
        let client = client();
        let connector = Connector::new(Vec::new(), 1);
        let second = Duration::from_secs(1);

        let others = client.permits.acquire_many(CONCURRENT as u32).await.expect("open");
        let wait = async {
            let mut left = second;
            client.permits(&connector, &mut left).await.map(|permits| (permits, left))
        };
        let mut wait = std::pin::pin!(wait);
        assert!(timeout(100 * second, &mut wait).await.is_err(), "the call waits, and does not fail");
        assert_eq!(connector.permits.available_permits(), CONCURRENT_OF_ONE);
        drop(others);
        let (permits, left) = wait.await.expect("permits");
        assert_eq!(left, second);
        drop(permits);

        let _own = connector.permits.acquire_many(CONCURRENT_OF_ONE as u32).await.expect("open");
        assert!(client.permits(&connector, &mut second.clone()).await.is_none());
    }

    #[test]
    fn tls_is_configured_once() {
        let authority = include_bytes!("../../peer_certificates/testdata/good.pem").to_vec();
        let (one, other) = (Connector::new(Vec::new(), 1), Connector::new(authority, 1));
        let tls = |connector: &Connector| connector.tls().expect("a configuration");
        assert!(Arc::ptr_eq(&tls(&one), &tls(&one)));
        assert!(!Arc::ptr_eq(&tls(&one), &tls(&other)));
    }

    #[test]
    fn messages_of_failed_calls_are_bounded() {
        let status = serde_json::json!({"kind": "Status", "message": "x".repeat(1 << 20)});
        assert_eq!(status_error(StatusCode::FORBIDDEN, status.to_string().as_bytes()).len(), MAX_TEXT);
    }
}
