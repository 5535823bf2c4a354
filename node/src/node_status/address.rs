//! Detects the address of a node: the source address of its packets to the API server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// An address of TEST-NET-1 (RFC 5737), which is never assigned: its route is the default route.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// The address to publish for this node. A loopback address is useless to other machines, so for a server on this
/// machine the address of the default route is used, and loopback only if there is none. Asks the kernel for a
/// route and sends no packet.
pub fn internal(given: Option<IpAddr>, server: Option<SocketAddr>) -> Option<IpAddr> {
    if given.is_some() {
        return given;
    }
    let to_server = server.and_then(source);
    let outside = to_server.filter(|ip| !ip.is_loopback());
    outside.or_else(|| source(NOWHERE)).or(to_server)
}

/// The source address for packets to a target.
fn source(target: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    // The address of a connection to an IPv4-mapped address is mapped too.
    socket.local_addr().ok().map(|own| own.ip().to_canonical()).filter(|ip| !ip.is_unspecified())
}

/// Resolves the address of a server. None if the name has no address, or if no answer arrives in time.
pub async fn resolve(server: Option<&(String, u16)>) -> Option<SocketAddr> {
    let (host, port) = server?;
    let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), *port));
    let found = tokio::time::timeout(std::time::Duration::from_secs(2), found).await;
    found.ok()?.ok()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_address_wins_and_loopback_is_the_last_resort() {
        let given: IpAddr = [10, 9, 8, 7].into();
        let here: SocketAddr = ([127, 0, 0, 1], 8080).into();
        assert_eq!(internal(Some(given), Some(here)), Some(given));
        assert_eq!(source(here), Some([127, 0, 0, 1].into()));
        let wanted = source(NOWHERE).unwrap_or_else(|| [127, 0, 0, 1].into());
        assert_eq!(internal(None, Some(here)), Some(wanted));
        assert_eq!(internal(None, None), source(NOWHERE));
    }

    #[tokio::test]
    async fn server_names_are_resolved() {
        for (host, wanted) in
            [("127.0.0.1", Some("127.0.0.1:80")), ("[::1]", Some("[::1]:80")), ("no such name", None)]
        {
            let found = resolve(Some(&(host.to_owned(), 80))).await;
            assert_eq!(found.map(|found| found.to_string()).as_deref(), wanted, "{host}");
        }
        assert_eq!(resolve(None).await, None);
    }
}
