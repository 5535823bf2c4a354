//! The listening socket: with or without TLS, with authentication and limits on connections.
//!
//! `orlop_cli::config::ListenConfig` contains the address and refuses unsafe combinations.

mod accept;
pub(crate) mod files;
mod first_byte;
mod guard;
mod head;
mod identification;
mod sending;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::accept::DefaultAcceptor;
use hyper_util::rt::TokioTimer;
use jiff::Timestamp;
use orlop_apiserver::ApiService;
use orlop_apiserver::limits::connection::Connections;
use orlop_apiserver::peer_certificates::ClientAuthorities;
use orlop_auth::file_version::{FileCheck, ReadVersion};
use orlop_auth::token_file::{TokenFile, TokenFileError};
use orlop_cli::config::{ListenConfig, LoopbackAccess, TlsSource};
use orlop_cli::output_file;
use tokio::time::MissedTickBehavior;

use crate::tls::{self, ClientAuthorityFiles, TlsError, TlsKeeper, TlsOrigin};
use accept::Bounded;
use first_byte::TlsOrHttp;
use guard::Times;

/// Maximum connections that wait to be accepted: when more arrive at once, their clients try again after a second.
const BACKLOG: i32 = 4096;
/// Maximum bytes of a request head on HTTP/1, and of a connection's buffers.
const HEAD_MAX: usize = 128 * 1024;
/// Maximum bytes of a request's headers on HTTP/2.
const HEADER_LIST_MAX: u32 = 64 * 1024;
/// Maximum concurrent requests on an HTTP/2 connection (upstream).
const STREAMS_MAX: u32 = 100;
/// Period of HTTP/2 pings, and the time limit for their answer (as in upstream's clients).
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How often certificates and tokens are compared with their files.
const CHECK_FILES_EVERY: Duration = Duration::from_secs(10);

/// Why the socket failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Bind { address: SocketAddr, error: std::io::Error },
    #[error("the listener on {address} failed: {error}")]
    Serve { address: SocketAddr, error: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the address file {} cannot be written: {error}", path.display())]
    AddressFile { path: PathBuf, error: std::io::Error },
    #[error(
        "the process may open {files} files, and the server needs {least}: raise that limit (ulimit -Hn, LimitNOFILE=)"
    )]
    FewFiles { files: u64, least: u64 },
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another process uses this port: stop it, or use another --listen ADDR:PORT"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 require more privileges: use a higher one"
        }
        _ => "",
    }
}

/// The files with the authorities of client certificates.
pub(crate) fn client_authority_files(config: &ListenConfig) -> ClientAuthorityFiles {
    let options = &config.authentication;
    ClientAuthorityFiles {
        users: options.client_ca_file.clone(),
        proxies: options.front_proxy.as_ref().map(|proxy| proxy.ca_file.clone()),
    }
}

/// Binds the port. Connections wait until [`Listener::serve`]. A listener with certificates of the server's own authority needs
/// [`Listener::secure`] before. `authorities` receives the authorities of client certificates.
pub(crate) fn bind(
    config: &ListenConfig,
    authorities: Option<Arc<ClientAuthorities>>,
) -> Result<Listener, ListenError> {
    let failed = |error| ListenError::Bind { address: config.address, error };
    let tls = match &config.tls {
        Some(TlsSource::Files(files)) => {
            let origin = TlsOrigin::Files(files.clone());
            let files = client_authority_files(config);
            Some(TlsKeeper::new(origin, files, authorities.unwrap_or_default(), Timestamp::now())?)
        }
        Some(TlsSource::OwnAuthority { .. }) | None => None,
    };
    let socket = std::net::TcpListener::bind(config.address).map_err(failed)?;
    // A second call changes the length of the queue.
    rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed(errno.into()))?;
    socket.set_nonblocking(true).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    if !config.authenticates() && config.loopback == LoopbackAccess::OwnUser {
        identification::report();
    }
    let times =
        Times { head: config.read_header_timeout, idle: config.idle_timeout, write: config.write_timeout };
    let (has_tls, accepts_http) = (config.has_tls(), config.accepts_http);
    Ok(Listener { socket, address, has_tls, accepts_http, tls, times, handle: Handle::new() })
}

/// Publishes the URL: prints a line to stdout, and writes the address file if there is one.
pub(crate) fn announce(config: &ListenConfig, url: &str) -> Result<(), ListenError> {
    // A closed stdout is no reason to stop.
    let _ = writeln!(std::io::stdout(), "listening on {url}");
    let Some(path) = &config.address_file else { return Ok(()) };
    write_whole(path, &format!("{url}\n"))
        .map_err(|error| ListenError::AddressFile { path: path.clone(), error })
}

