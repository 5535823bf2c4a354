//! An event in the queue of the thread that writes it.

use std::io;
use std::sync::Arc;

use orlop_auth::audit::Event;

use super::body::RecordedBody;

/// An event with the bodies of its request, before they are converted.
pub(crate) struct QueuedEvent {
    pub(super) event: Event,
    pub(super) request_body: Option<Arc<RecordedBody>>,
    pub(super) response_body: Option<Arc<RecordedBody>>,
    pub(super) omit_managed_fields: bool,
    /// The memory that the event occupies, bytes.
    pub(super) size: usize,
}

impl QueuedEvent {
    /// About how many bytes the event takes in the log.
    pub(super) fn line_size(&self) -> usize {
        let bodies = [&self.request_body, &self.response_body].into_iter().flatten();
        let mut counted = CountedBytes(1);
        // Counting cannot fail.
        let _ = serde_json::to_writer(&mut counted, &self.event.view(None, None));
        counted.0 + bodies.map(|body| body.size()).sum::<usize>()
    }

    /// Appends the JSON of the event.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let value = |body: &Option<Arc<RecordedBody>>| {
            body.as_ref().and_then(|body| body.value(self.omit_managed_fields))
        };
        let (sent, got) = (value(&self.request_body), value(&self.response_body));
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(out, &self.event.view(sent.as_ref(), got.as_ref()));
    }
}

/// Counts the bytes that are written.
struct CountedBytes(usize);

impl io::Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_line_is_that_of_its_json() {
        let event = testing::queued();
        let mut line = Vec::new();
        event.write_json(&mut line);
        assert_eq!(event.line_size(), line.len() + 1);
    }
}

#[cfg(test)]
pub(super) mod testing {
    use orlop_auth::audit::{Level, RequestProgress, RequestRecord, Stage};
    use orlop_auth::request_info::{RequestInfo, RequestTarget};

    use super::*;

    /// An event of a request for `/metrics`.
    pub(in crate::audit) fn queued() -> QueuedEvent {
        let request = RequestRecord {
            level: Level::Metadata,
            audit_id: "id".to_owned(),
            uri: "/metrics".to_owned(),
            info: Arc::new(RequestInfo {
                verb: "get".into(),
                target: RequestTarget::Path("/metrics".to_owned()),
            }),
            user: None,
            source_ips: Vec::new(),
            user_agent: String::new(),
            received: jiff::Timestamp::UNIX_EPOCH,
        };
        let event = Event {
            request: Arc::new(request),
            stage: Stage::ResponseComplete,
            at: jiff::Timestamp::UNIX_EPOCH,
            progress: RequestProgress::default(),
        };
        QueuedEvent { event, request_body: None, response_body: None, omit_managed_fields: false, size: 100 }
    }
}
