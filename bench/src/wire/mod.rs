//! HTTP/1.1 responses as bytes: the head, chunks, and the lines of a watch. Pure, no I/O.
//!
//! Parsing must cost less than the work of the measured server, so bytes are examined in the read buffer
//! instead of being copied.

/// A malformed response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the response is not HTTP/1.1: {0}")]
    Head(String),
    #[error("the answer's chunks are broken")]
    Chunk,
}

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By `Content-Length`.
    Length(usize),
    /// By chunks, the last one empty.
    Chunked,
    /// By the end of the connection.
    ToEnd,
}

/// The head of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The length of the head in bytes.
    pub(crate) bytes: usize,
    pub(crate) framing: Framing,
    /// The server closes the connection after this response.
    pub(crate) closes: bool,
}

/// Parses the head; `None` if it is incomplete.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>, WireError> {
    let mut headers = [httparse::EMPTY_HEADER; 48];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|error| WireError::Head(error.to_string()))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    let mut framing = Framing::ToEnd;
    let mut closes = false;
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let length = text.parse().map_err(|_| WireError::Head(format!("content-length {text:?}")))?;
            framing = Framing::Length(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if header.value.eq_ignore_ascii_case(b"chunked") {
                framing = Framing::Chunked;
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            closes = header.value.eq_ignore_ascii_case(b"close");
        }
    }
    if status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    Ok(Some(Head { status, bytes: length, framing, closes }))
}

/// The position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the digits of the size, with the value so far.
    Size(usize),
    /// After the digits, before the end of the line.
    AfterSize(usize),
    /// In the data of a chunk, with the number of remaining bytes.
    Data(usize),
    /// In the line end after the data.
    DataEnd,
    /// In the trailer after the last chunk, with the length of the current line so far.
    Trailer(usize),
    Done,
}

/// A decoder of chunked bodies.
#[derive(Debug)]
pub(crate) struct Chunks(ChunkState);

impl Chunks {
    /// A decoder at the start of a body.
    pub(crate) fn new() -> Self {
        Chunks(ChunkState::Size(0))
    }

    /// Whether the body is complete.
    pub(crate) fn done(&self) -> bool {
        self.0 == ChunkState::Done
    }

    /// Returns the next bytes of the body; `None` if `bytes` is empty or the body is complete.
    pub(crate) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, WireError> {
        loop {
            if let ChunkState::Data(left) = self.0 {
                if bytes.is_empty() {
                    return Ok(None);
                }
                let (data, rest) = bytes.split_at(left.min(bytes.len()));
                *bytes = rest;
                self.0 = if data.len() == left {
                    ChunkState::DataEnd
                } else {
                    ChunkState::Data(left - data.len())
                };
                return Ok(Some(data));
            }
            if self.done() {
                return Ok(None);
            }
            let Some((byte, rest)) = bytes.split_first() else { return Ok(None) };
            *bytes = rest;
            self.0 = self.step(*byte)?;
        }
    }

    /// The state after one byte that is not data.
    fn step(&self, byte: u8) -> Result<ChunkState, WireError> {
        let sized = |size| if size == 0 { ChunkState::Trailer(0) } else { ChunkState::Data(size) };
        match (self.0, byte) {
            (ChunkState::Size(size) | ChunkState::AfterSize(size), b'\n') => Ok(sized(size)),
            (ChunkState::Size(size), b'\r' | b';' | b' ') => Ok(ChunkState::AfterSize(size)),
            (ChunkState::Size(size), byte) => {
                let digit = char::from(byte).to_digit(16).ok_or(WireError::Chunk)?;
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit as usize));
                size.map(ChunkState::Size).ok_or(WireError::Chunk)
            }
            (ChunkState::AfterSize(size), _) => Ok(ChunkState::AfterSize(size)),
            (ChunkState::DataEnd, b'\r') => Ok(ChunkState::DataEnd),
            (ChunkState::DataEnd, b'\n') => Ok(ChunkState::Size(0)),
            (ChunkState::DataEnd, _) => Err(WireError::Chunk),
            (ChunkState::Trailer(letters), b'\r') => Ok(ChunkState::Trailer(letters)),
            (ChunkState::Trailer(0), b'\n') => Ok(ChunkState::Done),
            (ChunkState::Trailer(_), b'\n') => Ok(ChunkState::Trailer(0)),
            (ChunkState::Trailer(letters), _) => Ok(ChunkState::Trailer(letters + 1)),
            (ChunkState::Data(_) | ChunkState::Done, _) => Err(WireError::Chunk),
        }
    }
}

/// Splits a body into lines. Lines that arrive in pieces are joined.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Adds bytes of the body and passes each complete line to `on_line`, without its line end.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut on_line: impl FnMut(&[u8])) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            if self.begun.is_empty() {
                on_line(&bytes[..at]);
            } else {
                self.begun.extend_from_slice(&bytes[..at]);
                on_line(&self.begun);
                self.begun.clear();
            }
            bytes = &bytes[at + 1..];
        }
        self.begun.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
