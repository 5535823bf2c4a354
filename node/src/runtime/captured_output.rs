//! Captures the output of short-lived programs. The beginning is kept; the rest is read and discarded, so that
//! the program does not block on a full pipe. Reading stops shortly after the program exits, because its child
//! processes may keep the pipes open.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;

/// How long output is still read after the program has exited.
const DRAIN: Duration = Duration::from_millis(500);

/// One output stream of a program, read in the background.
pub(super) struct CapturedOutput {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl CapturedOutput {
    /// Reads a stream and keeps its first `most` bytes.
    pub(super) fn of(mut from: impl AsyncRead + Unpin + Send + 'static, most: usize) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut part = vec![0; 8192];
            while let Ok(length) = from.read(&mut part).await {
                if length == 0 {
                    break;
                }
                let mut text = into.lock();
                let room = most.saturating_sub(text.len()).min(length);
                text.extend_from_slice(&part[..room]);
            }
        });
        Self { text, reader }
    }

    /// The captured output. Call it after the program has exited.
    pub(super) async fn end(mut self) -> String {
        if tokio::time::timeout(DRAIN, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        let text = self.text.lock();
        String::from_utf8_lossy(&text).into_owned()
    }
}
