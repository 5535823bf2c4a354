//! Watches: which events they deliver, from which revision, and that all watches deliver the same
//! (upstream: test/e2e/apimachinery/watch.go and watchlist.go).

use serde_json::{Value, json};

use super::{MAPS, name, server, version};
use crate::harness::http::{Http, Watch};

const KEY: &str = "watch-this";

fn map(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {KEY: label}}})
}

async fn watch(http: &Http, selector: &str, from: &str) -> Watch {
    let selector = selector.replace(' ', "%20").replace(',', "%2C").replace('=', "%3D");
    http.watch(&format!("{MAPS}?watch=true&labelSelector={selector}&resourceVersion={from}")).await
}

async fn set(http: &Http, name: &str, patch: Value) -> Value {
    http.patch(&format!("{MAPS}/{name}"), &patch).await.expect(200)
}

async fn remove(http: &Http, name: &str) {
    http.delete(&format!("{MAPS}/{name}")).await.expect(200);
}

async fn expect(watch: &mut Watch, kind: &str, object: &Value) {
    let event = watch.next().await.expect("the watch continues");
    assert_eq!(event, json!({"type": kind, "object": object}));
}

async fn expect_deleted(watch: &mut Watch, deleted: &str) {
    let event = watch.next().await.expect("the watch continues");
    assert_eq!((&event["type"], name(&event["object"])), (&json!("DELETED"), deleted), "{event}");
}

/// watch.go: "should observe add, update, and delete watch notifications on configmaps"
#[tokio::test]
async fn watches_with_selectors_deliver_matching_objects_only() {
    let (_plane, http) = server().await;
    let begin = http.get(MAPS).await.expect(200);
    let from = version(&begin);
    let mut a = watch(&http, &format!("{KEY}=a"), from).await;
    let mut b = watch(&http, &format!("{KEY}=b"), from).await;
    let mut both = watch(&http, &format!("{KEY} in (a,b)"), from).await;

    let made = http.create(MAPS, &map("one", "a")).await;
    let first = set(&http, "one", json!({"data": {"mutation": "1"}})).await;
    let second = set(&http, "one", json!({"data": {"mutation": "2"}})).await;
    remove(&http, "one").await;
    for watch in [&mut a, &mut both] {
        expect(watch, "ADDED", &made).await;
        expect(watch, "MODIFIED", &first).await;
        expect(watch, "MODIFIED", &second).await;
        expect_deleted(watch, "one").await;
    }
    let made = http.create(MAPS, &map("two", "b")).await;
    remove(&http, "two").await;
    for watch in [&mut b, &mut both] {
        // The first event of B: no event of the other label arrived before.
        expect(watch, "ADDED", &made).await;
        expect_deleted(watch, "two").await;
    }
    let last = http.create(MAPS, &map("three", "a")).await;
    expect(&mut a, "ADDED", &last).await;
}

/// watch.go: "should be able to start watching from a specific resource version" and "should be able to
/// restart watching from the last resource version observed by the previous watch"
#[tokio::test]
async fn watch_starts_after_the_given_revision() {
    let (_plane, http) = server().await;
    let selector = format!("{KEY}=c");
    let begin = http.get(MAPS).await.expect(200);
    let mut broken = watch(&http, &selector, version(&begin)).await;
    let made = http.create(MAPS, &map("one", "c")).await;
    let first = set(&http, "one", json!({"data": {"mutation": "1"}})).await;
    expect(&mut broken, "ADDED", &made).await;
    let seen = broken.next().await.expect("the first change");
    drop(broken);
    let second = set(&http, "one", json!({"data": {"mutation": "2"}})).await;
    let mut again = watch(&http, &selector, version(&seen["object"])).await;
    remove(&http, "one").await;
    let mut from_first = watch(&http, &selector, version(&first)).await;
    for watch in [&mut again, &mut from_first] {
        expect(watch, "MODIFIED", &second).await;
        expect_deleted(watch, "one").await;
    }
}

