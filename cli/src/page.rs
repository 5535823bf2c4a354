//! `orlop page`: a link that signs in to the web page once.

use std::io::Write as _;
use std::process::ExitCode;

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use orlop_client::client::{ConnectError, Endpoint};
use serde_json::Value;

use crate::local_admin;

/// The path where a user gets a code.
const CODES: &str = "/orlop/sign-in/codes";

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the server does not respond: {0}")]
    Away(String),
    #[error("{0}")]
    Refused(String),
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
}

/// Runs the command and returns the exit code.
pub(crate) fn run(server: Endpoint) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let all = || -> Result<String, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(CommandError::Threads)?.block_on(link(server))
    };
    match all() {
        Ok(link) => {
            // A reader that closed the pipe needs no more output.
            let _ = writeln!(std::io::stdout(), "{link}");
            eprintln!("The link is valid once, for 5 minutes.");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn link(server: Endpoint) -> Result<String, CommandError> {
    let client = local_admin::connect(server).await?;
    let away = |error: &dyn std::error::Error| CommandError::Away(crate::error::chain(error));
    let request = Request::post(CODES).body(Body::empty()).map_err(|error| away(&error))?;
    let response = client.send(request).await.map_err(|error| away(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| CommandError::Away(error.to_string()))?.to_bytes();
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    match document["link"].as_str() {
        Some(link) if status.is_success() => Ok(link.to_owned()),
        _ => Err(CommandError::Refused(match document["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("the server responded with {status}"),
        })),
    }
}
