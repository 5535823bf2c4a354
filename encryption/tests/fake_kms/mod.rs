//! A KMS plugin in this process, on a Unix socket. It can fail and hang on demand.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use orlop_encryption::kms::proto::key_management_service_server::{
    KeyManagementService, KeyManagementServiceServer,
};
use orlop_encryption::kms::proto::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// The annotation of every ciphertext; the plugin needs it to decrypt.
pub(crate) const ANNOTATION: &str = "version.kms.example.com";

/// The behavior of a plugin, and the calls that it has received.
pub(crate) struct State {
    pub(crate) version: String,
    pub(crate) healthz: String,
    /// The key that Status reports.
    pub(crate) key_id: String,
    /// The key that Encrypt reports, if it is another one.
    pub(crate) encrypts_with: Option<String>,
    /// The keys that Decrypt accepts; empty means all.
    pub(crate) decrypts: Vec<String>,
    pub(crate) annotation: String,
    /// Decrypt does not respond.
    pub(crate) hangs: bool,
    pub(crate) encrypt_calls: usize,
    pub(crate) decrypt_calls: usize,
}

impl Default for State {
    fn default() -> Self {
        State {
            version: "v2".to_owned(),
            healthz: "ok".to_owned(),
            key_id: "1".to_owned(),
            encrypts_with: None,
            decrypts: Vec::new(),
            annotation: ANNOTATION.to_owned(),
            hangs: false,
            encrypt_calls: 0,
            decrypt_calls: 0,
        }
    }
}

/// A plugin. It stops when it is dropped.
pub(crate) struct FakeKms {
    service: Service,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Default)]
struct Service(Arc<Mutex<State>>);

impl FakeKms {
    /// Listens at a path. The path of an abstract socket begins with a zero byte.
    pub(crate) fn start(socket: &Path) -> Self {
        Self::start_with(socket, |_| {})
    }

    /// The same, with another behavior.
    pub(crate) fn start_with(socket: &Path, change: impl FnOnce(&mut State)) -> Self {
        let _ = std::fs::remove_file(socket);
        let service = Service::default();
        change(&mut service.state());
        let (stop, stopped) = oneshot::channel::<()>();
        let (listens, ready) = std::sync::mpsc::channel();
        let (socket, serves) = (socket.to_owned(), service.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListener::bind(socket).unwrap();
                listens.send(()).unwrap();
                let server = tonic::transport::Server::builder()
                    .add_service(KeyManagementServiceServer::new(serves))
                    .serve_with_incoming(UnixListenerStream::new(listener));
                tokio::select! {
                    served = server => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        ready.recv().unwrap();
        FakeKms { service, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.service.state()
    }

    /// The number of calls of Encrypt and Decrypt.
    pub(crate) fn calls(&self) -> (usize, usize) {
        let state = self.state();
        (state.encrypt_calls, state.decrypt_calls)
    }
}

impl Drop for FakeKms {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

/// Encrypts and decrypts.
pub(crate) fn scramble(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5a).collect()
}

#[tonic::async_trait]
impl KeyManagementService for Service {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let state = self.state();
        let (version, healthz) = (state.version.clone(), state.healthz.clone());
        Ok(Response::new(StatusResponse { version, healthz, key_id: state.key_id.clone() }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        let mut state = self.state();
        state.encrypt_calls += 1;
        let EncryptRequest { plaintext, uid } = request.into_inner();
        if uid.is_empty() {
            return Err(Status::invalid_argument("the request has no uid"));
        }
        Ok(Response::new(EncryptResponse {
            ciphertext: scramble(&plaintext),
            key_id: state.encrypts_with.clone().unwrap_or_else(|| state.key_id.clone()),
            annotations: [(state.annotation.clone(), b"1".to_vec())].into(),
        }))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        self.state().decrypt_calls += 1;
        while self.state().hangs {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let DecryptRequest { ciphertext, key_id, annotations, .. } = request.into_inner();
        let state = self.state();
        if !state.decrypts.is_empty() && !state.decrypts.contains(&key_id) {
            return Err(Status::not_found(format!("there is no key {key_id}")));
        }
        if annotations.get(&state.annotation).is_none_or(|version| version != b"1") {
            return Err(Status::invalid_argument("the annotation is missing"));
        }
        Ok(Response::new(DecryptResponse { plaintext: scramble(&ciphertext) }))
    }
}
