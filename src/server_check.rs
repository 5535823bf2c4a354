//! Reports why a process cannot use its API server. The process keeps trying: a server may start later, and a token file may be
//! replaced.

use std::time::Duration;

use kube::Client;
use orlop_apimachinery::clock::Backoff;
use orlop_client::client::{self, Endpoint};
use tokio_util::task::AbortOnDropHandle;

/// First and longest delay between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A path that every authenticated user may read.
const PATH: &str = "/api";

/// The name of a server in logs.
pub(crate) fn name_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Url { url, .. } => url.clone(),
        Endpoint::Certificate(certificate) => certificate.url.clone(),
        Endpoint::Kubeconfig { path, .. } => path
            .as_deref()
            .map_or_else(|| "the default kubeconfig".to_owned(), |path| path.display().to_string()),
    }
}

/// Sends a request until the server answers it, or the handle is dropped. Logs each new reason why it does not.
pub(crate) fn start(client: Client, server: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(report(client, server)))
}

async fn report(client: Client, server: String) {
    let mut waits = Backoff::new(WAITS.0, WAITS.1);
    let mut reported = None;
    loop {
        let Err(error) = ask(&client).await else { break };
        let why = advice(&error);
        if reported.as_ref() != Some(&why) {
            tracing::error!("the API server of {server} cannot be used; this process keeps trying: {why}");
            reported = Some(why);
        }
        tokio::time::sleep(waits.advance()).await;
    }
    if reported.is_some() {
        tracing::info!("the API server of {server} answers now");
    }
}

async fn ask(client: &Client) -> kube::Result<()> {
    let request = http::Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await.map(drop)
}

/// The reason, with what to do.
fn advice(error: &kube::Error) -> String {
    let message = client::message_of(error);
    match client::status_of(error).map(|status| status.code) {
        Some(401) => {
            format!("it rejects the credentials ({message}): check the token or the client certificate")
        }
        Some(403) => format!("it does not permit requests of this user ({message}): check its roles"),
        Some(_) => message,
        None if message.contains("UnknownIssuer") => {
            format!("its certificate is not trusted ({message}): check the certificate authority")
        }
        None => format!("{message}: check that it runs"),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn reasons_say_what_to_do() {
        let refused = |code: u16, message: &str| {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            advice(&kube::Error::Api(status.boxed()))
        };
        assert_eq!(
            refused(401, "Unauthorized"),
            "it rejects the credentials (Unauthorized): check the token or the client certificate"
        );
        assert!(refused(403, "forbidden").ends_with("check its roles"));
        assert_eq!(refused(500, "a fault"), "a fault");
    }
}
