//! Commits: expectations, atomicity, revisions, limits.

use std::sync::Arc;

use bytes::Bytes;

use super::*;

pub(super) const CASES: Theme = &[
    ("expectations are checked", |b| Box::pin(expectations(b))),
    ("all or nothing", |b| Box::pin(all_or_nothing(b))),
    ("one revision per write", |b| Box::pin(revisions(b))),
    ("a key twice in a commit", |b| Box::pin(twice(b))),
    ("an empty commit", |b| Box::pin(empty(b))),
    ("large values and keys", |b| Box::pin(large(b))),
    ("time does not go back", |b| Box::pin(time(b))),
    ("one of many wins", |b| Box::pin(race(b))),
    ("guards hold or nothing is written", |b| Box::pin(guards(b))),
    ("guards leave nothing behind", |b| Box::pin(guards_leave_nothing(b))),
    ("a dropped future is carried out", |b| Box::pin(dropped(b))),
];

fn write(key: &str, expect: Expect, value: Option<&str>) -> Write<Sum> {
    let key = Key::new(key);
    let op = match value {
        Some(value) => {
            let value = Bytes::copy_from_slice(value.as_bytes());
            Op::Put { view: Sum::of(&key, &value), value }
        }
        None => Op::Delete,
    };
    Write { key, expect, op }
}

async fn expectations(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/p/a", "2").await;
    let there = Some("/r/p/a=2 1..2".to_owned());
    let (a, x) = ("/r/p/a", "/r/p/x");
    for (name, bad, actual) in [
        ("put: not absent", write(a, Expect::Absent, Some("3")), there.clone()),
        ("put: an older revision", write(a, Expect::Revision(Revision(1)), Some("3")), there.clone()),
        ("put: a newer revision", write(a, Expect::Revision(Revision(3)), Some("3")), there.clone()),
        ("put: nothing there", write(x, Expect::Revision(Revision(1)), Some("3")), None),
        ("put: nothing there, zero", write(x, Expect::Revision(Revision::ZERO), Some("3")), None),
        ("delete: an older revision", write(a, Expect::Revision(Revision(1)), None), there.clone()),
        ("delete: nothing there", write(x, Expect::Revision(Revision(2)), None), None),
        ("delete: expected absent, and it is", write(x, Expect::Absent, None), None),
        ("delete: expected absent, and is not", write(a, Expect::Absent, None), there.clone()),
    ] {
        let key = bad.key.to_string();
        let error = store.commit(vec![bad]).await.unwrap_err();
        assert_eq!(conflict(error), (key, actual), "{name}");
    }
    assert_eq!(store.head().revision(), Revision(2));
    commit(store, vec![write(a, Expect::Revision(Revision(2)), None)]).await;
    commit(store, vec![write(a, Expect::Absent, Some("4"))]).await;
    assert_eq!(snapshot_lines(&store.head(), "/"), ["/r/p/a=4 4..4"]);
}

async fn all_or_nothing(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/b", "1").await;
    let good = |key| write(key, Expect::Absent, Some("2"));
    let writes = vec![good("/r/p/a"), good("/r/p/b"), good("/r/p/c")];
    let error = store.commit(writes).await.unwrap_err();
    assert_eq!(conflict(error), ("/r/p/b".into(), Some("/r/p/b=1 1..1".into())));
    assert_eq!(snapshot_lines(&store.head(), "/"), ["/r/p/b=1 1..1"]);
    assert_eq!(put_one(store, "/r/p/d", "3").await, Revision(2), "a failed commit takes no revision");
    let mut watcher = store.watch("/r/p/", Revision::ZERO).unwrap();
    assert_eq!(take(&mut watcher, 2).await.len(), 2);
    assert!(is_silent(&mut watcher).await);
}

