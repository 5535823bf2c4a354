//! The thread of the committer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::{mpsc, oneshot};

use super::durable::{AppendError, Durable, Shortage};
use super::published::{Head, Published};
use super::queue::{Answer, Message, Queue, Request, WriteOptions};
use crate::data_size::{DataLimitReached, DataSize, ValueSize};
use crate::snapshot::Index;
use crate::{
    Clock, CommitError, Committed, Event, Expect, Guard, Key, Op, Record, Revision, Stored, View, Write,
    guard,
};

/// The maximum number of requests in a group.
const GROUP_REQUESTS: usize = 512;
/// The maximum bytes of keys and values in a group (a single large request may exceed it).
const GROUP_BYTES: usize = 4 << 20;
/// The number of requests that can be queued before `commit` has to wait.
const QUEUE: usize = 1024;

/// Starts the committer thread. It ends after [`Queue::close`], or when every queue is dropped;
/// `durable` is dropped with it.
pub(crate) fn start<V: View>(
    published: Arc<Published<V>>,
    durable: impl Durable<V>,
    clock: Arc<dyn Clock>,
    last_time_ms: i64,
    options: WriteOptions,
    data: DataSize,
) -> std::io::Result<Queue<V>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let index = published.current().index.clone();
    let next = published.current().revision.next();
    let queue = Queue { sender, published: published.clone(), options };
    let guard = PoisonOnPanic(published.clone());
    let committer = Committer { published, durable, clock, last_time_ms, index, next, data };
    std::thread::Builder::new().name("store-commit".into()).spawn(move || {
        let _guard = guard;
        committer.run(receiver);
    })?;
    Ok(queue)
}

/// Poisons the store when the committer panics, because the outcome of its group is unknown.
struct PoisonOnPanic<V>(Arc<Published<V>>);

impl<V> Drop for PoisonOnPanic<V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("the committer has panicked".into());
        }
    }
}

struct Committer<V, D> {
    published: Arc<Published<V>>,
    durable: D,
    clock: Arc<dyn Clock>,
    last_time_ms: i64,
    /// The head with the changes of the current group applied.
    index: Index<V>,
    next: Revision,
    /// Counts the current group too.
    data: DataSize,
}

impl<V: View, D: Durable<V>> Committer<V, D> {
    fn run(mut self, mut receiver: mpsc::Receiver<Message<V>>) {
        let mut group = Vec::with_capacity(GROUP_REQUESTS);
        let mut open = true;
        while open {
            let next = take_group(&mut receiver, &mut group);
            open = !matches!(next, Next::End);
            self.carry_out(&mut group);
            if let Next::Rotate(answer) = next {
                self.rotate(&answer);
            }
        }
        // Requests sent after the close are answered by being dropped.
        receiver.close();
        while let Some(message) = receiver.blocking_recv() {
            drop(message);
        }
    }

    /// Starts a new segment of the log.
    fn rotate(&mut self, answer: &SyncSender<Result<Revision, String>>) {
        let rotated = match self.published.poisoned() {
            Some(why) => Err(why.to_owned()),
            None => self.durable.rotate().map_err(|error| match error {
                AppendError::NoSpace(_) => {
                    "no new segment can start now: the disk has too little free space, or too many files are open"
                        .to_owned()
                }
                AppendError::Unknown(why) => {
                    self.published.poison(why.clone());
                    why
                }
            }),
        };
        // The receiver may have ended.
        let _ = answer.try_send(rotated);
    }

    /// Checks, writes, publishes and answers one group, and clears it.
    fn carry_out(&mut self, group: &mut Vec<Request<V>>) {
        if !group.is_empty() && self.published.poisoned().is_none() {
            match self.durable.wait_for_space() {
                Ok(None) => {}
                Ok(Some(shortage)) => {
                    for request in group.drain(..) {
                        let _ = request.answer.send(Err(full(shortage.clone())));
                    }
                    return;
                }
                Err(why) => self.published.poison(why),
            }
        }
        let time_ms = self.clock.now_ms().max(self.last_time_ms);
        let data_before = self.data.bytes();
        let mut events = Vec::new();
        let mut answers = Vec::with_capacity(group.len());
        for request in group.drain(..) {
            if let Some(why) = self.published.poisoned() {
                let _ = request.answer.send(Err(CommitError::Poisoned(why.to_owned())));
                continue;
            }
            let result = self.apply(&request.guards, request.writes, request.stored, time_ms);
            if let Ok(committed) = &result {
                events.extend(committed.events.iter().cloned());
            }
            answers.push((request.answer, result));
        }
        if !events.is_empty() {
            // A conflict may depend on a record of the same group, so all answers wait for the disk.
            match self.durable.append(&events) {
                Ok(()) => {}
                Err(AppendError::NoSpace(shortage)) => {
                    self.data.set(data_before);
                    return self.take_back(answers, &shortage);
                }
                Err(AppendError::Unknown(why)) => {
                    self.published.poison(why.clone());
                    for (answer, _) in answers {
                        let _ = answer.send(Err(CommitError::Poisoned(why.clone())));
                    }
                    return;
                }
            }
            self.last_time_ms = time_ms;
            self.publish(&events, answers);
            return;
        }
        answer_all(answers);
    }