/// watch.go: "should observe an object deletion if it stops meeting the requirements of the selector"
#[tokio::test]
async fn object_that_leaves_a_selector_is_reported_as_deleted() {
    let (_plane, http) = server().await;
    let begin = http.get(MAPS).await.expect(200);
    let mut watch = watch(&http, &format!("{KEY}=d"), version(&begin)).await;
    let made = http.create(MAPS, &map("one", "d")).await;
    let first = set(&http, "one", json!({"data": {"mutation": "1"}})).await;
    set(&http, "one", json!({"metadata": {"labels": {KEY: "other"}}})).await;
    expect(&mut watch, "ADDED", &made).await;
    expect(&mut watch, "MODIFIED", &first).await;
    expect_deleted(&mut watch, "one").await;
    set(&http, "one", json!({"data": {"mutation": "2"}})).await;
    let back = set(&http, "one", json!({"metadata": {"labels": {KEY: "d"}}})).await;
    let third = set(&http, "one", json!({"data": {"mutation": "3"}})).await;
    remove(&http, "one").await;
    expect(&mut watch, "ADDED", &back).await;
    expect(&mut watch, "MODIFIED", &third).await;
    expect_deleted(&mut watch, "one").await;
}

/// watch.go: "should receive events on concurrent watches in same order"
#[tokio::test]
async fn concurrent_watches_deliver_the_same_order() {
    const WRITES: usize = 120;
    let (_plane, http) = server().await;
    let begin = http.get(MAPS).await.expect(200);
    let writer = tokio::spawn({
        let http = http.clone();
        async move {
            for n in 0..WRITES {
                let name = format!("m{}", n % 7);
                let path = format!("{MAPS}/{name}");
                match n % 3 {
                    0 if http.get(&path).await.code == 404 => {
                        http.create(MAPS, &map(&name, "e")).await;
                    }
                    1 if http.get(&path).await.code == 200 => remove(&http, &name).await,
                    _ => {
                        http.post(MAPS, &map(&name, "e")).await;
                        set(&http, &name, json!({"data": {"n": n.to_string()}})).await;
                    }
                }
            }
            http.create(MAPS, &map("the-end", "e")).await;
        }
    });
    let all = format!("{KEY}=e");
    let mut first = watch(&http, &all, version(&begin)).await;
    let events = first.until("the end", |event| name(&event["object"]) == "the-end").await;
    writer.await.unwrap();
    let order: Vec<&str> = events.iter().map(|event| version(&event["object"])).collect();
    // A watch from every fifth event delivers exactly the events after it.
    for (at, from) in order.iter().enumerate().step_by(5) {
        let mut other = watch(&http, &all, from).await;
        for wanted in &order[at + 1..] {
            let event = other.next().await.expect("the watch continues");
            assert_eq!(version(&event["object"]), *wanted, "from {from}");
        }
    }
}

/// watchlist.go: a reflector may start with a stream instead of a list, and receives the same objects
#[tokio::test]
async fn list_can_be_streamed() {
    let (_plane, http) = server().await;
    for n in 0..5 {
        http.create(MAPS, &map(&format!("m{n}"), "watchlist")).await;
    }
    http.create(MAPS, &map("other", "no")).await;
    let selector = format!("labelSelector={KEY}%3Dwatchlist");
    let listed = http.get(&format!("{MAPS}?{selector}")).await.expect(200);
    for media in ["", "application/vnd.kubernetes.protobuf;stream=watch, application/json"] {
        let options =
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        if !media.is_empty() {
            // The protobuf answer is checked only superficially; the tests of the clients decode it.
            let path = format!("{MAPS}?{selector}&{options}&timeoutSeconds=1");
            let answer = http.send(axum::http::Method::GET, &path, &[("accept", media)], Vec::new()).await;
            assert_eq!(answer.code, 200);
            assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
            assert!(answer.text().contains("k8s.io/initial-events-end"));
            continue;
        }
        let mut stream = http.watch(&format!("{MAPS}?{selector}&{options}")).await;
        let events = stream.until("the mark", |event| event["type"] == "BOOKMARK").await;
        let (mark, events) = events.split_last().unwrap();
        let mut streamed: Vec<Value> = events.iter().map(|event| event["object"].clone()).collect();
        for object in &mut streamed {
            let object = object.as_object_mut().unwrap();
            object.remove("kind");
            object.remove("apiVersion");
        }
        assert_eq!(Value::from(streamed), listed["items"]);
        let number = |object: &Value| version(object).parse::<u64>().unwrap();
        assert!(number(&mark["object"]) >= number(&listed));
        // The events that follow are those of an ordinary watch.
        let made = http.create(MAPS, &map("late", "watchlist")).await;
        expect(&mut stream, "ADDED", &made).await;
    }
}
