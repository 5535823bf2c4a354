//! A connection without a client library: the test chooses the bytes to send, and when to
//! read.

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

/// The received part of an answer.
#[derive(Debug)]
pub(super) struct PartialAnswer {
    /// 0 if there was none.
    pub(super) code: u16,
    pub(super) text: String,
}

pub(super) fn address(plane: &Plane) -> SocketAddr {
    plane.url().strip_prefix("http://").unwrap().parse().unwrap()
}

impl PartialAnswer {
    /// Asserts that it is upstream's answer to an excess request.
    #[track_caller]
    pub(super) fn is_one_too_many(&self) {
        let text = self.text.to_ascii_lowercase();
        assert_eq!(self.code, 429, "{text}");
        for part in [
            "\r\nretry-after: 1\r\n",
            "\r\ncontent-type: text/plain; charset=utf-8\r\n",
            "\r\n\r\ntoo many requests, please try again later.\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}

impl Raw {
    pub(super) async fn connect(plane: &Plane) -> Raw {
        Raw { stream: wait::in_time("a connection", TcpStream::connect(address(plane))).await.unwrap() }
    }

    /// A client with a very small receive buffer.
    pub(super) async fn narrow(plane: &Plane) -> Raw {
        let socket = TcpSocket::new_v4().unwrap();
        SockRef::from(&socket).set_recv_buffer_size(4096).unwrap();
        Raw { stream: wait::in_time("a connection", socket.connect(address(plane))).await.unwrap() }
    }

    /// Sends; returns false if the server no longer accepts bytes.
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        wait::in_time("sending", self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    /// Sends an HTTP/1.1 GET.
    pub(super) async fn get(&mut self, path: &str) {
        assert!(self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await);
    }

    /// Sends a GET with this Accept header.
    pub(super) async fn get_as(&mut self, path: &str, accept: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n");
        assert!(self.send(head).await);
    }

    /// Reads until this text has arrived.
    pub(super) async fn until_contains(&mut self, text: &str) {
        let (mut heard, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while !String::from_utf8_lossy(&heard).contains(text) {
            let length = wait::in_time(text, self.stream.read(&mut buffer)).await.unwrap();
            assert!(length > 0, "the connection ended before {text:?}");
            heard.extend_from_slice(&buffer[..length]);
        }
    }

    /// Reads the beginning of an answer, and returns its code.
    pub(super) async fn status(&mut self) -> u16 {
        let (mut heard, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while !heard.contains(&b'\n') {
            let length = wait::in_time("a status", self.stream.read(&mut buffer)).await.unwrap();
            assert!(length > 0, "the connection ended before a status");
            heard.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&heard).split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// Sends the complete POST of a ConfigMap.
    pub(super) async fn post(&mut self, name: &str, agent: &str) {
        let body = format!("{{\"metadata\":{{\"name\":\"{name}\"}}}}");
        assert!(self.send(head(body.len(), agent) + &body).await);
    }

    /// Sends the head of a POST without its body: it occupies a permit until the request times out.
    pub(super) async fn post_without_body(&mut self) {
        assert!(self.send(head(100, "holder")).await);
    }

    /// Reads until one answer is complete, or the connection ends.
    pub(super) async fn answer(&mut self) -> PartialAnswer {
        let mut heard = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        let mut body = None;
        loop {
            body = body.or_else(|| Length::of(&heard));
            match body {
                Some(Length::Bytes(length)) if heard.len() >= length => break,
                Some(Length::Chunks) if heard.ends_with(b"\r\n0\r\n\r\n") => break,
                Some(_) | None => {}
            }
            match wait::in_time("an answer", self.stream.read(&mut buffer)).await {
                Ok(0) | Err(_) => break,
                Ok(length) => heard.extend_from_slice(&buffer[..length]),
            }
        }
        let text = String::from_utf8_lossy(&heard).into_owned();
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        PartialAnswer { code, text }
    }

    /// Reads until the connection ends, and returns all bytes.
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

/// The end of an answer.
#[derive(Clone, Copy)]
enum Length {
    /// After this number of bytes, including the head.
    Bytes(usize),
    /// With an empty chunk.
    Chunks,
}

impl Length {
    /// Known once the head is complete.
    fn of(heard: &[u8]) -> Option<Length> {
        let end = heard.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&heard[..end]).to_ascii_lowercase();
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return Some(Length::Chunks);
        }
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())?;
        Some(Length::Bytes(end + length))
    }
}

/// The answer to a GET on a new connection. The usual client retries rejected
/// requests, so this one is used to test rejections.
pub(super) async fn get(plane: &Plane, path: &str) -> PartialAnswer {
    let mut client = Raw::connect(plane).await;
    client.get(path).await;
    client.answer().await
}