/// Writes atomically: a process that waits for the file never reads partial content.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    output_file::check_replaceable(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    // Another user's link in a shared directory is removed and never opened.
    match std::fs::remove_file(&name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    std::fs::File::create_new(&name)?.write_all(text.as_bytes())?;
    std::fs::rename(&name, path)
}

/// A bound port.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
    has_tls: bool,
    accepts_http: bool,
    tls: Option<TlsKeeper>,
    times: Times,
    handle: Handle<SocketAddr>,
}

impl Listener {
    /// The URL of the server. `http` if the port accepts both TLS and plain HTTP, because browsers do not know the server's authority.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.has_tls && !self.accepts_http { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The address at which other machines reach the server: the given address, or the listening one. For all
    /// addresses, the source address of outgoing traffic.
    pub(crate) fn advertised(&self, given: Option<IpAddr>) -> SocketAddr {
        let own = self.address.ip().to_canonical();
        let ip = given.unwrap_or_else(|| if own.is_unspecified() { outward(own) } else { own });
        SocketAddr::new(ip, self.address.port())
    }

    /// The handle that stops the listener.
    pub(crate) fn handle(&self) -> Handle<SocketAddr> {
        self.handle.clone()
    }

    /// Sets the TLS configuration.
    pub(crate) fn secure(&mut self, tls: TlsKeeper) {
        self.tls = Some(tls);
    }

    /// Serves requests until the handle stops the listener and the last connection has ended.
    pub(crate) async fn serve(
        self,
        service: impl Into<ApiService>,
        connections: Arc<Connections>,
        tokens: Option<Arc<TokenFile>>,
    ) -> Result<(), ListenError> {
        let address = self.address;
        let failed = |error| ListenError::Serve { address, error };
        let mut server = axum_server::from_tcp(self.socket).map_err(failed)?.handle(self.handle);
        let http = server.http_builder();
        // `guard` watches the time limit of the head together with the idle time.
        http.http1().max_buf_size(HEAD_MAX).header_read_timeout(None);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADER_LIST_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT);
        let service = axum::ServiceExt::<axum::extract::Request>::into_make_service(service.into());
        let (times, accepts_http) = (self.times, self.accepts_http);
        let tls = self.tls.as_ref().map(|keeper| tls::Acceptor::new(keeper.config(), keeper.authorities()));
        let serving = async {
            match tls {
                Some(tls) if accepts_http => {
                    let both = TlsOrHttp::new(tls, times.head);
                    let acceptor = Bounded::new(both, connections, times);
                    server.acceptor(acceptor).serve(service).await
                }
                Some(tls) => {
                    let acceptor = Bounded::new(tls, connections, times);
                    server.acceptor(acceptor).serve(service).await
                }
                None => {
                    let acceptor = Bounded::new(DefaultAcceptor::new(), connections, times);
                    server.acceptor(acceptor).serve(service).await
                }
            }
        };
        tokio::select! {
            served = serving => served.map_err(failed),
            never = keep_current(self.tls, tokens) => match never {},
        }
    }
}

/// Reads changed certificates and tokens again, and renews the server's own certificate.
async fn keep_current(
    mut tls: Option<TlsKeeper>,
    tokens: Option<Arc<TokenFile>>,
) -> std::convert::Infallible {
    // The file may have changed since the server has read it: it is read once more.
    let mut read = ReadVersion::default();
    let mut ticks = tokio::time::interval(CHECK_FILES_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(tls) = &mut tls {
            tls.check(Timestamp::now());
        }
        let Some(tokens) = &tokens else { continue };
        let reload = || match tokens.reload() {
            Ok(()) => Ok(()),
            Err(error @ TokenFileError::Empty { .. }) => {
                tracing::error!("no token of --token-auth-file is valid any more: {error}");
                Ok(())
            }
            Err(
                error @ (TokenFileError::Read { .. }
                | TokenFileError::Line { .. }
                | TokenFileError::User { .. }),
            ) => Err(error.to_string()),
        };
        match read.check(tokens.path(), reload) {
            FileCheck::Read => tracing::debug!("the tokens are current"),
            FileCheck::Failed(problem) => {
                tracing::error!("the previous tokens of --token-auth-file stay valid: {problem}");
            }
            FileCheck::Unchanged | FileCheck::StillFailed => {}
        }
    }
}

/// The source address of outgoing traffic according to the routing table: connecting a datagram socket sends
/// nothing. Loopback if there is no route.
fn outward(any: IpAddr) -> IpAddr {
    // Documentation addresses of RFC 5737 and RFC 3849.
    let (discard, loopback): (IpAddr, IpAddr) = match any {
        IpAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into()),
    };
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((discard, 9))?;
        socket.local_addr()
    });
    asked.map_or(loopback, |address| address.ip())
}

#[cfg(test)]
mod tests;
