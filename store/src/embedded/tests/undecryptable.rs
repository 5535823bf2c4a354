//! Former versions that cannot be decrypted now, because a KMS plugin is not available: they stay until they can be erased with their
//! metadata.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::erasure::{PAUSE_MS, feeder_of, secrets, until};
use super::sensitive::{SECRET, START_MS, gone, marker, options, search, write};
use super::{scratch, small};
use crate::embedded::feed::{ErasedRows, Feeder};
use crate::embedded::read;
use crate::testing::Sum;
use crate::testing::faulty::Faulty;
use crate::transform::Transform;
use crate::{
    Decoded, Embedded, Key, Kv, ManualClock, Options, Redact, Revision, Sensitive, TransformError,
    Transformer,
};

/// The start of the stored form of a Secret.
const PREFIX: &[u8] = b"enc:";

/// Reverses the values of Secrets. While the plugin is not available, the values that contain `needs_plugin` cannot be decrypted.
struct Plugin {
    needs_plugin: &'static str,
    is_available: AtomicBool,
}

impl Plugin {
    fn new(needs_plugin: &'static str) -> Arc<Self> {
        Arc::new(Plugin { needs_plugin, is_available: AtomicBool::new(true) })
    }

    fn set_available(&self, is_available: bool) {
        self.is_available.store(is_available, Ordering::SeqCst);
    }
}

fn reversed(text: &[u8]) -> Vec<u8> {
    text.iter().rev().copied().collect()
}

/// The text in the files of a store that contain the version with this marker.
fn stored(name: &str) -> String {
    marker(name).chars().rev().collect()
}

impl Transformer for Plugin {
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError> {
        let is_secret = key.as_str().contains("secrets");
        Ok(is_secret.then(|| [PREFIX, &reversed(value)].concat().into()))
    }

    fn decode(&self, _: &Key, stored: &Bytes) -> Result<Decoded, TransformError> {
        let Some(rest) = stored.strip_prefix(PREFIX) else {
            return Ok(Decoded { value: None, is_stale: false });
        };
        let value = reversed(rest);
        if value.starts_with(b"damaged") {
            return Err("it is damaged".into());
        }
        let needs_plugin = String::from_utf8_lossy(&value).contains(self.needs_plugin);
        if needs_plugin && !self.is_available.load(Ordering::SeqCst) {
            return Err(TransformError::temporary("the plugin is not available"));
        }
        Ok(Decoded { value: Some(value.into()), is_stale: false })
    }
}

fn with(plugin: &Arc<Plugin>, clock: &Arc<ManualClock>) -> Options {
    Options { transformer: Some(plugin.clone()), ..options(clock) }
}

/// The values of the former versions of the Secret, newest first.
async fn former(store: &Embedded<Sum>) -> Vec<Bytes> {
    let history = store.history(&Key::from(SECRET), 10).await.unwrap();
    history.iter().skip(1).map(|event| event.record.as_ref().unwrap().value.clone()).collect()
}

