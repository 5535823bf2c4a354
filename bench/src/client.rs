//! A cheap HTTP client: one connection, one request at a time, responses as bytes.
//!
//! It writes a request with one system call and examines the response in the read buffer. It parses only
//! what the row needs.

use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::stream::Stream;
use crate::wire::{self, Chunks, Framing, Head, Lines};

/// Timeout of a request. A request that times out counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Free space in the buffer before each read.
const READ: usize = 16 << 10;
/// Free space in the buffer before each read of a large response.
const LARGE_READ: usize = 256 << 10;

/// A request to send. Requests and their buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Empty for a request without a body.
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Draft {
    /// A request without a body.
    pub(crate) fn of(method: &'static str, path: impl Into<String>) -> Self {
        Draft { method, path: path.into(), content_type: "", body: Vec::new() }
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// The start of the body, for error messages.
    pub(crate) fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(300)]);
        format!("HTTP {}: {}", self.status, text.trim())
    }
}

/// A connection that opens on first use and reopens after it breaks.
pub(crate) struct Connection {
    endpoint: Arc<Endpoint>,
    stream: Option<Stream>,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    /// The joined chunks of a chunked body.
    joined: Vec<u8>,
}

impl Connection {
    /// A connection that is not open yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        Connection { endpoint, stream: None, outbox: Vec::new(), inbox: Vec::new(), joined: Vec::new() }
    }

    /// Connects in advance, so that the first request does not include the time to connect.
    pub(crate) async fn open(&mut self) -> Result<(), BenchError> {
        if self.stream.is_none() {
            self.stream = Some(self.endpoint.connect().await?);
        }
        Ok(())
    }

    /// Sends a request and reads the whole response. Requests are never retried: an error counts as a failed request.
    pub(crate) async fn call(&mut self, draft: &Draft) -> Result<Answer<'_>, BenchError> {
        let url = self.endpoint.url.clone();
        let failed = |problem: String| BenchError::Request {
            url: url.clone(),
            what: format!("{} {}", draft.method, draft.path),
            problem,
        };
        let outcome = tokio::time::timeout(PATIENCE, self.exchange(draft)).await;
        let (head, in_pieces) = match outcome {
            Ok(Ok(done)) => done,
            Ok(Err(Broken::Connect(error))) => return Err(error),
            Ok(Err(Broken::Io(problem))) => {
                self.stream = None;
                return Err(failed(problem));
            }
            Err(_) => {
                self.stream = None;
                return Err(failed(format!("no answer within {} s", PATIENCE.as_secs())));
            }
        };
        if head.closes {
            self.stream = None;
        }
        let body = if in_pieces { &self.joined[..] } else { &self.inbox[head.bytes..] };
        Ok(Answer { status: head.status, body })
    }

    /// The head of the response, and whether the body is in `joined`; otherwise it follows the head in `inbox`.
    async fn exchange(&mut self, draft: &Draft) -> Result<(Head, bool), Broken> {
        let (head, mut stream) = self.ask(draft).await?;
        let body = self.body(&mut stream, &head).await;
        self.stream = Some(stream);
        Ok((head, body?))
    }

    /// Sends a request and reads the head of the response. The caller owns the stream, so that an error drops it.
    async fn ask(&mut self, draft: &Draft) -> Result<(Head, Stream), Broken> {
        self.open().await.map_err(Broken::Connect)?;
        let mut stream = self.stream.take().ok_or_else(|| Broken::Io("there is no connection".to_owned()))?;
        self.outbox.clear();
        let content = (!draft.content_type.is_empty()).then_some((draft.content_type, draft.body.len()));
        self.endpoint.head(&mut self.outbox, draft.method, &draft.path, content);
        self.outbox.extend_from_slice(&draft.body);
        stream.write(&self.outbox).await?;
        self.inbox.clear();
        loop {
            if stream.read(&mut self.inbox, READ).await? == 0 {
                return Err(Broken::Io("the connection was closed before the answer".to_owned()));
            }
            if let Some(head) = wire::head(&self.inbox)? {
                return Ok((head, stream));
            }
        }
    }

    async fn body(&mut self, stream: &mut Stream, head: &Head) -> Result<bool, Broken> {
        match head.framing {
            Framing::Length(length) => {
                let all = head.bytes + length;
                while self.inbox.len() < all {
                    let missing = all - self.inbox.len();
                    if stream.read(&mut self.inbox, missing.min(LARGE_READ)).await? == 0 {
                        return Err(Broken::Io("the connection was closed in the answer".to_owned()));
                    }
                }
                self.inbox.truncate(all);
                Ok(false)
            }
            Framing::Chunked => {
                self.joined.clear();
                let mut chunks = Chunks::new();
                let mut from = head.bytes;
                loop {
                    let mut rest = &self.inbox[from..];
                    while let Some(data) = chunks.next(&mut rest)? {
                        self.joined.extend_from_slice(data);
                    }
                    if chunks.done() {
                        return Ok(true);
                    }
                    self.inbox.clear();
                    from = 0;
                    if stream.read(&mut self.inbox, LARGE_READ).await? == 0 {
                        return Err(Broken::Io("the connection was closed in the answer".to_owned()));
                    }
                }
            }
            Framing::ToEnd => {
                while stream.read(&mut self.inbox, LARGE_READ).await? > 0 {}
                Ok(false)
            }
        }
    }

    /// Turns the connection into a watch. Returns once the head of the response has arrived.
    pub(crate) async fn watch(mut self, path: &str) -> Result<Watch, BenchError> {
        let draft = Draft::of("GET", path);
        let failed = |problem: String, url: &str| BenchError::Request {
            url: url.to_owned(),
            what: format!("GET {path}"),
            problem,
        };
        let url = self.endpoint.url.clone();
        let (head, mut stream) = match tokio::time::timeout(PATIENCE, self.ask(&draft)).await {
            Ok(Ok(asked)) => asked,
            Ok(Err(Broken::Connect(error))) => return Err(error),
            Ok(Err(Broken::Io(problem))) => return Err(failed(problem, &url)),
            Err(_) => return Err(failed("no answer".to_owned(), &url)),
        };
        if head.status != 200 || head.framing != Framing::Chunked {
            // The body of an error is short; the part that has arrived is enough for a message.
            let _ = self.body(&mut stream, &head).await;
            let body = if self.joined.is_empty() { &self.inbox[head.bytes..] } else { &self.joined[..] };
            return Err(failed(Answer { status: head.status, body }.words(), &url));
        }
        self.inbox.drain(..head.bytes);
        Ok(Watch { url, stream, inbox: self.inbox, chunks: Chunks::new(), lines: Lines::default() })
    }
}