async fn revisions(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    assert_eq!(store.head().revision(), Revision::ZERO);
    let writes = vec![put(store, "/r/p/a", "1"), put(store, "/r/q/b", "2"), put(store, "/r/p/c", "3")];
    let done = store.commit(writes).await.unwrap();
    let events: Vec<_> = done.events.iter().map(|event| event_line(event)).collect();
    let wanted =
        ["@1 /r/p/a: /r/p/a=1 1..1 <- -", "@2 /r/q/b: /r/q/b=2 2..2 <- -", "@3 /r/p/c: /r/p/c=3 3..3 <- -"];
    assert_eq!(events, wanted);
    assert_eq!(done.revision(), Revision(3));
    let writes = vec![put(store, "/r/p/a", "4"), delete(store, "/r/q/b")];
    let done = store.commit(writes).await.unwrap();
    let events: Vec<_> = done.events.iter().map(|event| event_line(event)).collect();
    assert_eq!(events, ["@4 /r/p/a: /r/p/a=4 1..4 <- /r/p/a=1 1..1", "@5 /r/q/b: - <- /r/q/b=2 2..2"]);
    assert_eq!(store.head().revision(), Revision(5));
    store.reached(Revision(5)).await;
}

async fn twice(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    let key = "/r/p/a";
    put_one(store, key, "1").await;
    // Each expectation is checked against the state after the writes before it.
    let replace =
        vec![write(key, Expect::Revision(Revision(1)), None), write(key, Expect::Absent, Some("2"))];
    let done = store.commit(replace).await.unwrap();
    let events: Vec<_> = done.events.iter().map(|event| event_line(event)).collect();
    assert_eq!(events, ["@2 /r/p/a: - <- /r/p/a=1 1..1", "@3 /r/p/a: /r/p/a=2 3..3 <- -"]);
    let same = vec![
        write(key, Expect::Revision(Revision(3)), Some("3")),
        write(key, Expect::Revision(Revision(3)), Some("4")),
    ];
    let error = store.commit(same).await.unwrap_err();
    assert_eq!(conflict(error), (key.into(), Some("/r/p/a=2 3..3".into())), "contains the current record");
    assert_eq!(store.head().revision(), Revision(3));
}

async fn empty(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    let done = store.commit(Vec::new()).await.unwrap();
    assert_eq!(done.revision(), Revision::ZERO);
    assert_eq!(store.head().revision(), Revision(1));
}

async fn large(backend: &dyn Backend) {
    let store = &*backend.open(Setup { max_value: 300_000, ..Setup::default() });
    let fits = "x".repeat(300_000);
    put_one(store, "/r/p/a", &fits).await;
    let writes = vec![put(store, "/r/p/b", "1"), put(store, "/r/p/c", &"x".repeat(300_001))];
    match store.commit(writes).await.unwrap_err() {
        CommitError::TooLarge { key, size, limit } => {
            assert_eq!((key.as_str(), size, limit), ("/r/p/c", 300_001, 300_000));
        }
        other => panic!("{other:?}"),
    }
    let key = format!("/r/p/{}", "k".repeat(5000));
    let error = store.commit(vec![put(store, &key, "1")]).await.unwrap_err();
    assert!(matches!(error, CommitError::TooLarge { .. }), "{error:?}");
    assert_eq!(store.head().revision(), Revision(1));
    let before = store.at(Revision(1), "/r/p/").await.unwrap();
    assert_eq!(before.get("/r/p/a").unwrap().value.len(), 300_000);
}

async fn time(backend: &dyn Backend) {
    let clock = Arc::new(ManualClock::new(5000));
    let store = &*backend.open(Setup { clock: clock.clone(), ..Setup::default() });
    let mut times = Vec::new();
    for now in [5000, 7000, 6000, 7001] {
        clock.set(now);
        let done = store.commit(vec![put(store, "/r/p/a", "1")]).await.unwrap();
        let event = &done.events[0];
        assert_eq!(event.time_ms, event.record.as_ref().unwrap().time_ms);
        times.push(event.time_ms);
    }
    assert_eq!(times, [5000, 7000, 7000, 7001]);
}

async fn race(backend: &dyn Backend) {
    let store = backend.open(Setup::default());
    let mut tasks = Vec::new();
    for n in 0..50 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            store.commit(vec![write("/r/p/a", Expect::Absent, Some(&n.to_string()))]).await
        }));
    }
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(done) => {
                won += 1;
                assert_eq!(done.revision(), Revision(1));
            }
            Err(error) => {
                let (_, actual) = conflict(error);
                assert!(actual.is_some_and(|actual| actual.ends_with(" 1..1")));
            }
        }
    }
    assert_eq!(won, 1);
}

