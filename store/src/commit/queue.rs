//! The queue of requests to the committer. Values are transformed before they are queued, in the thread of the caller.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::{mpsc, oneshot};

use super::published::Published;
use crate::transform::Transform;
use crate::{CommitError, Committed, Guard, Op, Revision, Stored, View, Write};

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 4096;

pub(super) type Answer<V> = Result<Committed<V>, CommitError<V>>;

/// How writes are prepared.
pub(crate) struct WriteOptions {
    /// The maximum size of a value in bytes.
    pub(crate) max_value: usize,
    pub(crate) transform: Transform,
}

pub(super) struct Request<V> {
    pub(super) guards: Vec<Guard>,
    pub(super) writes: Vec<Write<V>>,
    /// The stored form of each write's value.
    pub(super) stored: Vec<Stored>,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Answer<V>>,
}

pub(super) enum Message<V> {
    Commit(Request<V>),
    /// Start a new segment of the log.
    Rotate(SyncSender<Result<Revision, String>>),
    Close,
}

/// Asks the committer for a new segment of the log. Does not keep the committer alive.
pub(crate) struct Rotator<V>(mpsc::WeakSender<Message<V>>);

impl<V> Rotator<V> {
    /// The receiver gets the newest revision in the other segments. `None` while the committer is busy or has ended.
    pub(crate) fn rotate(&self) -> Option<Receiver<Result<Revision, String>>> {
        let (sender, receiver) = sync_channel(1);
        self.0.upgrade()?.try_send(Message::Rotate(sender)).ok()?;
        Some(receiver)
    }
}

/// The queue of requests to the committer.
pub(crate) struct Queue<V> {
    pub(super) sender: mpsc::Sender<Message<V>>,
    pub(super) published: Arc<Published<V>>,
    pub(super) options: WriteOptions,
}

impl<V: View> Queue<V> {
    /// Enqueues immediately if the queue is not full, otherwise when the future is first polled with a free
    /// slot. Once the request is queued, dropping the future does not cancel it.
    pub(crate) fn commit(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<V>>,
    ) -> impl Future<Output = Answer<V>> + use<V> {
        let prepared = check_sizes(&writes, self.options.max_value)
            .and_then(|()| stored_forms(&writes, &self.options.transform));
        let (early, stored) = match (prepared, self.published.poisoned()) {
            (_, Some(why)) => (Some(CommitError::Poisoned(why.to_owned())), Vec::new()),
            (Err(error), None) => (Some(error), Vec::new()),
            (Ok(_), None) if self.sender.is_closed() => (Some(CommitError::Closed), Vec::new()),
            (Ok(stored), None) => (None, stored),
        };
        let bytes = writes.iter().map(size).sum::<usize>() + guards.iter().map(Guard::size).sum::<usize>();
        let empty = writes.is_empty() && guards.is_empty();
        let (answer, answered) = oneshot::channel();
        let sender = self.sender.clone();
        let published = self.published.clone();
        let waiting = if early.is_some() || empty {
            None
        } else {
            match sender.try_send(Message::Commit(Request { guards, writes, stored, bytes, answer })) {
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
                Err(mpsc::error::TrySendError::Full(message)) => Some(message),
            }
        };
        async move {
            if let Some(error) = early {
                return Err(error);
            }
            if empty {
                return Ok(Committed { events: Vec::new() });
            }
            if let Some(message) = waiting
                && sender.send(message).await.is_err()
            {
                return Err(CommitError::Closed);
            }
            answered.await.unwrap_or_else(|_| match published.poisoned() {
                Some(why) => Err(CommitError::Poisoned(why.to_owned())),
                // The committer ended before it took the request.
                None => Err(CommitError::Closed),
            })
        }
    }

    /// A handle to start new segments of the log.
    pub(crate) fn rotator(&self) -> Rotator<V> {
        Rotator(self.sender.downgrade())
    }

    /// Asks the committer to end after all requests queued so far.
    pub(crate) async fn close(&self) {
        // A committer that has already ended needs no message.
        let _ = self.sender.send(Message::Close).await;
    }
}

fn size<V>(write: &Write<V>) -> usize {
    let value = match &write.op {
        Op::Put { value, .. } => value.len(),
        Op::Delete => 0,
    };
    write.key.as_str().len() + value
}

/// The stored forms of the values of writes.
fn stored_forms<V>(writes: &[Write<V>], transform: &Transform) -> Result<Vec<Stored>, CommitError<V>> {
    let stored = |write: &Write<V>| match &write.op {
        Op::Put { value, .. } => transform
            .stored(&write.key, value)
            .map_err(|why| CommitError::Transform { key: write.key.clone(), why }),
        Op::Delete => Ok(Stored::Plain),
    };
    writes.iter().map(stored).collect()
}

/// Whether keys and values are within the limits.
pub(crate) fn check_sizes<V>(writes: &[Write<V>], max_value: usize) -> Result<(), CommitError<V>> {
    for write in writes {
        let key = write.key.as_str().len();
        if key > MAX_KEY {
            return Err(CommitError::TooLarge { key: write.key.clone(), size: key, limit: MAX_KEY });
        }
        let value = size(write) - key;
        if value > max_value {
            return Err(CommitError::TooLarge { key: write.key.clone(), size: value, limit: max_value });
        }
    }
    Ok(())
}
