//! Calls to a plugin over its Unix socket. A call waits for the socket until its timeout, so a plugin may start after its server.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Response, Status};
use tower::service_fn;
use uuid::Uuid;

use super::metrics::Metrics;
use super::proto::key_management_service_client::KeyManagementServiceClient;
use super::proto::{
    DecryptRequest, EncryptRequest, EncryptResponse, EncryptedObject, StatusRequest, StatusResponse,
};

/// The interval between two attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_millis(100);

/// A failed call.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    code: Code,
    message: String,
}

impl CallError {
    /// The plugin has not responded in time.
    pub(crate) fn timeout(why: &str) -> Self {
        CallError { code: Code::DeadlineExceeded, message: format!("context deadline exceeded{why}") }
    }

    /// Whether other calls would fail as well.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self.code, Code::DeadlineExceeded | Code::Unavailable)
    }

    /// Whether the same call may succeed later. Plugins written in Go return Unknown for most errors, for example when they cannot reach
    /// their KMS, so only the codes that reject the request itself are permanent.
    pub(crate) fn is_temporary(&self) -> bool {
        match self.code {
            Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => false,
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::Unauthenticated => true,
        }
    }
}

impl fmt::Display for CallError {
    /// As Go's gRPC prints errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", code_name(self.code), self.message)
    }
}

/// The name of a code in Go.
fn code_name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

/// A connection to a plugin.
pub(crate) struct Client {
    service: KeyManagementServiceClient<Channel>,
    timeout: Duration,
    /// Why there is no connection.
    disconnected: Arc<Mutex<Option<String>>>,
    metrics: Arc<Metrics>,
}

impl Client {
    /// Connects with the first call. Must be called in a runtime.
    pub(crate) fn new(socket: PathBuf, timeout: Duration, metrics: Arc<Metrics>) -> Self {
        let disconnected = Arc::new(Mutex::new(None));
        let problem = disconnected.clone();
        let connector = service_fn(move |_: Uri| connect(socket.clone(), problem.clone()));
        // The authority of the requests, as upstream. The connector ignores it.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Client { service: KeyManagementServiceClient::new(channel), timeout, disconnected, metrics }
    }

    /// Queries the health and the current key.
    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.call("Status", || {
            let mut service = self.service.clone();
            async move { service.status(StatusRequest {}).await }
        })
        .await
    }

    /// Encrypts a seed.
    pub(crate) async fn encrypt(&self, plaintext: &[u8], uid: &str) -> Result<EncryptResponse, CallError> {
        self.call("Encrypt", || {
            let mut service = self.service.clone();
            let request = EncryptRequest { plaintext: plaintext.to_vec(), uid: uid.to_owned() };
            async move { service.encrypt(request).await }
        })
        .await
    }

    /// Decrypts the source of an object.
    pub(crate) async fn decrypt(&self, object: &EncryptedObject) -> Result<Vec<u8>, CallError> {
        let uid = Uuid::new_v4().to_string();
        let response = self.call("Decrypt", || {
            let mut service = self.service.clone();
            let request = DecryptRequest {
                ciphertext: object.encrypted_dek_source.clone(),
                uid: uid.clone(),
                key_id: object.key_id.clone(),
                annotations: object.annotations.clone(),
            };
            async move { service.decrypt(request).await }
        });
        Ok(response.await?.plaintext)
    }

    /// Calls the plugin, with the timeout of the client.
    async fn call<R, F>(&self, method: &str, start: impl Fn() -> F) -> Result<R, CallError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let began = Instant::now();
        let attempts = async {
            match start().await {
                // The connection broke, for example because the plugin was restarted. No call changes anything, so it is repeated.
                Err(status) if status.source().is_some() => start().await,
                response => response,
            }
        };
        let result = match tokio::time::timeout(self.timeout, attempts).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(CallError { code: status.code(), message: status.message().to_owned() }),
            Err(_) => {
                let why = self.disconnected.lock().clone();
                Err(CallError::timeout(&why.map(|why| format!(": {why}")).unwrap_or_default()))
            }
        };
        let code = result.as_ref().map_or_else(|error| error.code, |_| Code::Ok);
        self.metrics.note_call(method, &code_name(code), began.elapsed());
        result
    }
}

/// Connects as soon as the plugin listens.
async fn connect(
    socket: PathBuf,
    problem: Arc<Mutex<Option<String>>>,
) -> Result<TokioIo<UnixStream>, std::convert::Infallible> {
    loop {
        match UnixStream::connect(&socket).await {
            Ok(stream) => {
                *problem.lock() = None;
                return Ok(TokioIo::new(stream));
            }
            Err(error) => {
                let shown = socket.to_string_lossy().replace('\0', "@");
                *problem.lock() = Some(format!("cannot connect to {shown}: {error}"));
                tokio::time::sleep(CONNECT_EVERY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_printed_as_in_go() {
        for (code, want, is_outage, is_temporary) in [
            (Code::Cancelled, "rpc error: code = Canceled desc = why", false, true),
            (Code::InvalidArgument, "rpc error: code = InvalidArgument desc = why", false, false),
            (Code::Unknown, "rpc error: code = Unknown desc = why", false, true),
            (Code::Unavailable, "rpc error: code = Unavailable desc = why", true, true),
        ] {
            let error = CallError { code, message: "why".to_owned() };
            assert_eq!(
                (error.to_string().as_str(), error.is_outage(), error.is_temporary()),
                (want, is_outage, is_temporary)
            );
        }
        let error = CallError::timeout(": why");
        assert!(error.is_outage() && error.is_temporary());
        assert_eq!(
            error.to_string(),
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded: why"
        );
    }
}
