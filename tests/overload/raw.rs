//! A connection without a client library: what is sent is what a test says, and nothing is read
//! unless it says so.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::plane::Plane;
use crate::harness::wait;

/// A connection.
pub(super) struct Raw {
    stream: TcpStream,
}

/// An answer, as far as it came.
#[derive(Debug)]
pub(super) struct Heard {
    /// 0 when there was none.
    pub(super) code: u16,
    pub(super) text: String,
}

pub(super) fn address(plane: &Plane) -> SocketAddr {
    plane.url().strip_prefix("http://").unwrap().parse().unwrap()
}

impl Raw {
    pub(super) async fn connect(plane: &Plane) -> Raw {
        Raw { stream: wait::in_time("a connection", TcpStream::connect(address(plane))).await.unwrap() }
    }

    /// A client with hardly any room for what it does not read.
    pub(super) async fn narrow(plane: &Plane) -> Raw {
        let socket = TcpSocket::new_v4().unwrap();
        SockRef::from(&socket).set_recv_buffer_size(4096).unwrap();
        Raw { stream: wait::in_time("a connection", socket.connect(address(plane))).await.unwrap() }
    }

    /// Sends; false when the server does not take it any more.
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        wait::in_time("sending", self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    /// A GET of HTTP/1.1.
    pub(super) async fn get(&mut self, path: &str) {
        assert!(self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await);
    }

    /// A POST of a config map, whole.
    pub(super) async fn post(&mut self, name: &str, agent: &str) {
        let body = format!("{{\"metadata\":{{\"name\":\"{name}\"}}}}");
        assert!(self.send(head(body.len(), agent) + &body).await);
    }

    /// The head of a POST whose body does not come: it takes a seat for as long as it likes.
    pub(super) async fn post_without_body(&mut self) {
        assert!(self.send(head(100, "holder")).await);
    }

    /// Reads until there is one whole answer with a body of known length, or the connection ends.
    pub(super) async fn answer(&mut self) -> Heard {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !is_whole(&heard) {
            match wait::in_time("an answer", self.stream.read(&mut buffer)).await {
                Ok(0) | Err(_) => break,
                Ok(length) => heard.extend_from_slice(&buffer[..length]),
            }
        }
        let text = String::from_utf8_lossy(&heard).into_owned();
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Heard { code, text }
    }

    /// Reads until the connection ends, and returns all that came.
    pub(super) async fn until_closed(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        let mut buffer = [0; 65536];
        loop {
            match wait::in_time("the end of the connection", self.stream.read(&mut buffer)).await {
                Ok(0) | Err(_) => return heard,
                Ok(length) => heard.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

fn head(length: usize, agent: &str) -> String {
    format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nuser-agent: {agent}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n",
        super::CONFIG_MAPS
    )
}

fn is_whole(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}
