//! The socket: where, with or without TLS, and who may come.
//!
//! The rule: whoever can reach a server without authentication can do everything, so without TLS and
//! authentication only addresses of this machine (loopback) are allowed.

mod accept;
pub(crate) mod files;
mod guard;
mod sending;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::accept::DefaultAcceptor;
use hyper_util::rt::TokioTimer;
use orlop_apiserver::auth::Auth;
use orlop_apiserver::auth::token_file::{TokenFile, TokenFileError};
use orlop_apiserver::limits::connection::Connections;

use crate::cli::ListenArgs;
use crate::tls::{self, TlsError};
use accept::Bounded;
use guard::Times;

/// Bytes of a request's head on HTTP/1, and of what waits in a connection's buffers.
const HEAD_MAX: usize = 128 * 1024;
/// Bytes of a request's headers on HTTP/2.
const HEADER_LIST_MAX: u32 = 64 * 1024;
/// Requests at the same time over one connection of HTTP/2 (upstream).
const STREAMS_MAX: u32 = 100;
/// How often a peer on HTTP/2 is asked whether it is there, and how long it has to answer
/// (upstream's clients do the same).
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Where to listen and for whom; checked.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: Option<TlsFiles>,
    client_ca_file: Option<PathBuf>,
    token_auth_file: Option<PathBuf>,
    address_file: Option<PathBuf>,
    times: Times,
    /// How many connections are wanted; 0 is no limit.
    pub(crate) max_connections: usize,
    /// How long requests are taken after a stop signal.
    pub(crate) shutdown_delay: Duration,
}

/// The server's certificate and its key.
#[derive(Debug)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// Flags that do not fit together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// One half of a pair.
    #[error("--tls-cert-file and --tls-private-key-file belong together: give both")]
    HalfTls,
    /// Client certificates are shown in TLS only.
    #[error("--client-ca-file needs TLS: give --tls-cert-file and --tls-private-key-file as well")]
    ClientCaWithoutTls,
    /// Open to the network.
    #[error(
        "--listen {address} can be reached from other machines, so it needs {missing}; or listen on an address of \
         this machine alone, such as 127.0.0.1:{}", address.port()
    )]
    Open { address: SocketAddr, missing: &'static str },
}

/// What went wrong with the socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Bind { address: SocketAddr, error: std::io::Error },
    #[error("the listener on {address} failed: {error}")]
    Serve { address: SocketAddr, error: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error("the address file {} cannot be written: {error}", path.display())]
    AddressFile { path: PathBuf, error: std::io::Error },
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another process has this port: stop it, or give another --listen ADDR:PORT"
        }
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need more rights: give a higher one",
        _ => "",
    }
}

impl Endpoint {
    /// Checks that the flags fit together.
    pub(crate) fn new(args: ListenArgs) -> Result<Self, EndpointError> {
        let tls = match (args.tls_cert_file, args.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(EndpointError::HalfTls),
        };
        if args.client_ca_file.is_some() && tls.is_none() {
            return Err(EndpointError::ClientCaWithoutTls);
        }
        let authenticates = args.client_ca_file.is_some() || args.token_auth_file.is_some();
        if !args.listen.ip().to_canonical().is_loopback() {
            let missing = match (tls.is_some(), authenticates) {
                (true, true) => None,
                (true, false) => Some("authentication: give --token-auth-file or --client-ca-file"),
                (false, true) => Some("TLS: give --tls-cert-file and --tls-private-key-file"),
                (false, false) => Some(
                    "TLS and authentication: give --tls-cert-file and --tls-private-key-file, and --token-auth-file or \
                     --client-ca-file",
                ),
            };
            if let Some(missing) = missing {
                return Err(EndpointError::Open { address: args.listen, missing });
            }
        }
        Ok(Endpoint {
            address: args.listen,
            tls,
            client_ca_file: args.client_ca_file,
            token_auth_file: args.token_auth_file,
            address_file: args.address_file,
            times: Times {
                head: args.read_header_timeout,
                idle: args.idle_timeout,
                write: args.write_timeout,
            },
            max_connections: args.max_connections,
            shutdown_delay: args.shutdown_delay_duration,
        })
    }

    /// Who may come.
    pub(crate) fn auth(&self) -> Result<Auth, TokenFileError> {
        let tokens = self.token_auth_file.as_deref().map(TokenFile::load).transpose()?;
        Ok(Auth::new(tokens.map(Arc::new), self.client_ca_file.is_some()))
    }

