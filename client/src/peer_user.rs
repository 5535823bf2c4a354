//! The users of the processes at the two ends of a loopback connection, as the kernel reports them.
//!
//! The kernel's socket monitoring (`sock_diag(7)`) finds a socket by its addresses, in constant time, and reports the user that created
//! it. That user stays the same if the process changes its user or hands the socket over. Only an established socket with an inode
//! counts: for others (closed, or in TIME_WAIT) the kernel reports user 0.
//!
//! The kernel itself accepts the connections of some listeners (`AF_SMC`), as root. Therefore a server is known by its connection and by
//! its listener, which a process has created.
//!
//! The kernel finds a socket that is bound to a network interface only if the query names this interface. All connections of a machine
//! to itself use the loopback interface, whatever their addresses are.
//!
//! In a user namespace, the kernel reports every user without a mapping as the overflow user (`/proc/sys/kernel/overflowuid`), so that
//! this user is unknown there, even if it has the same ID as the user of this process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;
const TCP: u8 = 6;
/// States of linux/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_RECEIVED: u8 = 3;
const LISTENING: u8 = 10;
/// The loopback interface of every network namespace: `LOOPBACK_IFINDEX` of Linux (net/flow.h).
const LOOPBACK: u32 = 1;
/// The overflow user if the kernel does not report it.
const DEFAULT_OVERFLOW_USER: u32 = 65_534;

/// The overflow user; `None` if every user has an ID in this user namespace.
static UNMAPPED: LazyLock<Option<u32>> = LazyLock::new(|| {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    unmapped_user(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
});

/// struct nlmsghdr and struct inet_diag_req_v2 of linux/inet_diag.h.
const REQUEST_LENGTH: usize = 16 + 56;
/// struct nlmsghdr and struct inet_diag_msg.
const RESPONSE_LENGTH: usize = 16 + 72;

/// The users at the other end of a connection that this process has opened to a server on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerUser {
    /// The users that have created the two sockets of the server. They differ if one process listens for another one, for example
    /// systemd.
    Known {
        /// The user of the accepted connection.
        connection: u32,
        /// The user of the socket that has accepted it.
        listener: u32,
    },
    /// A user has no ID in this user namespace.
    Unmapped,
    /// The server has closed the connection, no longer listens, or does not exist.
    Closed,
    /// The connection is open, but its other end is not in this network namespace: a rule of the administrator (NAT) forwards the port.
    Forwarded,
}

/// The user of the client of an accepted connection; `None` if the connection does not come from this machine, or the kernel does not
/// know the client.
///
/// # Errors
/// The kernel provides no socket monitoring to this process.
pub fn client_user(client: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    let (client, own) = (canonical(client), canonical(own));
    if !client.ip().is_loopback() || !own.ip().is_loopback() {
        return Ok(None);
    }
    let found = socket_in(&ask(&request(client, own))?, client, own);
    Ok(found.and_then(FoundSocket::user).filter(|user| Some(*user) != *UNMAPPED))
}

/// The users of the server of a connection that this process has opened; `None` if the server is on another machine. A port of an address
/// other than loopback that is forwarded counts as another machine.
///
/// # Errors
/// The kernel provides no socket monitoring to this process.
pub fn server_user(server: SocketAddr, own: SocketAddr) -> io::Result<Option<ServerUser>> {
    let (server, own) = (canonical(server), canonical(own));
    // A connection to an address of this machine has this address on both ends.
    if server.ip() != own.ip() && !(server.ip().is_loopback() && own.ip().is_loopback()) {
        return Ok(None);
    }
    let own_end = || io::Result::Ok(socket_in(&ask(&request(own, server))?, own, server));
    let server_end = || io::Result::Ok(socket_in(&ask(&request(server, own))?, server, own));
    // Without the module inet_diag, the kernel finds no socket at all.
    if own_end()?.is_none() {
        return Err(io::Error::other("the kernel does not find the socket of this process"));
    }
    let mut connection = server_end()?;
    let listener = listener_in(&ask(&request(server, nowhere(server)))?, server);
    // While the connection waits to be accepted, its listener is the one that was found.
    if connection.is_some_and(FoundSocket::is_queued) {
        connection = server_end()?;
    }
    // Read last: if the connection is still open but has no other end, its port is forwarded.
    let is_open = own_end()?.is_some_and(|own| own.state == ESTABLISHED);
    let user = user_of_server(connection, listener, is_open, *UNMAPPED);
    Ok(Some(user).filter(|user| *user != ServerUser::Forwarded || server.ip().is_loopback()))
}

