//! The address of a node: the one that its packets to the server come from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// An address of TEST-NET-1 (RFC 5737): nobody has it, so what leads there is the default route.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// The address that tells others where this node is. Over loopback nobody else reaches it, so where the server is on this machine the
/// default route counts, and loopback only if there is none. Asks the kernel for a route, sends nothing.
pub fn internal(given: Option<IpAddr>, server: Option<SocketAddr>) -> Option<IpAddr> {
    if given.is_some() {
        return given;
    }
    let to_server = server.and_then(source);
    let outside = to_server.filter(|ip| !ip.is_loopback());
    outside.or_else(|| source(NOWHERE)).or(to_server)
}

/// The own address on the way to another one.
fn source(target: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
}

/// The address of a server by its name. None if it has none, or if nobody says so in time.
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
    fn what_is_given_wins_and_loopback_is_the_last_resort() {
        let given: IpAddr = [10, 9, 8, 7].into();
        let here: SocketAddr = ([127, 0, 0, 1], 8080).into();
        assert_eq!(internal(Some(given), Some(here)), Some(given));
        assert_eq!(source(here), Some([127, 0, 0, 1].into()));
        let wanted = source(NOWHERE).unwrap_or_else(|| [127, 0, 0, 1].into());
        assert_eq!(internal(None, Some(here)), Some(wanted));
        assert_eq!(internal(None, None), source(NOWHERE));
    }

    #[tokio::test]
    async fn names_of_servers() {
        for (host, wanted) in
            [("127.0.0.1", Some("127.0.0.1:80")), ("[::1]", Some("[::1]:80")), ("no such name", None)]
        {
            let found = resolve(Some(&(host.to_owned(), 80))).await;
            assert_eq!(found.map(|found| found.to_string()).as_deref(), wanted, "{host}");
        }
        assert_eq!(resolve(None).await, None);
    }
}
