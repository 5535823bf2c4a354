//! Close: queued commits, watches, and calls after it.

use super::*;
use crate::WatchError;

pub(super) const CASES: Theme = &[("ends watches and refuses writes", |b| Box::pin(ends(b)))];

async fn ends(backend: &dyn Backend) {
    let store = backend.open(Setup::default());
    put_one(&*store, "/r/p/a", "1").await;
    let mut watcher = store.watch("/r/p/", Revision(1)).unwrap();
    let waiting = tokio::spawn(async move { watcher.next().await });
    let queued = store.commit(vec![put(&*store, "/r/p/b", "2")]);
    store.close().await;
    queued.await.unwrap();
    // Commits queued before the close may still be acknowledged.
    match waiting.await.unwrap() {
        Ok(events) => assert_eq!(events[0].revision, Revision(2)),
        Err(error) => assert!(matches!(error, WatchError::Closed), "{error:?}"),
    }
    let error = store.commit(vec![put(&*store, "/r/p/c", "3")]).await.unwrap_err();
    assert!(matches!(error, CommitError::Closed), "{error:?}");
    let error = store.watch("/r/p/", Revision(1)).unwrap_err();
    assert!(matches!(error, WatchError::Closed), "{error:?}");
    assert_eq!(snapshot_lines(&store.head(), "/"), ["/r/p/a=1 1..1", "/r/p/b=2 2..2"]);
    assert_eq!(store.poisoned(), None);
    store.close().await;
}
