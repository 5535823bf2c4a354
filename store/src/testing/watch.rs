//! Watches: every event once and in order, from any revision, or `Expired`.

use super::*;
use crate::WatchError;
use crate::watch::BATCH;

pub(super) const CASES: Theme = &[
    ("events carry the replaced record", |b| Box::pin(events(b, Setup::default()))),
    ("events carry the replaced record, from the log", |b| Box::pin(events(b, Setup::rings(1)))),
    ("resumes anywhere", |b| Box::pin(resumes(b, Setup::default()))),
    ("resumes anywhere, from the log", |b| Box::pin(resumes(b, Setup::rings(3)))),
    ("in the middle of a commit", |b| Box::pin(middle(b))),
    ("a future start is silent until then", |b| Box::pin(future(b))),
    ("under load, each event once", |b| Box::pin(load(b, Setup::default()))),
    ("under load, each event once, from the log", |b| Box::pin(load(b, Setup::rings(5)))),
    ("cancelled calls lose nothing", |b| Box::pin(cancelled(b))),
    ("behind the log is expired", |b| Box::pin(expired(b))),
    ("progress", |b| Box::pin(progress(b))),
];

async fn events(backend: &dyn Backend, setup: Setup) {
    let store = &*backend.open(setup);
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/q/a", "1").await;
    put_one(store, "/r/p/a", "2").await;
    delete_one(store, "/r/p/a").await;
    put_one(store, "/r/p/a", "3").await;
    let mut watcher = store.watch("/r/p/", Revision::ZERO).unwrap();
    let wanted = [
        "@1 /r/p/a: /r/p/a=1 1..1 <- -",
        "@3 /r/p/a: /r/p/a=2 1..3 <- /r/p/a=1 1..1",
        "@4 /r/p/a: - <- /r/p/a=2 1..3",
        "@5 /r/p/a: /r/p/a=3 5..5 <- -",
    ];
    assert_eq!(take(&mut watcher, 4).await, wanted);
}

async fn resumes(backend: &dyn Backend, setup: Setup) {
    let store = &*backend.open(setup);
    for n in 0..30 {
        put_one(store, &format!("/r/{}/{}", ["p", "q"][n % 2], n % 5), &n.to_string()).await;
    }
    let mut all = store.watch("/r/p/", Revision::ZERO).unwrap();
    let all = take(&mut all, 15).await;
    for after in 0..=30 {
        // The odd revisions are below /r/p/.
        let wanted: Vec<_> = all.iter().skip(after / 2 + after % 2).cloned().collect();
        let mut watcher = store.watch("/r/p/", Revision(after as u64)).unwrap();
        assert_eq!(take(&mut watcher, wanted.len()).await, wanted, "after {after}");
        assert!(after % 10 > 0 || is_silent(&mut watcher).await, "after {after}");
    }
}

async fn middle(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    let writes = (0..4).map(|n| put(store, &format!("/r/p/{n}"), "1")).collect();
    commit(store, writes).await;
    let mut watcher = store.watch("/r/p/", Revision(2)).unwrap();
    assert_eq!(
        take(&mut watcher, 2).await,
        ["@3 /r/p/2: /r/p/2=1 3..3 <- -", "@4 /r/p/3: /r/p/3=1 4..4 <- -"]
    );
}

async fn future(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    let mut watcher = store.watch("/r/p/", Revision(2)).unwrap();
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/p/a", "2").await;
    assert!(is_silent(&mut watcher).await);
    assert_eq!(watcher.progress(), Revision(2));
    put_one(store, "/r/p/a", "3").await;
    assert_eq!(take(&mut watcher, 1).await, ["@3 /r/p/a: /r/p/a=3 1..3 <- /r/p/a=2 1..2"]);
}

async fn load(backend: &dyn Backend, setup: Setup) {
    let store = backend.open(setup);
    let total = 4 * BATCH as u64;
    let mut followers = Vec::new();
    for slow in [false, true] {
        let mut watcher = store.watch("/r/p/", Revision::ZERO).unwrap();
        followers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.last() != Some(&total) {
                let batch = watcher.next().await.unwrap();
                assert!(!batch.is_empty() && batch.len() <= BATCH);
                seen.extend(batch.iter().map(|event| event.revision.0));
                for _ in 0..if slow { 20 } else { 0 } {
                    tokio::task::yield_now().await;
                }
            }
            seen
        }));
    }
    for n in 0..total / 4 {
        let writes = (0..4).map(|m| put(&*store, &format!("/r/p/{}", (n * 4 + m) % 50), "v")).collect();
        commit(&*store, writes).await;
    }
    for follower in followers {
        assert_eq!(follower.await.unwrap(), (1..=total).collect::<Vec<_>>());
    }
}

async fn cancelled(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(2));
    for n in 0..20 {
        put_one(store, "/r/p/a", &n.to_string()).await;
    }
    let mut watcher = store.watch("/r/p/", Revision::ZERO).unwrap();
    for _ in 0..5 {
        // Polled once, and dropped while the log is being read.
        let once = tokio::time::timeout(Duration::ZERO, watcher.next()).await;
        if let Ok(batch) = once {
            assert_eq!(batch.unwrap()[0].revision, Revision(1));
            return;
        }
    }
    let events = take(&mut watcher, 20).await;
    assert_eq!(events.len(), 20);
    assert!(events[0].starts_with("@1 ") && events[19].starts_with("@20 "));
}

async fn expired(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(2));
    let mut slow = store.watch("/r/p/", Revision(1)).unwrap();
    for n in 0..10 {
        put_one(store, "/r/p/a", &n.to_string()).await;
    }
    store.compact(Revision(6)).await.unwrap();
    let error = slow.next().await.unwrap_err();
    assert!(matches!(error, WatchError::Expired { after: Revision(1), oldest: Revision(6) }), "{error:?}");
    let error = store.watch("/r/p/", Revision(5)).unwrap_err();
    assert!(matches!(error, WatchError::Expired { .. }), "{error:?}");
    let mut exact = store.watch("/r/p/", Revision(6)).unwrap();
    assert_eq!(take(&mut exact, 4).await[0], "@7 /r/p/a: /r/p/a=6 1..7 <- /r/p/a=5 1..6");
}

async fn progress(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(4));
    let mut watcher = store.watch("/r/p/x/", Revision::ZERO).unwrap();
    put_one(store, "/r/p/x/a", "1").await;
    put_one(store, "/r/q/a", "1").await;
    assert_eq!(watcher.progress(), Revision(0));
    take(&mut watcher, 1).await;
    assert_eq!(watcher.progress(), Revision(2));
    for n in 0..10 {
        put_one(store, "/r/q/a", "1").await;
        assert_eq!(watcher.progress(), Revision(3 + n));
    }
    put_one(store, "/r/p/x/a", "2").await;
    assert_eq!(watcher.progress(), Revision(12));
}
