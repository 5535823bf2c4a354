//! Histories: the events of one key.

use super::*;

pub(super) const CASES: Theme = &[
    ("newest first, through deletes", |b| Box::pin(through_deletes(b))),
    ("after compaction", |b| Box::pin(compacted(b))),
];

async fn history(store: &dyn Kv<Sum>, key: &str, limit: usize) -> Vec<String> {
    let events = store.history(&Key::new(key), limit).await.unwrap();
    events.iter().map(|event| event_line(event)).collect()
}

/// Revisions 1 to 6 of the key: put, put, delete, put, put, delete; others between.
async fn story(store: &dyn Kv<Sum>) {
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/p/a", "2").await;
    delete_one(store, "/r/p/a").await;
    put_one(store, "/r/p/ab", "other").await;
    put_one(store, "/r/p/a", "5").await;
    put_one(store, "/r/p/a", "6").await;
}

async fn through_deletes(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    assert_eq!(history(store, "/r/p/a", 10).await, Vec::<String>::new());
    story(store).await;
    let wanted = [
        "@6 /r/p/a: /r/p/a=6 5..6 <- /r/p/a=5 5..5",
        "@5 /r/p/a: /r/p/a=5 5..5 <- -",
        "@3 /r/p/a: - <- /r/p/a=2 1..2",
        "@2 /r/p/a: /r/p/a=2 1..2 <- /r/p/a=1 1..1",
        "@1 /r/p/a: /r/p/a=1 1..1 <- -",
    ];
    for limit in 0..=6 {
        assert_eq!(history(store, "/r/p/a", limit).await, wanted[..limit.min(5)], "limit {limit}");
    }
    delete_one(store, "/r/p/a").await;
    assert_eq!(history(store, "/r/p/a", 1).await, ["@7 /r/p/a: - <- /r/p/a=6 5..6"]);
}

async fn compacted(backend: &dyn Backend) {
    let newest = "@6 /r/p/a: /r/p/a=6 5..6 <- /r/p/a=5 5..5";
    let created = "@5 /r/p/a: /r/p/a=5 5..5 <- -";
    let deleted = "@3 /r/p/a: - <- /r/p/a=2 1..2";
    let second = "@2 /r/p/a: /r/p/a=2 1..2 <- /r/p/a=1 1..1";
    for (at, wanted) in [
        (1, vec![newest, created, deleted, second, "@1 /r/p/a: /r/p/a=1 1..1 <- -"]),
        (2, vec![newest, created, deleted, "@2 /r/p/a: /r/p/a=2 1..2 <- -"]),
        (3, vec![newest, created]),
        (4, vec![newest, created]),
        (5, vec![newest, created]),
        (6, vec!["@6 /r/p/a: /r/p/a=6 5..6 <- -"]),
    ] {
        let store = &*backend.open(Setup::default());
        story(store).await;
        store.compact(Revision(at)).await.unwrap();
        assert_eq!(history(store, "/r/p/a", 10).await, wanted, "compacted at {at}");
        delete_one(store, "/r/p/a").await;
        store.compact(Revision(7)).await.unwrap();
        assert_eq!(history(store, "/r/p/a", 10).await, Vec::<String>::new(), "deleted and compacted");
        put_one(store, "/r/p/a", "8").await;
        assert_eq!(history(store, "/r/p/a", 10).await, ["@8 /r/p/a: /r/p/a=8 8..8 <- -"]);
    }
}
