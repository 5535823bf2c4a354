//! HTTP/1.1 answers as bytes: the head, chunks, and the lines of a watch. Pure, no I/O.
//!
//! Written for a load that must cost less than the server that it measures: nothing is copied that can
//! be looked at where it arrived.

/// An answer that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the answer is no HTTP/1.1: {0}")]
    Head(String),
    #[error("the answer's chunks are broken")]
    Chunk,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(usize),
    /// Chunks, the last one empty.
    Chunked,
    /// The connection ends.
    ToEnd,
}

/// What stands before the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes of the head itself.
    pub(crate) bytes: usize,
    pub(crate) framing: Framing,
    /// The server closes the connection after this answer.
    pub(crate) closes: bool,
}

/// Reads the head, when all of it is there.
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

/// Where a body of chunks stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the digits of a size.
    Size(usize),
    /// Behind the digits, up to the end of the line.
    AfterSize(usize),
    /// So many bytes of the chunk are missing.
    Data(usize),
    /// At the line end behind the data.
    DataEnd,
    /// In the lines behind the last chunk; so many letters of the line so far.
    Trailer(usize),
    Done,
}

/// Takes the chunks off a body.
#[derive(Debug)]
pub(crate) struct Chunks(ChunkState);

impl Chunks {
    /// At the body's first byte.
    pub(crate) fn new() -> Self {
        Chunks(ChunkState::Size(0))
    }

    /// The body is complete.
    pub(crate) fn done(&self) -> bool {
        self.0 == ChunkState::Done
    }

    /// The next bytes of the body. `None`: all of `bytes` is used up, or the body is complete.
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

    /// The state behind one byte that is no data.
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

/// Cuts a body into lines; a line that arrives in pieces is put together.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Takes more of the body, and hands on each line that is complete, without its end.
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
