//! A connection to a server, with or without TLS.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Bytes to and from a server.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Appends the bytes that have arrived and returns their number; 0 at the end of the stream.
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>, at_least: usize) -> std::io::Result<usize> {
        into.reserve(at_least);
        match self {
            Stream::Plain(stream) => stream.read_buf(into).await,
            Stream::Tls(stream) => stream.read_buf(into).await,
        }
    }

    /// Writes everything.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes).await,
            Stream::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }
}
