//! kube-rs: the typed client, both kinds of watchers, a reflector across restarts and compaction, and a
//! controller.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Resource as _, ResourceExt};
use serde_json::json;

use super::line::Line;
use super::past::{MAPS, change, create, forget, forgetful, revision};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

fn map(name: &str, value: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"value": value}});
    serde_json::from_value(object).expect("a ConfigMap")
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

#[tokio::test]
async fn typed_client_reads_and_writes() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client());
    let post = PostParams::default();
    for name in ["a", "b", "c", "d", "e"] {
        let made = api.create(&post, &map(name, "1")).await.unwrap();
        assert!(made.uid().is_some() && made.resource_version().is_some(), "{made:?}");
    }
    let error = api.create(&post, &map("a", "1")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert!(status.is_already_exists(), "{status:?}");
    assert!(api.get_opt("absent").await.unwrap().is_none());

    let mut names = Vec::new();
    let mut page = ListParams::default().limit(2);
    loop {
        let list = api.list(&page).await.unwrap();
        names.extend(list.items.iter().map(ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let metadata = api.list_metadata(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(metadata.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);

    let mut old = api.get("a").await.unwrap();
    old.data = Some(BTreeMap::from([("value".to_owned(), "2".to_owned())]));
    let new = api.replace("a", &post, &old).await.unwrap();
    assert_eq!(value(&new), "2");
    let kube::Error::Api(status) = api.replace("a", &post, &old).await.unwrap_err() else {
        panic!("no answer")
    };
    assert!(status.is_conflict(), "{status:?}");

    let params = PatchParams::default();
    let patch = Patch::Merge(json!({"data": {"value": "3"}}));
    assert_eq!(value(&api.patch("a", &params, &patch).await.unwrap()), "3");
    let patch = Patch::Strategic(json!({"data": {"value": "4"}}));
    assert_eq!(value(&api.patch("a", &params, &patch).await.unwrap()), "4");

    let mine =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": "5"}});
    let kube::Error::Api(status) =
        api.patch("a", &PatchParams::apply("me"), &Patch::Apply(&mine)).await.unwrap_err()
    else {
        panic!("no answer")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "another one owns the value");
    let forced = api.patch("a", &PatchParams::apply("me").force(), &Patch::Apply(&mine)).await.unwrap();
    assert_eq!(value(&forced), "5");
    let again = api.patch("a", &PatchParams::apply("me"), &Patch::Apply(&mine)).await.unwrap();
    assert_eq!(again.resource_version(), forced.resource_version(), "nothing is new");

    api.delete("a", &DeleteParams::default()).await.unwrap();
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

/// A store that follows the ConfigMaps of a server and reports each list.
fn reflect(
    client: kube::Client,
    config: watcher::Config,
) -> (Store<ConfigMap>, tokio::sync::watch::Receiver<usize>) {
    let (store, writer) = reflector::store();
    let (counter, lists) = tokio::sync::watch::channel(0);
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let events = watcher(api, config).inspect(move |event| {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            counter.send_modify(|lists| *lists += 1);
        }
    });
    // The default backoff grows to 30 s, which is too long for a test.
    let pauses = kube::runtime::utils::ResetTimerBackoff::new(
        watcher::DefaultBackoff::default(),
        Duration::from_millis(1),
    );
    let follow = events.backoff(pauses).reflect(writer).for_each(|_| std::future::ready(()));
    tokio::spawn(follow);
    (store, lists)
}

fn held(store: &Store<ConfigMap>) -> BTreeMap<String, String> {
    store.state().iter().map(|map| (map.name_any(), value(map).to_owned())).collect()
}

/// Waits until a store equals the server's state.
async fn same(store: &Store<ConfigMap>, http: &Http, what: &str) {
    let list = http.get(MAPS).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let wanted = items.map(|item| (text(&item["metadata"]["name"]), text(&item["data"]["value"]))).collect();
    wait::until(what, async || {
        let held = held(store);
        if held == wanted { Ok(()) } else { Err(format!("{held:?}, not {wanted:?}")) }
    })
    .await;
}

async fn reflectors_follow(config: watcher::Config) {
    let mut plane = forgetful().await;
    let http = plane.http();
    for name in ["a", "b", "c"] {
        create(&http, name, "1").await;
    }
    let line = Line::to(&plane.url()).await;
    let (store, mut lists) = reflect(Http::new(line.url()).client(), config);
    wait::in_time("the first list", store.wait_until_ready()).await.unwrap();
    same(&store, &http, "the first list").await;
    change(&http, "a", "2").await;
    same(&store, &http, "a change").await;

    plane.kill_and_restart().await;
    change(&http, "a", "3").await;
    same(&store, &http, "a change after a restart").await;
    assert_eq!(*lists.borrow(), 1, "a restart is no reason to list again");

    line.cut();
    let seen = revision(&http).await;
    change(&http, "b", "2").await;
    http.delete(&format!("{MAPS}/c")).await.expect(200);
    create(&http, "d", "1").await;
    forget(&http, &seen).await;
    line.mend();
    same(&store, &http, "what came while it was cut off").await;
    wait::in_time("a new list", lists.wait_for(|lists| *lists == 2)).await.unwrap();
    let gone = ObjectRef::<ConfigMap>::new("c").within("default");
    assert!(store.get(&gone).is_none());
}

#[tokio::test]
async fn list_watch_reflector_follows_all_changes() {
    reflectors_follow(watcher::Config::default().page_size(2)).await;
}

#[tokio::test]
async fn streaming_list_reflector_follows_all_changes() {
    reflectors_follow(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test]
async fn watcher_returns_selected_objects_only() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client());
    for (config, form) in [
        (watcher::Config::default(), "list and watch"),
        (watcher::Config::default().streaming_lists(), "a streaming list"),
    ] {
        let name = form.replace(' ', "-");
        let mut events = pin!(watcher(api.clone(), config.labels("chosen=yes")).applied_objects());
        http.create(MAPS, &json!({"metadata": {"name": format!("other-{name}")}})).await;
        http.create(MAPS, &json!({"metadata": {"name": name, "labels": {"chosen": "yes"}}})).await;
        let seen = wait::in_time(form, events.try_next()).await.unwrap().unwrap();
        assert_eq!(seen.name_any(), name, "{form}");
        http.delete(&format!("{MAPS}/{name}")).await.expect(200);
    }
}

/// For each map, creates a secret of the same name with the map's value, owned by the map.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<kube::Client>) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::default_namespaced((*client).clone());
    let owner = map.controller_owner_ref(&()).expect("it is stored");
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": map.name_any(), "ownerReferences": [owner]},
        "stringData": {"copy": value(&map)}});
    secrets.patch(&map.name_any(), &PatchParams::apply("copier").force(), &Patch::Apply(&secret)).await?;
    Ok(Action::await_change())
}

