//! The informer against the fake API server, under paused time.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeApi, Fault, FaultKind};

fn map(name: &str, label: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name, "labels": {"l": label}}})
}

struct Fixture {
    api: FakeApi,
    informer: Informer<ConfigMap>,
    seen: Arc<Mutex<Vec<String>>>,
    _handler: Registration,
    _stop: tokio_util::sync::DropGuard,
}

/// Starts an informer whose changes are noted as `old>new`, by label.
fn started(api: &FakeApi) -> Fixture {
    let informer = Informer::<ConfigMap>::new();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let handler = informer.add_handler(move |change: &Change<ConfigMap>| {
        let show = |o: &Option<Arc<ConfigMap>>| {
            o.as_ref().map_or("-".to_owned(), |o| format!("{}:{}", key_of(o.as_ref()), label(o)))
        };
        notes.lock().unwrap().push(format!("{}>{}", show(&change.old), show(&change.new)));
    });
    let stop = CancellationToken::new();
    let (running, client, token) = (informer.clone(), Api::all(api.client()), stop.clone());
    tokio::spawn(async move { running.run(client, token).await });
    Fixture { api: api.clone(), informer, seen, _handler: handler, _stop: stop.drop_guard() }
}

fn label(o: &ConfigMap) -> String {
    o.metadata.labels.as_ref().and_then(|l| l.get("l")).cloned().unwrap_or_default()
}

impl Fixture {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn list_then_changes_in_order() {
    let api = FakeApi::new();
    api.seed(map("a", "1"));
    api.seed(map("b", "1"));
    let f = started(&api);
    f.informer.synced().await;
    assert_eq!(f.take(), ["->ns/a:1", "->ns/b:1"]);
    f.api.patch("configmaps", "ns/a", "", json!({"metadata": {"labels": {"l": "2"}}}));
    f.api.create(map("c", "1"));
    f.api.delete("configmaps", "ns/b");
    f.api.settle().await;
    assert_eq!(f.take(), ["ns/a:1>ns/a:2", "->ns/c:1", "ns/b:1>-"]);
    assert_eq!(f.informer.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_changes_and_cover_what_was_there() {
    let api = FakeApi::new();
    api.seed(map("a", "x"));
    api.seed(map("b", "y"));
    let f = started(&api);
    f.informer.synced().await;
    f.informer.add_index("label", |o| vec![label(o)]);
    let names = |value: &str| {
        f.informer.by_index("label", value).iter().map(|o| key_of(o.as_ref())).collect::<Vec<_>>()
    };
    assert_eq!(names("x"), ["ns/a"]);
    api.patch("configmaps", "ns/b", "", json!({"metadata": {"labels": {"l": "x"}}}));
    api.settle().await;
    assert_eq!((names("x"), names("y").len()), (vec!["ns/a".to_owned(), "ns/b".to_owned()], 0));
    api.delete("configmaps", "ns/a");
    api.settle().await;
    assert_eq!(names("x"), ["ns/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_missed_while_away_is_a_delete_after_the_next_list() {
    let api = FakeApi::new();
    api.seed(map("a", "1"));
    api.seed(map("b", "1"));
    api.seed(map("c", "1"));
    let f = started(&api);
    f.informer.synced().await;
    f.take();
    api.set_away(true);
    api.settle().await;
    api.delete("configmaps", "ns/a");
    api.delete("configmaps", "ns/b");
    api.create(map("b", "again"));
    api.disconnect(true);
    api.set_away(false);
    api.settle().await;
    assert_eq!(f.take(), ["ns/a:1>-", "ns/b:1>ns/b:again"], "c is the same and is not told");
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_resumes_without_a_list() {
    let api = FakeApi::new();
    let f = started(&api);
    f.informer.synced().await;
    api.disconnect(false);
    api.create(map("a", "1"));
    api.settle().await;
    assert_eq!(f.take(), ["->ns/a:1"]);
    let lists = api.requests().iter().filter(|r| *r == "GET /api/v1/configmaps").count();
    assert!(lists <= 3, "one list and two watches, got {lists}");
}

#[tokio::test(start_paused = true)]
async fn not_synced_before_the_first_complete_list() {
    let api = FakeApi::new();
    api.seed(map("a", "1"));
    for _ in 0..3 {
        api.fail(Fault { verb: "list", resource: "configmaps", skip: 0, kind: FaultKind::Broken });
    }
    let f = started(&api);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!f.informer.has_synced());
    f.informer.synced().await;
    assert_eq!((f.take(), api.pending_faults()), (vec!["->ns/a:1".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn handlers_come_and_go_and_a_panicking_one_harms_nobody() {
    let informer = Informer::<ConfigMap>::new();
    let object: ConfigMap = serde_json::from_value(map("a", "1")).unwrap();
    informer.apply(object.clone());
    let count: Arc<Mutex<usize>> = Arc::default();
    let counting = Arc::clone(&count);
    let _bad = informer.add_handler(|_| panic!("on purpose"));
    let good = informer.add_handler(move |_| *counting.lock().unwrap() += 1);
    assert_eq!(*count.lock().unwrap(), 1, "what is cached is handed over");
    informer.apply(object.clone());
    assert_eq!(*count.lock().unwrap(), 2);
    drop(good);
    informer.remove(object);
    assert_eq!(*count.lock().unwrap(), 2);
}