async fn guards(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/p/b", "2").await;
    put_one(store, "/r/q/a", "3").await;
    let seen = store.head();
    let all = || Guard::range(&seen, "/r/p/");
    let (a, none) = (Guard::key(&seen, "/r/p/a"), Guard::key(&seen, "/r/p/x"));
    let target = |n: u64| write(&format!("/r/q/{n}"), Expect::Absent, Some("t"));
    commit_if(store, vec![a.clone(), none.clone(), all()], vec![target(1)]).await.expect("all hold");
    // Changes elsewhere, and below a prefix that only starts alike, do not matter.
    put_one(store, "/r/q/a", "4").await;
    put_one(store, "/r/pp/a", "4").await;
    commit_if(store, vec![all()], vec![target(2)]).await.expect("the range is as it was");

    put_one(store, "/r/p/a", "5").await;
    let a_now = snapshot_lines(&store.head(), "/r/p/a").remove(0);
    let written = conflict(commit_if(store, vec![a], vec![target(3)]).await.expect_err("written"));
    assert_eq!(written, ("/r/p/a".to_owned(), Some(a_now.clone())));
    let written = conflict(commit_if(store, vec![all()], vec![target(3)]).await.expect_err("written"));
    assert_eq!(written, ("/r/p/a".to_owned(), Some(a_now)), "a range with a newer record");

    let seen = store.head();
    let range = Guard::range(&seen, "/r/p/");
    store.commit(vec![delete(store, "/r/p/b")]).await.expect("is there");
    let gone = conflict(commit_if(store, vec![range], vec![target(3)]).await.expect_err("one was deleted"));
    assert_eq!(gone, ("/r/p/".to_owned(), None));

    // The same number of records, but not the same records.
    let range = Guard::range(&store.head(), "/r/p/");
    let swap = vec![delete(store, "/r/p/a"), write("/r/p/c", Expect::Absent, Some("6"))];
    store.commit(swap).await.expect("holds");
    let swapped = conflict(commit_if(store, vec![range], vec![target(3)]).await.expect_err("swapped"));
    assert_eq!(swapped.0, "/r/p/c");

    put_one(store, "/r/p/x", "7").await;
    let came = conflict(commit_if(store, vec![none], vec![target(3)]).await.expect_err("came"));
    assert_eq!(came.0, "/r/p/x");
    assert!(store.head().get("/r/q/3").is_none(), "nothing was written");
}

async fn guards_leave_nothing(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    put_one(store, "/r/p/a", "1").await;
    let mut watcher = store.watch("/r/p/", Revision(1)).unwrap();
    let seen = store.head();
    let guards = || vec![Guard::range(&seen, "/r/p/"), Guard::key(&seen, "/r/p/a")];
    // The commit's own writes do not violate its guards.
    let done = commit_if(store, guards(), vec![put(store, "/r/p/a", "2")]).await.expect("holds");
    assert_eq!((done.revision(), done.events.len()), (Revision(2), 1));
    assert_eq!(take(&mut watcher, 1).await.len(), 1);
    assert!(is_silent(&mut watcher).await);
    let only = vec![Guard::range(&store.head(), "/r/p/")];
    let done = commit_if(store, only.clone(), Vec::new()).await.expect("holds");
    assert_eq!(done.revision(), Revision::ZERO, "guards alone have no revision");
    assert_eq!(store.head().revision(), Revision(2));
    put_one(store, "/r/p/b", "3").await;
    commit_if(store, only, Vec::new()).await.expect_err("guards alone are checked");
    assert!(store.commit_if(guards(), vec![put(store, "/r/p/a", "4")]).await.is_err());
    assert_eq!(store.head().revision(), Revision(3));
}

async fn commit_if(
    store: &dyn Kv<Sum>,
    guards: Vec<Guard>,
    writes: Vec<Write<Sum>>,
) -> Result<crate::Committed<Sum>, CommitError<Sum>> {
    store.commit_if(guards, writes).await
}

async fn dropped(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    drop(store.commit(vec![put(store, "/r/p/a", "1")]));
    store.reached(Revision(1)).await;
    assert_eq!(snapshot_lines(&store.head(), "/"), ["/r/p/a=1 1..1"]);
}