    /// Whether clients speak TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The file with the server's certificate and its chain, when there is TLS.
    pub(crate) fn certificate(&self) -> Option<&Path> {
        self.tls.as_ref().map(|files| files.certificate.as_path())
    }

    /// What a person types to see that it works.
    pub(crate) fn kubectl(&self, url: &str) -> String {
        let mut line = format!("kubectl --server {url}");
        if let Some(files) = &self.tls {
            line.push_str(&format!(" --certificate-authority {}", files.certificate.display()));
        }
        if self.token_auth_file.is_some() {
            line.push_str(" --token TOKEN");
        } else if self.client_ca_file.is_some() {
            line.push_str(" --client-certificate FILE --client-key FILE");
        }
        line.push_str(" get ns");
        line
    }

    /// Takes the port. Requests wait until [`Listener::serve`].
    pub(crate) fn bind(&self) -> Result<Listener, ListenError> {
        let failed = |error| ListenError::Bind { address: self.address, error };
        let tls = match &self.tls {
            Some(files) => {
                Some(tls::server_config(&files.certificate, &files.key, self.client_ca_file.as_deref())?)
            }
            None => None,
        };
        let socket = std::net::TcpListener::bind(self.address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Listener { socket, address, tls, times: self.times, handle: Handle::new() })
    }

    /// Tells scripts where to send requests: one line on stdout, and the file if one was asked for.
    pub(crate) fn announce(&self, url: &str) -> Result<(), ListenError> {
        // A closed stdout is the caller's choice, and no reason to stop.
        let _ = writeln!(std::io::stdout(), "listening on {url}");
        let Some(path) = &self.address_file else { return Ok(()) };
        write_whole(path, &format!("{url}\n"))
            .map_err(|error| ListenError::AddressFile { path: path.clone(), error })
    }
}

/// Whoever waits for the file never sees half of it.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    std::fs::write(&name, text)?;
    std::fs::rename(&name, path)
}

/// A port that is taken.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    times: Times,
    handle: Handle<SocketAddr>,
}

impl Listener {
    /// Where requests are to be sent.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where others reach it: at the given address, or at its own. One that listens on all addresses is
    /// reached where this machine would send from.
    pub(crate) fn advertised(&self, given: Option<IpAddr>) -> SocketAddr {
        let own = self.address.ip().to_canonical();
        let ip = given.unwrap_or_else(|| if own.is_unspecified() { outward(own) } else { own });
        SocketAddr::new(ip, self.address.port())
    }

    /// To stop it with.
    pub(crate) fn handle(&self) -> Handle<SocketAddr> {
        self.handle.clone()
    }

    /// Answers requests until the handle stops it and the last connection has ended.
    pub(crate) async fn serve(
        self,
        router: Router,
        connections: Arc<Connections>,
    ) -> Result<(), ListenError> {
        let address = self.address;
        let failed = |error| ListenError::Serve { address, error };
        let mut server = axum_server::from_tcp(self.socket).map_err(failed)?.handle(self.handle);
        let http = server.http_builder();
        // The head's time is watched where idle connections are: see `guard`.
        http.http1().max_buf_size(HEAD_MAX).header_read_timeout(None);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADER_LIST_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT);
        let service = router.into_make_service();
        let times = self.times;
        let served = match self.tls {
            Some(config) => {
                let acceptor = Bounded::new(tls::Acceptor::new(config), connections, times);
                server.acceptor(acceptor).serve(service).await
            }
            None => {
                let acceptor = Bounded::new(DefaultAcceptor::new(), connections, times);
                server.acceptor(acceptor).serve(service).await
            }
        };
        served.map_err(failed)
    }
}

/// The address that this machine sends from, asked of its table of routes: connecting a datagram socket
/// sends nothing. Loopback when there is no way out.
fn outward(any: IpAddr) -> IpAddr {
    // Addresses of RFC 5737 and RFC 3849, which are nobody's.
    let (nobody, loopback): (IpAddr, IpAddr) = match any {
        IpAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into()),
    };
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((nobody, 9))?;
        socket.local_addr()
    });
    asked.map_or(loopback, |address| address.ip())
}

#[cfg(test)]
mod tests;