async fn is_stored(dir: &Path, name: &str) {
    until(|| search(dir, &stored(name)).is_ok_and(|found| !found.is_empty())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_cannot_be_decrypted_now_are_erased_with_their_metadata_later() {
    let (dir, clock) = (scratch(), Arc::new(ManualClock::new(START_MS)));
    // The versions are `first`, `second` and `deleted`, in this order.
    let plugin = Plugin::new("second");
    let open = || Embedded::<Sum>::open(dir.path(), with(&plugin, &clock)).unwrap();
    let mut store = open();
    write(&store).await;
    plugin.set_available(false);
    clock.set(START_MS + 60_000);
    gone(dir.path(), &stored("first")).await;
    for _restart in 0..2 {
        // The attempt may begin before the served copy contains the last of the two versions.
        until(|| store.usage().unread_former_versions > 0).await;
        for name in ["second", "deleted", "current"] {
            is_stored(dir.path(), name).await;
        }
        assert!(store.at(Revision(1), SECRET).await.is_err(), "the versions are hidden");
        store.close().await;
        drop(store);
        store = open();
    }
    until(|| store.usage().unread_former_versions > 0).await;
    plugin.set_available(true);
    clock.set(START_MS + 60_000 + 10 * PAUSE_MS);
    for name in ["second", "deleted"] {
        gone(dir.path(), &stored(name)).await;
    }
    assert_eq!(former(&store).await, ["rest", "rest"]);
    assert_eq!(store.usage().unread_former_versions, 0);
    assert_eq!(store.head().get(SECRET).unwrap().value, marker("current"));
    store.close().await;
}

/// The power fails at some operations of an erasure during which the plugin is not available.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_erasure_without_the_plugin_loses_no_metadata() {
    let (made, clock) = (scratch(), Arc::new(ManualClock::new(START_MS)));
    let plugin = Plugin::new("second");
    let written =
        Options { snapshot_bytes: 64, transformer: Some(plugin.clone()), clock: clock.clone(), ..small() };
    let store = Embedded::<Sum>::open(made.path(), written).unwrap();
    write(&store).await;
    store.close().await;
    drop(store);
    clock.set(START_MS + 60_000);
    let copied = || {
        let dir = scratch();
        super::power::copy(made.path(), dir.path()).unwrap();
        dir
    };
    let on = |files: &Faulty| Options { files: Arc::new(files.clone()), ..with(&plugin, &clock) };
    let is_over = |dir: &Path| search(dir, &stored("first")).is_ok_and(|found| found.is_empty());
    // The number of operations in a complete run.
    plugin.set_available(false);
    let (dir, whole) = (copied(), Faulty::new(u64::MAX));
    let store = Embedded::<Sum>::open(dir.path(), on(&whole)).unwrap();
    until(|| is_over(dir.path())).await;
    let total = whole.done();
    store.close().await;
    drop(store);
    for at in (0..=total).step_by(usize::try_from(total / 10).unwrap().max(1)) {
        let (dir, files) = (copied(), Faulty::new(at));
        plugin.set_available(false);
        if let Ok(store) = Embedded::<Sum>::open(dir.path(), on(&files)) {
            let end = Instant::now() + Duration::from_millis(300);
            while Instant::now() < end && files.done() <= at && !is_over(dir.path()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            store.close().await;
        }
        files.cut().unwrap();
        plugin.set_available(true);
        let store = Embedded::<Sum>::open(dir.path(), with(&plugin, &clock)).unwrap();
        for name in ["first", "second", "deleted"] {
            gone(dir.path(), &stored(name)).await;
        }
        assert_eq!(former(&store).await, ["rest", "rest"], "operation {at}");
        store.close().await;
    }
}

/// The values of the rows of the log that [`feeder_of`] has written, decrypted.
fn rows(feeder: &Feeder, transform: &Transform, through: u64) -> Vec<Bytes> {
    let rows = read::log(feeder.served(), feeder.store(), Revision(1), Revision(through));
    rows.map(|row| {
        let row = row.unwrap();
        let stored = row.value.unwrap();
        if stored.is_empty() { stored } else { transform.value(&row.key, stored).0 }
    })
    .collect()
}

#[test]
fn rows_are_erased_up_to_the_first_one_that_cannot_be_decrypted_now() {
    let dir = scratch();
    let plugin = Plugin::new("value 4");
    let transform = Transform(Some(plugin.clone()));
    let redact = Redact(Arc::new(|_: &Key, _: &Bytes| Some(Bytes::from_static(b"rest"))));
    let sensitive = Sensitive { redact, ..secrets() };
    let value = |revision| match revision {
        2 => "damaged".to_owned(),
        other => format!("value {other}"),
    };
    let mut feeder = feeder_of(dir.path(), 6, &sensitive, &|key, revision| {
        let value = Bytes::from(value(revision));
        (value.clone(), transform.stored(key, &value).unwrap())
    });
    plugin.set_available(false);
    let waits = ErasedRows::Waits(TransformError::temporary("the plugin is not available"));
    // The fifth event has replaced the fourth version.
    for attempt in 0..2 {
        assert_eq!(feeder.erase(&transform, Revision(6)).unwrap(), waits, "attempt {attempt}");
        assert_eq!(feeder.erasure.rows, Revision(4), "attempt {attempt}");
        assert_eq!(feeder.erasure.former.through(Revision(6)).count(), 2, "attempt {attempt}");
    }
    plugin.set_available(true);
    let before = ["rest", "", "rest", "value 4", "value 5", "value 6"];
    assert_eq!(rows(&feeder, &transform, 6), before);
    assert_eq!(feeder.erase(&transform, Revision(6)).unwrap(), ErasedRows::All);
    assert_eq!(rows(&feeder, &transform, 6), ["rest", "", "rest", "rest", "rest", "value 6"]);
    assert_eq!(feeder.erasure.rows, Revision(6));
}
