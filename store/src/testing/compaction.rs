//! Compaction: history is dropped, current records stay.

use super::*;
use crate::ReadError;

pub(super) const CASES: Theme = &[
    ("the present stays", |b| Box::pin(present(b))),
    ("step by step", |b| Box::pin(steps(b))),
    ("the future cannot be compacted", |b| Box::pin(future(b))),
    ("writers continue meanwhile", |b| Box::pin(meanwhile(b))),
];

async fn story(store: &dyn Kv<Sum>) -> Vec<Vec<String>> {
    let mut wanted = vec![Vec::new()];
    for step in 0..60 {
        let key = format!("/r/p/{}", step * 7 % 9);
        match store.head().get(&key) {
            Some(_) if step % 4 == 0 => delete_one(store, &key).await,
            _ => put_one(store, &key, &step.to_string()).await,
        };
        wanted.push(snapshot_lines(&store.head(), "/"));
    }
    wanted
}

async fn present(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(2));
    let wanted = story(store).await;
    assert_eq!(store.oldest(), Revision::ZERO);
    store.compact(Revision(60)).await.unwrap();
    assert_eq!(store.oldest(), Revision(60));
    assert_eq!(snapshot_lines(&store.head(), "/"), wanted[60]);
    let at = store.at(Revision(60), "/r/p/").await.unwrap();
    assert_eq!(snapshot_lines(&at, "/r/p/"), wanted[60]);
    let error = store.at(Revision(59), "/r/p/").await.unwrap_err();
    assert!(matches!(error, ReadError::Expired { wanted: Revision(59), oldest: Revision(60) }), "{error:?}");
    // Records that were current then are still known as the replaced records of later events.
    let record = store.head().range("/r/p/", None).next().unwrap().clone();
    put_one(store, record.key.as_str(), "new").await;
    let mut watcher = store.watch("/r/p/", Revision(60)).unwrap();
    assert!(take(&mut watcher, 1).await[0].ends_with(&record_line(&record)));
}

async fn steps(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(2));
    let wanted = story(store).await;
    for oldest in [1, 2, 17, 17, 5, 40, 59] {
        store.compact(Revision(oldest)).await.unwrap();
        let oldest = store.oldest().0 as usize;
        for revision in [oldest, (oldest + 60) / 2, 60] {
            let at = store.at(Revision(revision as u64), "/r/p/").await.unwrap();
            assert_eq!(
                snapshot_lines(&at, "/"),
                wanted[revision],
                "compacted at {oldest}, read at {revision}"
            );
        }
        let mut watcher = store.watch("/r/p/", store.oldest()).unwrap();
        assert_eq!(take(&mut watcher, 60 - oldest).await.len(), 60 - oldest);
    }
}

async fn future(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    let error = store.compact(Revision(2)).await.unwrap_err();
    assert!(matches!(error, ReadError::Future { wanted: Revision(2), head: Revision(1) }), "{error:?}");
    assert_eq!(store.oldest(), Revision::ZERO);
}

async fn meanwhile(backend: &dyn Backend) {
    let store = backend.open(Setup::rings(8));
    let compacting = {
        let store = store.clone();
        tokio::spawn(async move {
            while store.head().revision() < Revision(400) {
                store.compact(Revision(store.head().revision().0.saturating_sub(20))).await.unwrap();
                let oldest = store.oldest();
                match store.at(oldest, "/r/p/").await {
                    Ok(_) | Err(ReadError::Expired { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    };
    for n in 0..400 {
        put_one(&*store, &format!("/r/p/{}", n % 7), "v").await;
    }
    compacting.await.unwrap();
    assert_eq!(store.head().range("/r/p/", None).count(), 7);
}
