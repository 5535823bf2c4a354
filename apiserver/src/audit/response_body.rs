//! Records the body of a response while it is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};
use orlop_store::{MemoryBudget, ReservedMemory};

use super::body::{BODY_MAX, BodyType, RecordedBody};
use super::context::AuditContext;
use crate::registry::KindRef;

/// Records the body of a response while it is sent.
pub(crate) fn record_response(
    response: Response,
    context: Arc<AuditContext>,
    kind: KindRef,
    memory: &Arc<MemoryBudget>,
) -> Response {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let memory = memory.reserve(0).ok();
    response.map(|inner| {
        let body_type = BodyType::Object(kind);
        Body::new(RecordingBody {
            inner,
            context: Some(context),
            content_type,
            body_type,
            read: Vec::new(),
            memory,
        })
    })
}

/// A body that copies its data.
struct RecordingBody {
    inner: Body,
    /// `None` when the body is recorded.
    context: Option<Arc<AuditContext>>,
    content_type: String,
    body_type: BodyType,
    read: Vec<u8>,
    /// The memory of `read`; `None` if the body is too large.
    memory: Option<ReservedMemory>,
}

impl RecordingBody {
    fn add(&mut self, data: &[u8]) {
        let Some(memory) = &mut self.memory else { return };
        let length = self.read.len() + data.len();
        if length > BODY_MAX || memory.resize(length as u64).is_err() {
            (self.memory, self.read) = (None, Vec::new());
            return;
        }
        self.read.extend_from_slice(data);
    }

    fn finish(&mut self) {
        let Some(context) = self.context.take() else { return };
        let read = std::mem::take(&mut self.read);
        let body = self.memory.take().and_then(|_counted_by_the_queue| {
            RecordedBody::new(&self.content_type, self.body_type.clone(), read.into())
        });
        context.response_body(body);
    }
}

impl http_body::Body for RecordingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.add(data);
                }
                // The last frame may be followed by no further poll.
                if self.inner.is_end_stream() {
                    self.finish();
                }
            }
            Poll::Ready(None) => self.finish(),
            // An incomplete document is not recorded.
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