    /// Reverts a group of which nothing is on disk or published: the next group reuses its revisions.
    fn take_back(&mut self, answers: Vec<(oneshot::Sender<Answer<V>>, Answer<V>)>, shortage: &Shortage) {
        let head = self.published.current();
        self.index = head.index.clone();
        self.next = head.revision.next();
        for (answer, _) in answers {
            let _ = answer.send(Err(full(shortage.clone())));
        }
    }

    fn publish(&mut self, events: &[Arc<Event<V>>], answers: Vec<(oneshot::Sender<Answer<V>>, Answer<V>)>) {
        let revision = Revision(self.next.0 - 1);
        // The order matters: log, index, rings. A reader that sees an event in a ring finds it in the index, and
        // a reader for which a ring is too short finds the rest in the log.
        self.durable.durable(events);
        self.published.head.store(Arc::new(Head { revision, index: self.index.clone() }));
        let touched = self.published.hub.publish(events);
        answer_all(answers);
        self.published.hub.wake(&touched);
    }

    /// Applies one commit to the index, or leaves the index unchanged.
    fn apply(
        &mut self,
        guards: &[Guard],
        writes: Vec<Write<V>>,
        stored: Vec<Stored>,
        time_ms: i64,
    ) -> Answer<V> {
        guard::check(guards, &self.index)?;
        self.check(&writes)?;
        let effects: Vec<_> = writes
            .iter()
            .zip(&stored)
            .map(|(write, stored)| {
                let old = self.index.get(&write.key).map(|record| ValueSize::of(record));
                let new = match &write.op {
                    Op::Put { value, .. } => Some(ValueSize::new(value.len(), stored)),
                    Op::Delete => None,
                };
                (&write.key, old, new)
            })
            .collect();
        self.durable.admits(&effects).map_err(full)?;
        let too_large = |DataLimitReached { needed, limit }| CommitError::DataLimit { needed, limit };
        self.data.admit(&effects).map_err(too_large)?;
        let mut events = Vec::with_capacity(writes.len());
        for (Write { key, expect: _, op }, stored) in writes.into_iter().zip(stored) {
            let revision = self.next;
            self.next = revision.next();
            let (record, prev) = match op {
                Op::Put { value, view } => {
                    let prev = self.index.get(&key).cloned();
                    let create_revision = prev.as_ref().map_or(revision, |prev| prev.create_revision);
                    let mod_revision = revision;
                    let record = Record {
                        key: key.clone(),
                        value,
                        stored,
                        view,
                        create_revision,
                        mod_revision,
                        time_ms,
                    };
                    let record = Arc::new(record);
                    self.index.insert(key.clone(), record.clone());
                    (Some(record), prev)
                }
                Op::Delete => (None, self.index.remove(&key)),
            };
            events.push(Arc::new(Event { revision, key, time_ms, record, prev }));
        }
        Ok(Committed { events })
    }

    /// Whether every expectation is met, each against the state after the writes before it.
    fn check(&self, writes: &[Write<V>]) -> Result<(), CommitError<V>> {
        let mut earlier: HashMap<&Key, Option<Revision>> = HashMap::new();
        for (at, write) in writes.iter().enumerate() {
            let there = match earlier.get(&write.key) {
                Some(there) => *there,
                None => self.index.get(&write.key).map(|record| record.mod_revision),
            };
            let holds = match (write.expect, &write.op) {
                (Expect::Absent, Op::Put { .. }) => there.is_none(),
                // A delete needs an existing record.
                (Expect::Absent, Op::Delete) => false,
                (Expect::Revision(wanted), _) => there == Some(wanted),
            };
            if !holds {
                let actual = self.index.get(&write.key).cloned();
                return Err(CommitError::Conflict { key: write.key.clone(), actual });
            }
            if writes.len() > 1 {
                let left = match write.op {
                    Op::Put { .. } => Some(Revision(self.next.0 + at as u64)),
                    Op::Delete => None,
                };
                earlier.insert(&write.key, left);
            }
        }
        Ok(())
    }
}

/// The next task of the committer after a group.
enum Next {
    /// Another group.
    Group,
    /// A new segment of the log.
    Rotate(SyncSender<Result<Revision, String>>),
    /// Nothing: the queue is closed.
    End,
}

/// Waits for requests and takes all queued ones, within bounds.
fn take_group<V>(receiver: &mut mpsc::Receiver<Message<V>>, group: &mut Vec<Request<V>>) -> Next {
    let first = match receiver.blocking_recv() {
        Some(Message::Commit(first)) => first,
        Some(Message::Rotate(answer)) => return Next::Rotate(answer),
        Some(Message::Close) | None => return Next::End,
    };
    let mut bytes = first.bytes;
    group.push(first);
    while group.len() < GROUP_REQUESTS && bytes < GROUP_BYTES {
        match receiver.try_recv() {
            Ok(Message::Commit(request)) => {
                bytes += request.bytes;
                group.push(request);
            }
            Ok(Message::Rotate(answer)) => return Next::Rotate(answer),
            Ok(Message::Close) | Err(mpsc::error::TryRecvError::Disconnected) => return Next::End,
            Err(mpsc::error::TryRecvError::Empty) => return Next::Group,
        }
    }
    Next::Group
}

fn answer_all<V>(answers: Vec<(oneshot::Sender<Answer<V>>, Answer<V>)>) {
    for (answer, result) in answers {
        // A caller that dropped its future can read the outcome later.
        let _ = answer.send(result);
    }
}

fn full<V>(shortage: Shortage) -> CommitError<V> {
    let Shortage { free, needed, place } = shortage;
    CommitError::Full { free, needed, place }
}
