//! A store that provokes conflicts: each commit lets the other tasks run first.

use std::sync::Arc;

use orlop_store::kv::BoxFuture;
use orlop_store::memory::Memory;
use orlop_store::{
    CommitError, Committed, DataBytes, Event, Guard, Key, Kv, ReadError, Revision, Snapshot, WatchError,
    Watcher, Write,
};

use crate::projection::Projection;

pub(super) struct Racy(pub(super) Memory<Projection>);

impl Kv<Projection> for Racy {
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<Projection>>,
    ) -> BoxFuture<'_, Result<Committed<Projection>, CommitError<Projection>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.commit_if(guards, writes).await
        })
    }

    fn data(&self) -> DataBytes {
        self.0.data()
    }

    fn head(&self) -> Snapshot<Projection> {
        self.0.head()
    }

    fn at<'a>(
        &'a self,
        revision: Revision,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Snapshot<Projection>, ReadError>> {
        self.0.at(revision, prefix)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<Projection>, WatchError> {
        self.0.watch(prefix, after)
    }

    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<Projection>>>, ReadError>> {
        self.0.history_before(key, before, limit)
    }

    fn events(
        &self,
        after: Revision,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event<Projection>>>, ReadError>> {
        self.0.events(after, limit)
    }

    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>> {
        self.0.time_of(revision)
    }

    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()> {
        self.0.reached(revision)
    }

    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.compact(before)
    }

    fn oldest(&self) -> Revision {
        self.0.oldest()
    }

    fn former_floor(&self) -> Revision {
        self.0.former_floor()
    }

    fn poisoned(&self) -> Option<String> {
        self.0.poisoned()
    }

    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn size_on_disk(&self) -> u64 {
        self.0.size_on_disk()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}