/// Why an exchange ended early.
enum Broken {
    /// The connection could not be opened.
    Connect(BenchError),
    /// The connection broke.
    Io(String),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Broken::Io(error.to_string())
    }
}

impl From<wire::WireError> for Broken {
    fn from(error: wire::WireError) -> Self {
        Broken::Io(error.to_string())
    }
}

/// A watch: events, one per line.
pub(crate) struct Watch {
    pub(crate) url: String,
    stream: Stream,
    inbox: Vec<u8>,
    chunks: Chunks,
    lines: Lines,
}

impl Watch {
    /// Waits for more events and passes each complete one to `on_event`. Returns `false` once the server has ended
    /// the watch.
    pub(crate) async fn more(&mut self, mut on_event: impl FnMut(&[u8])) -> Result<bool, BenchError> {
        let broken = |url: &str, problem: String| BenchError::Request {
            url: url.to_owned(),
            what: "a watch".to_owned(),
            problem,
        };
        if self.inbox.is_empty() {
            let read = self.stream.read(&mut self.inbox, READ).await;
            match read {
                Ok(0) => return Err(broken(&self.url, "the server closed the connection".to_owned())),
                Ok(_) => {}
                Err(error) => return Err(broken(&self.url, error.to_string())),
            }
        }
        let mut rest = &self.inbox[..];
        loop {
            match self.chunks.next(&mut rest) {
                Ok(Some(data)) => self.lines.feed(data, &mut on_event),
                Ok(None) => break,
                Err(error) => return Err(broken(&self.url, error.to_string())),
            }
        }
        self.inbox.clear();
        Ok(!self.chunks.done())
    }
}
