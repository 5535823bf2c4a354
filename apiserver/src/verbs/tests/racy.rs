//! A store that provokes conflicts: each commit lets the other tasks run first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orlop_store::kv::BoxFuture;
use orlop_store::memory::Memory;
use orlop_store::{
    CommitError, Committed, DataBytes, Event, Guard, Key, Kv, Op, ReadError, Revision, Snapshot, WatchError,
    Watcher, Write,
};

use crate::projection::Projection;

pub(super) struct Racy {
    store: Memory<Projection>,
    /// Another client removes each object immediately before a removal commits.
    pub(super) removes_first: AtomicBool,
}

impl Racy {
    pub(super) fn new(store: Memory<Projection>) -> Self {
        Racy { store, removes_first: AtomicBool::new(false) }
    }
}

impl Kv<Projection> for Racy {
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<Projection>>,
    ) -> BoxFuture<'_, Result<Committed<Projection>, CommitError<Projection>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.removes_first.load(Ordering::Relaxed) {
                let removals = writes.iter().filter(|write| matches!(write.op, Op::Delete));
                let removals = removals.map(|write| Write {
                    key: write.key.clone(),
                    expect: write.expect,
                    op: Op::Delete,
                });
                self.store.commit_if(Vec::new(), removals.collect()).await?;
            }
            self.store.commit_if(guards, writes).await
        })
    }

    fn data(&self) -> DataBytes {
        self.store.data()
    }

    fn head(&self) -> Snapshot<Projection> {
        self.store.head()
    }

    fn at<'a>(
        &'a self,
        revision: Revision,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Snapshot<Projection>, ReadError>> {
        self.store.at(revision, prefix)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<Projection>, WatchError> {
        self.store.watch(prefix, after)
    }

    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<Projection>>>, ReadError>> {
        self.store.history_before(key, before, limit)
    }

    fn events(
        &self,
        after: Revision,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event<Projection>>>, ReadError>> {
        self.store.events(after, limit)
    }

    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>> {
        self.store.time_of(revision)
    }

    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()> {
        self.store.reached(revision)
    }

    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.compact(before)
    }

    fn oldest(&self) -> Revision {
        self.store.oldest()
    }

    fn former_floor(&self) -> Revision {
        self.store.former_floor()
    }

    fn poisoned(&self) -> Option<String> {
        self.store.poisoned()
    }

    fn now_ms(&self) -> i64 {
        self.store.now_ms()
    }

    fn size_on_disk(&self) -> u64 {
        self.store.size_on_disk()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}
