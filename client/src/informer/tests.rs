//! Tests the informer against the fake API server, under paused time.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::list::TURN;
use super::store::{RECENT, RECENT_BYTES};
use super::*;
use orlop_test_support::{FakeApi, Fault, FaultKind};

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

/// Starts an informer whose changes are recorded as `old>new`, by label.
fn started(api: &FakeApi) -> Fixture {
    let informer = Informer::<ConfigMap>::new();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let handler = informer.add_handler(move |change: &Change<ConfigMap>| {
        let show = |o: Option<&Arc<ConfigMap>>| {
            o.map_or("-".to_owned(), |o| format!("{}:{}", key_of(o.as_ref()), label(o)))
        };
        notes.lock().push(format!("{}>{}", show(change.old()), show(change.new.as_ref())));
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
        std::mem::take(&mut self.seen.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn list_is_delivered_first_then_changes_in_order() {
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
async fn indexes_follow_changes_and_include_existing_objects() {
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
async fn missed_deletion_is_delivered_after_the_next_list() {
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
    assert_eq!(f.take(), ["ns/a:1>-", "ns/b:1>ns/b:again"], "c is unchanged and not reported");
}

#[tokio::test(start_paused = true)]
async fn interrupted_watch_resumes_without_a_list() {
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
async fn informer_is_not_synced_before_the_first_complete_list() {
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
async fn panicking_handler_does_not_affect_the_others() {
    let informer = Informer::<ConfigMap>::new();
    let object: ConfigMap = serde_json::from_value(map("a", "1")).unwrap();
    informer.apply(object.clone());
    let count: Arc<Mutex<usize>> = Arc::default();
    let counting = Arc::clone(&count);
    let _bad = informer.add_handler(|_| panic!("on purpose"));
    let good = informer.add_handler(move |_| *counting.lock() += 1);
    assert_eq!(*count.lock(), 1, "what is cached is handed over");
    informer.apply(object.clone());
    assert_eq!(*count.lock(), 2);
    drop(good);
    informer.remove(object);
    assert_eq!(*count.lock(), 2);
}

#[tokio::test(start_paused = true)]
async fn panics_for_one_object_leave_the_others_current() {
    let api = FakeApi::new();
    api.seed(map("a", "1"));
    api.seed(map("bad", "1"));
    let f = started(&api);
    f.informer.add_index("label", |o| {
        assert!(o.metadata.name.as_deref() != Some("bad"), "on purpose");
        vec![label(o)]
    });
    f.informer.synced().await;
    assert_eq!(f.take(), ["->ns/a:1", "->ns/bad:1"]);
    api.patch("configmaps", "ns/bad", "", json!({"metadata": {"labels": {"l": "2"}}}));
    api.patch("configmaps", "ns/a", "", json!({"metadata": {"labels": {"l": "2"}}}));
    api.settle().await;
    assert_eq!(f.take(), ["ns/bad:1>ns/bad:2", "ns/a:1>ns/a:2"]);
    let found: Vec<String> = f.informer.by_index("label", "2").iter().map(|o| key_of(o.as_ref())).collect();
    assert_eq!(found, ["ns/a"]);
}

/// An object that cannot be cached keeps its last state; the watch and later lists continue.
#[tokio::test(start_paused = true)]
async fn panicking_trim_costs_one_object() {
    let api = FakeApi::new();
    api.seed(map("a", "1"));
    api.seed(map("b", "1"));
    let informer = Informer::<ConfigMap>::trimmed(|o| assert!(label(o) != "bad", "on purpose"));
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let (running, client) = (informer.clone(), Api::all(api.client()));
    let run = tokio::spawn(async move { running.run(client, stop).await });
    informer.synced().await;
    let labels = |informer: &Informer<ConfigMap>| -> Vec<String> {
        informer.list().iter().map(|o| label(o)).collect()
    };
    api.patch("configmaps", "ns/a", "", json!({"metadata": {"labels": {"l": "bad"}}}));
    api.patch("configmaps", "ns/b", "", json!({"metadata": {"labels": {"l": "2"}}}));
    api.settle().await;
    assert_eq!(labels(&informer), ["1", "2"]);
    api.set_away(true);
    api.settle().await;
    api.patch("configmaps", "ns/b", "", json!({"metadata": {"labels": {"l": "3"}}}));
    api.disconnect(true);
    api.set_away(false);
    api.settle().await;
    assert_eq!(labels(&informer), ["1", "3"]);
    assert!(!run.is_finished());
}

#[tokio::test]
async fn other_tasks_run_while_a_large_list_is_applied() {
    let informer = Informer::<ConfigMap>::new();
    informer.replace(Vec::new());
    let mut listed = Listed::default();
    for n in 0..=TURN {
        informer.collect(&mut listed, serde_json::from_value(map(&n.to_string(), "")).unwrap(), 100);
    }
    let seen: Arc<Mutex<usize>> = Arc::default();
    let (notes, other) = (Arc::clone(&seen), informer.clone());
    tokio::spawn(async move { *notes.lock() = other.len() });
    informer.complete(listed).await;
    assert_eq!((*seen.lock(), informer.len()), (TURN - 1, TURN + 1));
}

#[test]
fn update_of_an_object_with_many_index_values_is_linear() {
    let many = |count: usize| -> [ConfigMap; 2] {
        ["", "-other"].map(|end| {
            let values: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            serde_json::from_value(map("a", &(values.join("-") + end))).unwrap()
        })
    };
    let informer = Informer::<ConfigMap>::new();
    informer.add_index("label", |o| label(o).split('-').map(str::to_owned).collect());
    orlop_apimachinery::thread_time::assert_linear("index values", 2_000, many, |versions| {
        versions.iter().for_each(|object| informer.apply(object.clone()));
    });
}

/// More objects than stay decoded: deliveries and lookups are the same as without packing.
#[tokio::test(start_paused = true)]
async fn packing_is_invisible_to_handlers_and_readers() {
    let api = FakeApi::new();
    let many = RECENT + 50;
    for n in 0..many {
        api.seed(map(&format!("m{n:04}"), if n % 2 == 0 { "even" } else { "odd" }));
    }
    let f = started(&api);
    f.informer.add_index("label", |o| vec![label(o)]);
    f.informer.synced().await;
    assert_eq!((f.take().len(), f.informer.len()), (many, many));
    let packed = |f: &Fixture| f.informer.kept().iter().filter(|kept| kept.is_packed()).count();
    assert_eq!(packed(&f), many - RECENT);
    assert_eq!(f.informer.by_index("label", "odd").len(), many / 2);
    assert_eq!(label(&f.informer.get("ns/m0000").unwrap()), "even");
    api.patch("configmaps", "ns/m0000", "", json!({"metadata": {"labels": {"l": "new"}}}));
    api.delete("configmaps", "ns/m0001");
    api.settle().await;
    assert_eq!(f.take(), ["ns/m0000:even>ns/m0000:new", "ns/m0001:odd>-"]);
    assert!(
        f.informer.has_indexed("label", "new") && f.informer.by_index("label", "odd").len() == many / 2 - 1
    );
    // After an interruption, deletions are delivered first, then changes, by key.
    api.set_away(true);
    api.settle().await;
    api.patch("configmaps", "ns/m0004", "", json!({"metadata": {"labels": {"l": "new"}}}));
    api.delete("configmaps", "ns/m0006");
    api.create(map("a", "late"));
    api.disconnect(true);
    api.set_away(false);
    api.settle().await;
    assert_eq!(f.take(), ["ns/m0006:even>-", "->ns/a:late", "ns/m0004:even>ns/m0004:new"]);
    assert!(packed(&f) >= many - RECENT - 2);
}

#[test]
fn unpacked_objects_are_few_if_they_are_large() {
    let informer = Informer::<ConfigMap>::new();
    let large = "x".repeat(RECENT_BYTES / 4);
    let object = |name: usize, label: &str| serde_json::from_value(map(&name.to_string(), label)).unwrap();
    let unpacked = || -> Vec<String> {
        let kept = informer.kept();
        kept.iter().filter(|kept| !kept.is_packed()).map(|kept| kept.key().to_string()).collect()
    };
    (0..9).for_each(|name| informer.apply(object(name, &large)));
    assert_eq!(unpacked(), ["ns/6", "ns/7", "ns/8"]);
    // Small objects replace a large one, and a deletion frees the bytes at the latest when its turn comes.
    informer.apply(object(6, ""));
    informer.apply(object(7, ""));
    informer.remove(object(8, ""));
    (0..9).for_each(|name| informer.apply(object(name, "")));
    assert_eq!(unpacked().len(), 9);
    informer.apply(object(9, &"x".repeat(2 * RECENT_BYTES)));
    assert_eq!(unpacked(), Vec::<String>::new(), "one object is larger than the limit");
    assert_eq!(informer.get("ns/9").map(|map| label(&map).len()), Some(2 * RECENT_BYTES));
}

#[tokio::test(start_paused = true)]
async fn change_has_the_former_index_values() {
    let informer = Informer::<ConfigMap>::new();
    informer.add_index("label", |o| label(o).split('-').map(str::to_owned).collect());
    let left: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&left);
    let _handler = informer.add_handler(move |change| {
        notes.lock().push(change.left("label").chain(change.left("other")).collect::<Vec<_>>().join(" "));
    });
    let object = |text: &str| -> ConfigMap { serde_json::from_value(map("a", text)).unwrap() };
    informer.apply(object("x-y"));
    informer.apply(object("y-z"));
    informer.apply(object("z-y"));
    informer.remove(object("unheard of"));
    assert_eq!(*left.lock(), ["", "x", "", "z y"]);
    assert!(["x", "y", "z"].iter().all(|value| !informer.has_indexed("label", value)));
}

/// The first list is applied as it arrives; one that breaks off and restarts leaves nothing behind.
#[tokio::test]
async fn interrupted_first_list_leaves_nothing_behind() {
    let informer = Informer::<ConfigMap>::new();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let _handler = informer.add_handler(move |change: &Change<ConfigMap>| {
        notes.lock().push(format!("{}{}", if change.is_gone() { "-" } else { "+" }, change.key()));
    });
    let object = |name: &str, version: u8| -> ConfigMap {
        let mut value = map(name, "");
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        serde_json::from_value(value).unwrap()
    };
    let mut broken = Listed::default();
    informer.collect(&mut broken, object("a", 1), 100);
    informer.collect(&mut broken, object("b", 1), 100);
    assert!(!informer.has_synced());
    let mut again = Listed::default();
    informer.collect(&mut again, object("b", 1), 100);
    informer.collect(&mut again, object("c", 2), 100);
    informer.complete(again).await;
    assert!(informer.has_synced());
    assert_eq!(*seen.lock(), ["+ns/a", "+ns/b", "+ns/c", "-ns/a"]);
}
