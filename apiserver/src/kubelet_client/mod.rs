//! Connections to kubelets, for `log`, `exec`, `attach` and `portforward`.
//!
//! [`address`] selects the address of a node and decides whether the server connects to it, and [`relay`] passes the bytes of an upgraded
//! connection on. The server authenticates with a client certificate (`--kubelet-client-certificate`, or one of its own authority).
//!
//! Upstream: `pkg/kubelet/client`.

pub mod address;
pub(crate) mod relay;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_api::object::Object;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client_identity::ClientIdentity;
use crate::https;
use address::{AddressType, KubeletAddress, Refusal};

/// How long a kubelet may take to begin its response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of streams (`exec`, `attach`, `portforward`) of all clients.
const STREAMS_MAX: usize = 1_000;

/// How the server connects to kubelets.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// The client certificate of the server.
    pub identity: Option<Arc<ClientIdentity>>,
    /// The authorities of the kubelets' certificates, PEM. Without them, any certificate is accepted, as upstream.
    pub authorities: Option<Vec<u8>>,
    /// The types of a node's addresses, the preferred one first.
    pub address_types: Vec<AddressType>,
    /// Time limit for a connection.
    pub timeout: Duration,
    /// The port of a kubelet whose Node names none.
    pub port: u16,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        KubeletConfig {
            identity: None,
            authorities: None,
            address_types: AddressType::PREFERRED.to_vec(),
            timeout: Duration::from_secs(5),
            port: 10_250,
        }
    }
}

/// Connects to kubelets.
pub(crate) struct KubeletClient {
    config: KubeletConfig,
    tls: Result<Arc<ClientConfig>, String>,
    /// The port of this server, to which no kubelet connection leads.
    own_port: Option<u16>,
    streams: Arc<Semaphore>,
}

impl KubeletClient {
    /// A client; `own` is the address of this server.
    pub(crate) fn new(config: KubeletConfig, own: Option<SocketAddr>) -> Self {
        let identity = config.identity.clone().map(|identity| identity as Arc<dyn ResolvesClientCert>);
        let tls = match &config.authorities {
            Some(authorities) => https::config_with(authorities, identity),
            None => https::unverified_config(identity),
        };
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        KubeletClient { config, tls, own_port: own.map(|own| own.port()), streams }
    }

    /// The address of a node's kubelet.
    ///
    /// # Errors
    /// The node has no address of a preferred type.
    pub(crate) fn address(&self, node: &Object) -> Result<KubeletAddress, Refusal> {
        KubeletAddress::of(node, &self.config.address_types, self.config.port)
    }

    /// Sends a request without a body, and returns the response, which may be an upgraded connection.
    ///
    /// # Errors
    /// Why there is no response, as Go describes it.
    pub(crate) async fn send(
        &self,
        address: &KubeletAddress,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        self.send_over(self.connect(address).await?, address, request).await
    }

    /// Sends a request over a connection to this address. As [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(crate) async fn send_over(
        &self,
        stream: TlsStream<TcpStream>,
        address: &KubeletAddress,
        mut request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let host = http::HeaderValue::try_from(address.to_string()).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
        let words = |error: hyper::Error| error.to_string();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
        // The task ends with the response or with the upgraded connection.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!("the connection to a kubelet broke: {error}");
            }
        });
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        response.map_err(|_| "context deadline exceeded".to_owned())?.map_err(words)
    }

    /// Connects to a kubelet.
    ///
    /// # Errors
    /// Why there is no connection, as Go describes it.
    pub(crate) async fn connect(&self, address: &KubeletAddress) -> Result<TlsStream<TcpStream>, String> {
        let connecting = tokio::time::timeout(self.config.timeout, self.connect_to(address));
        connecting.await.unwrap_or_else(|_| Err(format!("dial tcp {address}: i/o timeout")))
    }

    /// Connects to another server of the machine of a kubelet: `address` has its port.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) async fn dial(&self, address: &KubeletAddress) -> Result<TcpStream, String> {
        let connecting = tokio::time::timeout(self.config.timeout, self.dial_to(address));
        connecting.await.unwrap_or_else(|_| Err(format!("dial tcp {address}: i/o timeout")))
    }

    /// Checks that an address does not lead to this server.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check_not_own(&self, ip: IpAddr, port: u16) -> Result<(), String> {
        address::check_not_own(ip, port, self.own_port)
    }

    async fn connect_to(&self, address: &KubeletAddress) -> Result<TlsStream<TcpStream>, String> {
        if let Some(Err(why)) = self.config.identity.as_ref().map(|identity| identity.refresh()) {
            tracing::error!("the previous client certificate for kubelets stays in use: {why}");
        }
        let tls = TlsConnector::from(self.tls.clone()?);
        let name = ServerName::try_from(address.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.dial_to(address).await?;
        tls.connect(name, stream).await.map_err(|error| https::handshake_error(&error))
    }

    async fn dial_to(&self, address: &KubeletAddress) -> Result<TcpStream, String> {
        let (host, port) = (address.host.as_str(), address.port);
        let found = lookup_host((host, port)).await;
        let found = found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
        // The name is resolved once, and the checked address is the one that the server connects to.
        let mut failure = format!("dial tcp: lookup {host}: no such host");
        for one in found {
            if let Err(why) = address.check(one, self.own_port) {
                failure = format!("dial tcp {one}: {why}");
                continue;
            }
            match https::connect(&one.ip().to_string(), port).await {
                Ok(stream) => return Ok(stream),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    /// A place for a stream; `None` if there are too many.
    pub(crate) fn place(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().ok()
    }
}
