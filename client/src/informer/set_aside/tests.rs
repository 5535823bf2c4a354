//! Objects that cannot be decoded, against the fake API server, under paused time.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume};
use orlop_test_support::FakeApi;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::Api;
use crate::failing::{Failing, SetAside};
use crate::informer::{Change, Registration};

/// A ConfigMap; a value that is a number cannot be decoded.
fn map(name: &str, value: Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}, "data": {"k": value}})
}

struct Fixture {
    api: FakeApi,
    informer: Informer<ConfigMap>,
    failing: Failing,
    seen: Arc<Mutex<Vec<String>>>,
    _handler: Registration,
    _stop: DropGuard,
}

/// An informer whose changes are recorded as `key old>new`, by value.
fn started(api: FakeApi) -> Fixture {
    let (informer, failing) = (Informer::<ConfigMap>::new(), Failing::default());
    informer.report_to(SetAside::of::<ConfigMap>(&failing));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let handler = informer.add_handler(move |change: &Change<ConfigMap>| {
        let value = |map: Option<&Arc<ConfigMap>>| {
            map.map_or("-".to_owned(), |map| map.data.as_ref().unwrap()["k"].clone())
        };
        notes.lock().push(format!("{} {}>{}", change.key(), value(change.old()), value(change.new.as_ref())));
    });
    let stop = CancellationToken::new();
    let (running, client, token) = (informer.clone(), Api::all(api.client()), stop.clone());
    tokio::spawn(async move { running.run(client, token).await });
    Fixture { api, informer, failing, seen, _handler: handler, _stop: stop.drop_guard() }
}

impl Fixture {
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }

    fn set_aside(&self) -> Vec<String> {
        self.informer.set_aside().into_iter().map(|object| object.key).collect()
    }

    async fn write(&self, name: &str, value: Value) {
        self.api.patch("configmaps", &format!("ns/{name}"), "", json!({"data": {"k": value}}));
        self.api.settle().await;
    }

    /// Lists again, after `changes` that the watch does not report.
    async fn miss(&self, changes: impl FnOnce(&FakeApi)) {
        self.api.set_away(true);
        self.api.settle().await;
        changes(&self.api);
        self.api.disconnect(true);
        self.api.set_away(false);
        self.api.settle().await;
    }

    /// The reports that are due: whether the object fails, its path and the message.
    fn reports(&self) -> Vec<(bool, String, String)> {
        let due = self.failing.due(Instant::now()).into_iter();
        due.map(|report| (report.failing, report.target.path, report.message)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn i12_undecodable_object_of_the_first_list_delays_no_other() {
    let api = FakeApi::new();
    for (name, value) in [("a", json!("1")), ("b", json!(7)), ("c", json!("1"))] {
        api.seed(map(name, value));
    }
    let f = started(api);
    f.informer.synced().await;
    assert_eq!(f.seen(), ["ns/a ->1", "ns/c ->1"]);
    assert_eq!(f.set_aside(), ["ns/b"]);
    assert_eq!(f.informer.find("ns/b").unwrap_err().key, "ns/b");
    assert!(f.informer.find("ns/a").unwrap().is_some() && f.informer.find("ns/d").unwrap().is_none());
    assert!(f.informer.all_decoded().is_err());
    let reports = f.reports();
    assert_eq!((reports.len(), reports[0].0), (1, true));
    assert_eq!(reports[0].1, "/api/v1/namespaces/ns/configmaps/b");
    assert!(reports[0].2.contains("invalid type: integer `7`"), "{reports:?}");
    f.write("a", json!("2")).await;
    assert_eq!(f.seen(), ["ns/a 1>2"], "the watch continues");
    f.write("b", json!("mended")).await;
    assert_eq!(f.seen(), ["ns/b ->mended"]);
    assert!(f.informer.all_decoded().is_ok() && f.informer.find("ns/b").unwrap().is_some());
    assert!(matches!(f.reports().as_slice(), [(false, ..)]));
}

#[tokio::test(start_paused = true)]
async fn cached_object_stays_until_it_is_deleted_or_decoded_again() {
    let api = FakeApi::new();
    api.seed(map("a", json!("1")));
    api.seed(map("b", json!("1")));
    let f = started(api);
    f.informer.synced().await;
    f.seen();
    let cached =
        |f: &Fixture, key: &str| f.informer.get(key).map(|map| map.data.clone().unwrap()["k"].clone());
    f.write("a", json!(7)).await;
    f.write("b", json!(7)).await;
    assert_eq!(f.seen(), [""; 0]);
    assert_eq!(
        (f.set_aside(), cached(&f, "ns/a").as_deref()),
        (vec!["ns/a".into(), "ns/b".into()], Some("1"))
    );
    assert!(f.informer.find("ns/a").unwrap().is_some() && f.informer.all_decoded().is_err());
    f.miss(|_| ()).await;
    assert_eq!(f.seen(), [""; 0], "a later list does not delete it either");
    f.write("a", json!("2")).await;
    assert_eq!((f.seen(), f.set_aside()), (vec!["ns/a 1>2".to_owned()], vec!["ns/b".to_owned()]));
    f.api.delete("configmaps", "ns/b");
    f.api.settle().await;
    assert_eq!((f.seen(), f.set_aside().len()), (vec!["ns/b 1>-".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn missed_changes_of_undecodable_objects_are_applied_by_the_next_list() {
    let api = FakeApi::new();
    for (name, value) in [("a", json!(7)), ("b", json!(7)), ("c", json!("1")), ("d", json!("1"))] {
        api.seed(map(name, value));
    }
    let f = started(api);
    f.informer.synced().await;
    f.seen();
    f.reports();
    f.miss(|api| {
        api.delete("configmaps", "ns/a");
        api.patch("configmaps", "ns/b", "", json!({"data": {"k": "mended"}}));
        api.patch("configmaps", "ns/c", "", json!({"data": {"k": 7}}));
        api.delete("configmaps", "ns/d");
        api.create(map("d", json!(7)));
    })
    .await;
    assert_eq!(f.seen(), ["ns/d 1>-", "ns/b ->mended"], "another object has the name d");
    assert_eq!(f.set_aside(), ["ns/c", "ns/d"]);
    let reported: Vec<(bool, String)> = f
        .reports()
        .into_iter()
        .map(|(fails, path, _)| (fails, path.rsplit('/').next().unwrap().to_owned()))
        .collect();
    assert_eq!(reported, [(false, "b".to_owned()), (true, "c".to_owned()), (true, "d".to_owned())]);
}

#[test]
fn set_aside_objects_are_reported_by_kind() {
    let (informer, failing) = (Informer::<PersistentVolume>::new(), Failing::default());
    informer.report_to(SetAside::of::<PersistentVolume>(&failing));
    let object = |revision: &str| Undecodable {
        key: "v".to_owned(),
        uid: String::new(),
        revision: revision.to_owned(),
        error: "no".to_owned(),
    };
    informer.put_aside(&"v".into(), object("1"));
    informer.put_aside(&"v".into(), object("2"));
    assert_eq!(informer.set_aside(), [object("2")]);
    assert!(failing.metrics().contains("orlop_controller_failing_objects{controller=\"informer\"} 1"));
    informer.delete(&"v".into());
    assert!(informer.set_aside().is_empty());
    assert!(failing.metrics().contains("orlop_controller_failing_objects{controller=\"informer\"} 0"));
}
