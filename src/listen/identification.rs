//! Whether the server can identify the users of loopback connections.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use orlop_client::peer_user::client_user;

/// Logs an error if the server cannot identify the users of loopback connections: it then rejects all requests without credentials.
pub(super) fn report() {
    if let Some(problem) = problem(own_connection()) {
        tracing::error!("{problem}");
    }
}

/// The user of a connection that this process opens to itself.
fn own_connection() -> io::Result<Option<u32>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _client = TcpStream::connect(listener.local_addr()?)?;
    let (server, client) = listener.accept()?;
    client_user(client, server.local_addr()?)
}

fn problem(found: io::Result<Option<u32>>) -> Option<String> {
    let why = match found {
        Ok(Some(_)) => return None,
        Ok(None) => "the kernel does not report the user of this process".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "the users of loopback connections cannot be determined ({why}), so the server rejects all requests without credentials. The \
         server needs netlink sockets: add AF_NETLINK to RestrictAddressFamilies= of its systemd unit, and map its user if it runs in a \
         user namespace. Or use TLS with a kubeconfig (--tls-san localhost)"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn missing_netlink_is_reported() {
        assert_eq!(problem(own_connection()), None);
        assert_eq!(problem(Ok(Some(0))), None);
        for found in [Ok(None), Err(io::Error::from_raw_os_error(97))] {
            let problem = problem(found).unwrap();
            assert!(problem.contains("AF_NETLINK"), "{problem}");
        }
    }

    /// The listener needs IPv4, IPv6 and netlink (`orlop_client::peer_user`); CSI drivers and systemd use Unix sockets.
    #[test]
    fn systemd_unit_allows_the_sockets_of_the_server() {
        let unit = include_str!("../../packaging/orlop.service");
        let families = unit.lines().find_map(|line| line.strip_prefix("RestrictAddressFamilies=")).unwrap();
        for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"] {
            assert!(families.split(' ').any(|allowed| allowed == family), "{family}: {families}");
        }
    }
}
