#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::data_size::{DataSize, WriteSize};
use crate::snapshot::Index;
use crate::transform::Transform;
use crate::watch::{Hub, RingLimits};
use crate::{CommitError, Event, Expect, Key, ManualClock, Op, Revision, Write};

/// A log whose backlog is full whenever the test says so, once for each group.
struct Full {
    asked: Sender<()>,
    answers: Receiver<bool>,
}

impl Durable<()> for Full {
    fn wait_for_space(&mut self) -> Result<Option<Shortage>, String> {
        self.asked.send(()).unwrap();
        let is_full = self.answers.recv().unwrap();
        Ok(is_full.then(|| Shortage { free: 1, needed: 2, place: "/data".into() }))
    }

    fn admits(&mut self, _: &[WriteSize<'_>]) -> Result<(), Shortage> {
        Ok(())
    }

    fn append(&mut self, _: &[Arc<Event<()>>]) -> Result<(), AppendError> {
        Ok(())
    }

    fn durable(&mut self, _: &[Arc<Event<()>>]) {}

    fn rotate(&mut self) -> Result<Revision, AppendError> {
        Ok(Revision(1))
    }
}

#[tokio::test]
async fn group_before_a_new_segment_waits_for_space_too() {
    let hub = Arc::new(Hub::new(Revision::ZERO, RingLimits::default()));
    let published = Arc::new(Published::new(Head { revision: Revision::ZERO, index: Index::new() }, hub));
    let ((asked, questions), (answers, answered)) = (channel(), channel());
    let options = WriteOptions { max_value: 100, transform: Transform::default() };
    let (durable, data) = (Full { asked, answers: answered }, DataSize::new(0, 0, Vec::new()));
    let queue = start(published, durable, Arc::new(ManualClock::new(0)), 0, options, data).unwrap();
    let put = |key: &str| {
        let op = Op::Put { value: "x".into(), view: () };
        queue.commit(Vec::new(), vec![Write { key: Key::from(key), expect: Expect::Absent, op }])
    };
    let first = put("/r/p/a");
    // The committer is in the first group, so the next one consists of the write and the request for a segment.
    questions.recv().unwrap();
    let second = put("/r/p/b");
    let rotated = queue.rotator().rotate().unwrap();
    for is_full in [false, true] {
        answers.send(is_full).unwrap();
    }
    assert!(first.await.is_ok());
    assert!(matches!(second.await, Err(CommitError::Full { free: 1, needed: 2, .. })));
    assert_eq!(rotated.recv().unwrap(), Ok(Revision(1)), "a segment needs no backlog");
}
