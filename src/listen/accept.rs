//! Accepts connections: checks the connection limit, performs the TLS handshake, and adds the timeouts, of writes
//! below TLS and of reads above.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use orlop_apiserver::authentication::PeerUser;
use orlop_apiserver::limits::connection::{Connection, Connections};
use orlop_apiserver::limits::tracked::Tracked;
use orlop_client::peer_user::client_user;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tower::Layer as _;

use super::guard::{Guarded, Times};
use super::sending::Sending;

/// Idle time after which a peer is probed (TCP keepalive).
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// Interval between probes.
const PROBE_EVERY: Duration = Duration::from_secs(15);
/// Number of unanswered probes after which the connection is closed.
const PROBES: u32 = 4;
/// Maximum number of unsent bytes that the system buffers for a connection. The default would be some MiB for
/// each client that does not read.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 128 * 1024;

/// An acceptor with a maximum number of connections.
#[derive(Clone, Debug)]
pub(super) struct Bounded<A> {
    inner: A,
    connections: Arc<Connections>,
    times: Times,
}

impl<A> Bounded<A> {
    pub(super) fn new(inner: A, connections: Arc<Connections>, times: Times) -> Self {
        Bounded { inner, connections, times }
    }

    fn open(&self, stream: &TcpStream) -> io::Result<Connection> {
        let Some(connection) = self.connections.open(stream.peer_addr()?) else {
            let (open, refused) = self.connections.count();
            // Logs the 1st, 2nd, 4th, ... refusal, so that a flood of connections does not flood the log.
            if refused.is_power_of_two() {
                tracing::warn!(
                    open,
                    refused,
                    "too many connections (--max-connections); a new one is closed"
                );
            }
            return Err(io::Error::other("too many connections"));
        };
        Ok(connection)
    }
}

/// Configures the socket: sends without delay, detects dead peers, and limits the unsent bytes for a client that
/// does not read.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    Ok(())
}

/// The user of a client on loopback; `None` if it is not known.
fn user_of(client: SocketAddr, own: SocketAddr) -> Option<u32> {
    /// Clients can cause any number of failures, so only the first one is logged.
    static LOGGED: Once = Once::new();
    client_user(client, own).unwrap_or_else(|error| {
        LOGGED.call_once(|| {
            tracing::warn!(
                "cannot determine the user of a loopback connection: {error}; further failures are not logged"
            );
        });
        None
    })
}

impl<A, S> Accept<TcpStream, S> for Bounded<A>
where
    A: Accept<Sending<TcpStream>, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = Guarded<A::Stream>;
    type Service = Tracked<AddExtension<A::Service, PeerUser>>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let opened = self.open(&stream).and_then(|connection| set_up(&stream).map(|()| connection));
        let connection = match opened {
            Ok(connection) => connection,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let times = self.times;
        let user = stream.local_addr().ok().and_then(|own| user_of(connection.peer(), own));
        // If the peer has reset the connection, another process may have had its address when the kernel was asked.
        let user = PeerUser(user.filter(|_| stream.peer_addr().is_ok()));
        let stream = Sending::new(stream, connection.peer(), times.write);
        let accepted = self.inner.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = accepted.await?;
            let service = Extension(user).layer(service);
            let service = Tracked::new(service, connection.clone(), times.write);
            Ok((Guarded::new(stream, connection, times), service))
        })
    }
}
