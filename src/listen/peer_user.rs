//! The user of the process at the other end of a loopback connection, as the kernel reports it.
//!
//! The kernel's socket monitoring (`sock_diag(7)`) finds the peer's socket by its addresses, in constant time, and reports the user
//! that created it. That user stays the same if the process changes its user or hands the socket over. Only an established socket
//! with an inode counts: for others (closed, or in TIME_WAIT) the kernel reports user 0.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;
const TCP: u8 = 6;
/// `TCP_ESTABLISHED` of linux/tcp_states.h.
const ESTABLISHED: u8 = 1;

/// struct nlmsghdr and struct inet_diag_req_v2 of linux/inet_diag.h.
const REQUEST_LENGTH: usize = 16 + 56;
/// struct nlmsghdr and struct inet_diag_msg.
const RESPONSE_LENGTH: usize = 16 + 72;

/// The user of the peer of a connection; `None` if the connection does not come from this machine, or the kernel does not know the
/// peer.
pub(super) fn peer_user(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let (peer, local) = (canonical(peer), canonical(local));
    if !peer.ip().is_loopback() || !local.ip().is_loopback() {
        return None;
    }
    match ask(&request(peer, local)) {
        Ok(response) => user_in(&response, peer, local),
        Err(error) => {
            tracing::warn!("the user of a loopback connection cannot be determined: {error}");
            None
        }
    }
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
    // Any interface, and no cookie.
    bytes.extend(0_u32.to_ne_bytes());
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

/// The user in a response, if it is about the socket that was asked for. Pure.
fn user_in(response: &[u8], peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let number = |at: usize| Some(u32::from_ne_bytes(response.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(response.get(4..6)?.try_into().ok()?);
    if kind != BY_FAMILY || response.len() < RESPONSE_LENGTH {
        return None;
    }
    // The client may have an IPv6 socket for an IPv4 connection.
    let is = |peer: SocketAddr, local: SocketAddr| {
        let id = socket_id(peer, local);
        response[16] == family(peer) && response.get(20..20 + id.len()) == Some(id.as_slice())
    };
    let is_same = is(peer, local) || is(mapped(peer), mapped(local));
    let (user, inode) = (number(16 + 4 + 48 + 12)?, number(16 + 4 + 48 + 16)?);
    (is_same && response[17] == ESTABLISHED && inode != 0).then_some(user)
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
        peer_user(server.peer_addr().unwrap(), server.local_addr().unwrap())
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
        assert_eq!(peer_user("192.168.1.7:40000".parse().unwrap(), local), None);
        assert_eq!(peer_user("127.0.0.1:1".parse().unwrap(), local), None, "there is no such socket");
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
            assert_eq!(user_in(&bytes, peer, local), want, "{case}");
        }
    }
}
