//! Reads: the head, prefixes, and the state at an older revision.

use super::*;
use crate::ReadError;

pub(super) const CASES: Theme = &[
    ("prefix and start", |b| Box::pin(prefix(b))),
    ("a snapshot stands still", |b| Box::pin(still(b))),
    ("at every revision", |b| Box::pin(at(b, Setup::default()))),
    ("at every revision, from the log", |b| Box::pin(at(b, Setup::rings(1)))),
    ("the future cannot be read", |b| Box::pin(future(b))),
];

async fn prefix(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    for key in ["/r/p/a/1", "/r/p/b/1", "/r/p/b/2", "/r/p/b", "/r/p/ba/1", "/r/q/a"] {
        put_one(store, key, "v").await;
    }
    let head = store.head();
    let keys = |prefix: &'static str, from: Option<&'static str>| {
        head.range(prefix, from).map(|record| record.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys("/r/p/b/", None), ["/r/p/b/1", "/r/p/b/2"]);
    assert_eq!(keys("/r/p/b", None), ["/r/p/b", "/r/p/b/1", "/r/p/b/2", "/r/p/ba/1"]);
    assert_eq!(keys("/r/p/", Some("/r/p/b/2")), ["/r/p/b/2", "/r/p/ba/1"]);
    assert_eq!(keys("/r/p/", Some("/r/p/b/11")), ["/r/p/b/2", "/r/p/ba/1"]);
    assert_eq!(keys("/r/p/b/", Some("/r/p/a")), ["/r/p/b/1", "/r/p/b/2"], "starts at the prefix");
    assert_eq!(keys("/r/p/b/", Some("/r/q")), Vec::<String>::new());
    assert!(head.get("/r/p/b/1").is_some() && head.get("/r/p/c").is_none());
}

async fn still(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    let before = store.head();
    put_one(store, "/r/p/a", "2").await;
    put_one(store, "/r/p/b", "1").await;
    assert_eq!(snapshot_lines(&before, "/"), ["/r/p/a=1 1..1"]);
    assert_eq!(before.revision(), Revision(1));
}

/// Writes a short history, records the head at each step, and reads every step again.
async fn at(backend: &dyn Backend, setup: Setup) {
    let store = &*backend.open(setup);
    let mut wanted = vec![(Revision::ZERO, Vec::new())];
    for step in 0..40 {
        let key = format!("/r/{}/{}", if step % 5 == 4 { "q" } else { "p" }, step * 7 % 6);
        let revision = match store.head().get(&key) {
            Some(_) if step % 3 == 0 => delete_one(store, &key).await,
            _ => put_one(store, &key, &step.to_string()).await,
        };
        wanted.push((revision, snapshot_lines(&store.head(), "/r/p/")));
    }
    for (revision, wanted) in &wanted {
        let snapshot = store.at(*revision, "/r/p/").await.unwrap();
        assert_eq!(snapshot.revision(), *revision);
        assert_eq!(snapshot_lines(&snapshot, "/r/p/"), *wanted, "at {revision}");
    }
    let wide = store.at(Revision(20), "/r/").await.unwrap();
    assert_eq!(snapshot_lines(&wide, "/r/p/"), wanted[20].1);
}

async fn future(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    let error = store.at(Revision(2), "/r/p/").await.unwrap_err();
    assert!(matches!(error, ReadError::Future { wanted: Revision(2), head: Revision(1) }), "{error:?}");
    let waiting = tokio::time::timeout(Duration::from_millis(5), store.reached(Revision(2))).await;
    assert!(waiting.is_err());
}
