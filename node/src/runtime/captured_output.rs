//! What a program says that was started for a moment. The beginning is kept; the rest is read and thrown away, so that the program does not stop for
//! want of a reader. When it has ended nobody waits for its outputs: something that it started may hold them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;

/// How long outputs are still read when the program has ended.
const DRAIN: Duration = Duration::from_millis(500);

/// One output of a program, read beside the caller.
pub(super) struct CapturedOutput {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl CapturedOutput {
    /// Keeps so many bytes of an output.
    pub(super) fn of(mut from: impl AsyncRead + Unpin + Send + 'static, most: usize) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut part = vec![0; 8192];
            while let Ok(length) = from.read(&mut part).await {
                if length == 0 {
                    break;
                }
                let mut text = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = most.saturating_sub(text.len()).min(length);
                text.extend_from_slice(&part[..room]);
            }
        });
        Self { text, reader }
    }

    /// What was said. Call it when the program has ended.
    pub(super) async fn end(mut self) -> String {
        if tokio::time::timeout(DRAIN, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}
