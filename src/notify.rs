//! Tells systemd how far this process is (`sd_notify`): one datagram to the socket that `NOTIFY_SOCKET` names. Without the variable nothing
//! is told, and nothing that goes wrong here ends the process.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Requests are taken, or the node has begun.
pub(crate) fn ready() {
    tell("READY=1");
}

/// The end has begun.
pub(crate) fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::debug!(%error, "systemd was not told: {state}");
    }
}

/// A name that begins with `@` is one of the abstract namespace.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_socket_gets_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let name = format!("orlop-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, address) in [
            (path.clone().into_os_string(), SocketAddr::from_pathname(&path).unwrap()),
            (format!("@{name}").into(), abstract_address),
        ] {
            let listener = UnixDatagram::bind_addr(&address).unwrap();
            send(&socket, "READY=1").unwrap();
            let mut text = [0; 32];
            let length = listener.recv(&mut text).unwrap();
            assert_eq!(&text[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/socket"), "READY=1").is_err());
    }
}