/// A controller across a restart: an object that it created is created again when someone deletes it, and is
/// deleted with its owner.
#[tokio::test]
async fn controller_restores_deleted_objects_after_restart() {
    let mut plane = Plane::start().await;
    let (http, client) = (plane.http(), plane.client());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let config = watcher::Config::default().labels("copy=yes");
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<kube::Client>| {
        Action::requeue(Duration::from_millis(100))
    };
    let work = Controller::new(maps, config.clone())
        .owns(secrets, watcher::Config::default())
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| std::future::ready(()));
    let work = tokio::spawn(work);
    let copied = |copy: &'static str| move |secret: &serde_json::Value| secret["data"]["copy"] == *copy;
    let labels = json!({"copy": "yes"});
    http.create(MAPS, &json!({"metadata": {"name": "m", "labels": labels}, "data": {"value": "1"}})).await;
    let secret = "/api/v1/namespaces/default/secrets/m";
    http.until(secret, "the copy", copied("MQ==")).await;
    change(&http, "m", "2").await;
    http.until(secret, "the new copy", copied("Mg==")).await;
    plane.kill_and_restart().await;
    change(&http, "m", "3").await;
    http.until(secret, "the copy after a restart", copied("Mw==")).await;
    http.delete(secret).await.expect(200);
    http.until(secret, "made again", copied("Mw==")).await;
    http.delete(&format!("{MAPS}/m")).await.expect(200);
    http.until_gone(secret).await;
    work.abort();
}