/// The user of a server with these sockets. `is_open` is whether the client's end of the connection is open, and `unmapped` the overflow
/// user. Pure.
fn user_of_server(
    connection: Option<FoundSocket>,
    listener: Option<u32>,
    is_open: bool,
    unmapped: Option<u32>,
) -> ServerUser {
    let user = match connection {
        // If its queue is full, the listener accepts the connection with the first data.
        None if is_open && listener.is_some() => listener,
        None if is_open => return ServerUser::Forwarded,
        None => None,
        Some(socket) if socket.is_queued() => listener,
        Some(socket) => socket.user(),
    };
    match user.zip(listener) {
        None => ServerUser::Closed,
        Some((connection, listener)) if [connection, listener].map(Some).contains(&unmapped) => {
            ServerUser::Unmapped
        }
        Some((connection, listener)) => ServerUser::Known { connection, listener },
    }
}

/// The user that represents all users without a mapping; `None` if every user has one. Pure.
fn unmapped_user(uid_map: &str, overflow: &str) -> Option<u32> {
    let is_whole = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    (!is_whole).then(|| overflow.trim().parse().unwrap_or(DEFAULT_OVERFLOW_USER))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// No peer: the kernel finds the listener of the address.
fn nowhere(like: SocketAddr) -> SocketAddr {
    let ip = match like.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

fn ask(request: &[u8]) -> io::Result<Vec<u8>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    rustix::net::sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut response = vec![0; 8192];
    // The kernel answers before the request returns.
    let (length, _) = rustix::net::recv(&socket, &mut *response, RecvFlags::DONTWAIT)?;
    response.truncate(length);
    Ok(response)
}

/// Asks for the socket whose own address is `peer`, and whose peer is `local`.
fn request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_LENGTH);
    bytes.extend((REQUEST_LENGTH as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family(peer), TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(socket_id(peer, local));
    // No cookie.
    bytes.extend(LOOPBACK.to_ne_bytes());
    bytes.extend([0xff; 8]);
    bytes
}

fn family(address: SocketAddr) -> u8 {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    family.as_raw() as u8
}

/// Ports and addresses of struct inet_diag_sockid.
fn socket_id(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(36);
    bytes.extend(own.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    for address in [own.ip(), peer.ip()] {
        let mut words = [0; 16];
        match address {
            IpAddr::V4(ip) => words[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => words.copy_from_slice(&ip.octets()),
        }
        bytes.extend(words);
    }
    bytes
}

/// A socket in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundSocket {
    state: u8,
    user: u32,
    inode: u32,
}

impl FoundSocket {
    /// The user of an established connection that a process owns.
    fn user(self) -> Option<u32> {
        (self.state == ESTABLISHED && self.inode != 0).then_some(self.user)
    }

    /// Whether the connection waits for its listener to accept it: it is open, but no process owns it.
    fn is_queued(self) -> bool {
        matches!(self.state, ESTABLISHED | SYN_RECEIVED) && self.inode == 0
    }
}

fn fields(response: &[u8]) -> Option<FoundSocket> {
    let number = |at: usize| Some(u32::from_ne_bytes(response.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(response.get(4..6)?.try_into().ok()?);
    if kind != BY_FAMILY || response.len() < RESPONSE_LENGTH {
        return None;
    }
    let (user, inode) = (number(16 + 4 + 48 + 12)?, number(16 + 4 + 48 + 16)?);
    Some(FoundSocket { state: response[17], user, inode })
}

/// The socket in a response, if it is the one that was asked for. Pure.
fn socket_in(response: &[u8], own: SocketAddr, peer: SocketAddr) -> Option<FoundSocket> {
    let found = fields(response)?;
    // The process may have an IPv6 socket for an IPv4 connection.
    let is = |own: SocketAddr, peer: SocketAddr| {
        let id = socket_id(own, peer);
        response[16] == family(own) && response.get(20..20 + id.len()) == Some(id.as_slice())
    };
    (is(own, peer) || is(mapped(own), mapped(peer))).then_some(found)
}

/// The user of the listener in a response. Its address may be any address of this machine. Pure.
fn listener_in(response: &[u8], address: SocketAddr) -> Option<u32> {
    let found = fields(response)?;
    let is_same = response.get(20..22) == Some(&address.port().to_be_bytes()[..]);
    (is_same && found.state == LISTENING && found.inode != 0).then_some(found.user)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let to = listener.local_addr().unwrap();
        let to = if to.ip().is_unspecified() { format!("127.0.0.1:{}", to.port()) } else { to.to_string() };
        let client = TcpStream::connect(to).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn user(server: &TcpStream) -> Option<u32> {
        client_user(server.peer_addr().unwrap(), server.local_addr().unwrap()).unwrap()
    }

    fn server_of(client: &TcpStream) -> Option<ServerUser> {
        server_user(client.peer_addr().unwrap(), client.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn overflow_user_is_unknown_unless_all_users_are_mapped() {
        for (case, map, overflow, want) in [
            ("1 the whole machine", "         0          0 4294967295\n", "65534\n", None),
            ("2 no mapping", "", "65534\n", Some(65_534)),
            ("3 one user", "65534 100000 1\n", "65534\n", Some(65_534)),
            ("4 a container", "0 100000 65536\n", "65533\n", Some(65_533)),
            ("5 two ranges", "0 0 1\n1 1 4294967294\n", "65534\n", Some(65_534)),
            ("6 unreadable", "", "", Some(65_534)),
        ] {
            assert_eq!(unmapped_user(map, overflow), want, "{case}");
        }
    }

    fn known(user: u32) -> Option<ServerUser> {
        Some(ServerUser::Known { connection: user, listener: user })
    }

    #[test]
    fn server_is_known_by_its_connection_and_its_listener() {
        let socket = |state, inode| Some(FoundSocket { state, user: 7, inode });
        let known = |connection, listener| ServerUser::Known { connection, listener };
        for (case, connection, listener, is_open, want) in [
            ("1 accepted", socket(ESTABLISHED, 1), Some(7), true, known(7, 7)),
            ("2 accepted for another process", socket(ESTABLISHED, 1), Some(8), true, known(7, 8)),
            ("3 in the queue", socket(ESTABLISHED, 0), Some(8), true, known(8, 8)),
            ("4 in the queue without data", socket(SYN_RECEIVED, 0), Some(8), true, known(8, 8)),
            ("5 nothing listens", socket(ESTABLISHED, 1), None, true, ServerUser::Closed),
            ("6 the queue is gone", socket(ESTABLISHED, 0), None, true, ServerUser::Closed),
            ("7 half closed", socket(5, 1), Some(7), true, ServerUser::Closed),
            ("8 closed", None, Some(7), false, ServerUser::Closed),
            ("9 closed, and nothing listens", None, None, false, ServerUser::Closed),
            ("10 the queue is full", None, Some(7), true, known(7, 7)),
            ("11 forwarded", None, None, true, ServerUser::Forwarded),
        ] {
            assert_eq!(user_of_server(connection, listener, is_open, None), want, "{case}");
        }
        for unmapped in [7, 8] {
            let user = user_of_server(socket(ESTABLISHED, 1), Some(8), true, Some(unmapped));
            assert_eq!(user, ServerUser::Unmapped, "{unmapped}");
        }
    }

    #[test]
    fn sockets_of_the_loopback_interface_are_found() {
        if !orlop_test_support::privileges::has_root("a socket that is bound to an interface") {
            return;
        }
        let bound = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind_device(Some(b"lo")).unwrap();
            socket
        };
        let listener = bound();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(1).unwrap();
        let listener = TcpListener::from(listener);
        let own = rustix::process::geteuid().as_raw();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(server_of(&client), known(own), "a server");
        let client = bound();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        assert_eq!(user(&listener.accept().unwrap().0), Some(own), "a client");
    }

    #[test]
    fn other_users_are_reported() {
        if !orlop_test_support::privileges::has_root("sockets of another user") {
            return;
        }
        let give = |socket: &dyn std::os::fd::AsFd| {
            std::os::unix::fs::fchown(socket.as_fd(), Some(65_533), None).unwrap();
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        give(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(server_of(&client), known(65_533), "not accepted");
        let (server, _) = listener.accept().unwrap();
        let two = ServerUser::Known { connection: 0, listener: 65_533 };
        assert_eq!(server_of(&client), Some(two), "accepted by this process");
        give(&server);
        assert_eq!(server_of(&client), known(65_533), "accepted");
        give(&client);
        assert_eq!(user(&server), Some(65_533));
    }

    #[test]
    fn server_is_known_before_and_after_it_accepts() {
        let own = known(rustix::process::geteuid().as_raw());
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
            let client = TcpStream::connect(&to).unwrap();
            assert_eq!(server_of(&client), own, "{address}: not accepted");
            let (server, _) = listener.accept().unwrap();
            assert_eq!(server_of(&client), own, "{address}: accepted");
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server_of(&client), Some(ServerUser::Closed), "{address}: half closed");
            let client = TcpStream::connect(&to).unwrap();
            let _server = listener.accept().unwrap();
            // Another process may listen there now.
            drop(listener);
            assert_eq!(server_of(&client), Some(ServerUser::Closed), "{address}: nothing listens");
        }
    }

    #[test]
    fn connections_of_this_process_have_its_user() {
        let own = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(_) = TcpListener::bind(address) else {
                assert!(address.contains(':'), "{address}");
                continue;
            };
            let (_client, server) = pair(address);
            assert_eq!(user(&server), Some(own), "{address}");
        }
    }

    #[test]
    fn client_with_an_ipv6_socket_for_an_ipv4_address_has_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None);
        let Ok(socket) = socket else { return };
        let to = mapped(listener.local_addr().unwrap());
        socket.connect(&to.into()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(user(&server), Some(rustix::process::geteuid().as_raw()));
    }

    #[test]
    fn closed_connection_has_no_user() {
        let (client, server) = pair("127.0.0.1:0");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(user(&server), None, "half closed");
        drop(client);
        assert_eq!(user(&server), None, "closed");
    }

    #[test]
    fn other_machines_have_no_user() {
        let local = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(client_user("192.168.1.7:40000".parse().unwrap(), local).unwrap(), None);
        let absent = client_user("127.0.0.1:1".parse().unwrap(), local).unwrap();
        assert_eq!(absent, None, "there is no such socket");
    }

    #[test]
    fn only_the_socket_that_was_asked_for_counts() {
        let (peer, local): (SocketAddr, SocketAddr) =
            ("127.0.0.1:4000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        let response = |state: u8, id: Vec<u8>, inode: u32| {
            let mut bytes = vec![0; 16];
            bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
            bytes.extend([family(peer), state, 0, 0]);
            bytes.extend(id);
            bytes.resize(16 + 4 + 48 + 12, 0);
            bytes.extend(1000_u32.to_ne_bytes());
            bytes.extend(inode.to_ne_bytes());
            bytes
        };
        let own = || socket_id(peer, local);
        for (case, bytes, want) in [
            ("1 established", response(ESTABLISHED, own(), 7), Some(1000)),
            ("2 in TIME_WAIT", response(6, own(), 7), None),
            ("3 without an inode", response(ESTABLISHED, own(), 0), None),
            ("4 another socket", response(ESTABLISHED, socket_id(local, peer), 7), None),
            ("5 an error", vec![0; RESPONSE_LENGTH], None),
            ("6 cut off", response(ESTABLISHED, own(), 7)[..60].to_vec(), None),
            ("7 empty", Vec::new(), None),
        ] {
            let found = socket_in(&bytes, peer, local);
            assert_eq!(found.and_then(FoundSocket::user), want, "{case}");
        }
        // name, state, inode, in the queue, a listener
        for (case, state, inode, is_queued, is_listener) in [
            ("1 accepted", ESTABLISHED, 7, false, false),
            ("2 not accepted", ESTABLISHED, 0, true, false),
            ("3 not accepted without data", SYN_RECEIVED, 0, true, false),
            ("4 half closed", 5, 7, false, false),
            ("5 closed", 5, 0, false, false),
            ("6 a listener", LISTENING, 7, false, true),
            ("7 a listener without a process", LISTENING, 0, false, false),
        ] {
            let bytes = response(state, own(), inode);
            assert_eq!(socket_in(&bytes, peer, local).unwrap().is_queued(), is_queued, "{case}");
            assert_eq!(listener_in(&bytes, peer).is_some(), is_listener, "{case}");
            assert_eq!(listener_in(&bytes, local), None, "{case}: another port");
        }
    }
}
