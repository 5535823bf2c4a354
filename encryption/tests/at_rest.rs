//! A store with encryption: no file contains a value, a value outlives its key's rotation, and a value without its key is reported.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orlop_encryption::{Encryption, EncryptionError};
use orlop_store::embedded::{Embedded, Options, compact};
use orlop_store::{CommitError, Expect, Key, Kv, Op, Stored, Write, archive};

const MARKER: &str = "marker-of-a-secret";
const SECRET: &str = "/registry/secrets/default/a";
const MAP: &str = "/registry/configmaps/default/a";
const SECRET_1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECRET_2: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn configure(path: &Path, providers: &[&str]) {
    let providers = providers.join("\n  - ");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - \
         {providers}\n"
    );
    std::fs::write(path, text).unwrap();
}

fn keys(provider: &str, name: &str, secret: &str) -> String {
    format!("{provider}: {{keys: [{{name: {name}, secret: {secret}}}]}}")
}

fn open(dir: &Path, encryption: Option<Arc<Encryption>>) -> Embedded<()> {
    let options = Options {
        ballast_bytes: Some(0),
        transformer: encryption.map(|encryption| encryption as Arc<dyn orlop_store::Transformer>),
        ..Options::default()
    };
    Embedded::open(dir.join("store"), options).unwrap()
}

async fn put(store: &Embedded<()>, key: &str, value: &str) -> Result<(), CommitError<()>> {
    let expect = store.head().get(key).map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
    let op = Op::Put { value: Bytes::from(value.to_owned()), view: () };
    store.commit(vec![Write { key: Key::from(key), expect, op }]).await.map(drop)
}

fn value(store: &Embedded<()>, key: &str) -> String {
    String::from_utf8(store.head().get(key).unwrap().value.to_vec()).unwrap()
}

/// The files below a directory that contain a text.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn no_file_contains_an_encrypted_value() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &[&keys("aesgcm", "k", SECRET_1), "identity: {}"]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(dir.path(), Some(encryption.clone()));
    for n in 0..5 {
        put(&store, SECRET, &format!("{MARKER} {n}")).await.unwrap();
    }
    put(&store, MAP, "marker-of-a-map").await.unwrap();
    let snapshot = dir.path().join("snapshot");
    let write = |out: &mut dyn std::io::Write| archive::write(out, store.id(), 0, &store.head(), &[]);
    archive::save(&snapshot, write).unwrap();
    store.close().await;
    drop(store);
    compact(&dir.path().join("store"), &Options { ballast_bytes: Some(0), ..Options::default() }).unwrap();
    assert!(
        !files_with(&dir.path().join("store/snapshot"), "marker-of-a-map").is_empty(),
        "the search finds it"
    );
    let store = open(dir.path(), Some(encryption.clone()));
    // Read from the log, not from memory.
    let past = store.history(&Key::from(SECRET), 10).await.unwrap();
    let values: Vec<_> = past.iter().map(|event| event.record.as_ref().unwrap().value.clone()).collect();
    assert_eq!(values[0], format!("{MARKER} 4"));
    assert_eq!(value(&store, SECRET), format!("{MARKER} 4"));
    assert_eq!(files_with(&dir.path().join("store"), MARKER), Vec::<String>::new());
    store.close().await;
    drop(store);

    // A restore needs no keys, and the values of the new store are encrypted too.
    std::fs::remove_dir_all(dir.path().join("store")).unwrap();
    archive::restore(&snapshot, &dir.path().join("store"), 100, &[], &Options::default()).unwrap();
    assert_eq!(files_with(&dir.path().join("store"), MARKER), Vec::<String>::new());
    let store = open(dir.path(), Some(encryption));
    assert_eq!(value(&store, SECRET), format!("{MARKER} 4"));
    store.close().await;
}

#[tokio::test]
async fn keys_are_rotated_by_rewriting() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    let (old, new) = (keys("aescbc", "old", SECRET_1), keys("secretbox", "new", SECRET_2));
    // Not encrypted at first.
    let store = open(dir.path(), Some(Arc::new(Encryption::none())));
    put(&store, SECRET, MARKER).await.unwrap();
    store.close().await;
    drop(store);
    let mut prefixes = Vec::new();
    for providers in [&[&old[..], "identity: {}"][..], &[&new, &old], &[&new], &["identity: {}", &new]] {
        configure(&config, providers);
        let store = open(dir.path(), Some(Arc::new(Encryption::load(&config).unwrap())));
        let record = store.head().get(SECRET).unwrap().clone();
        assert_eq!(value(&store, SECRET), MARKER, "{providers:?}");
        let is_stale = store.is_stale(&record);
        assert_eq!(is_stale, providers != [&new], "{providers:?}");
        if is_stale {
            put(&store, SECRET, MARKER).await.unwrap();
        }
        let record = store.head().get(SECRET).unwrap().clone();
        assert!(!store.is_stale(&record));
        prefixes.push(String::from_utf8_lossy(&record.stored_bytes()[..15]).into_owned());
        store.close().await;
    }
    assert_eq!(prefixes, ["k8s:enc:aescbc:", "k8s:enc:secretb", "k8s:enc:secretb", "marker-of-a-sec"]);
}

#[tokio::test]
async fn value_without_its_key_is_unreadable_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &[&keys("aescbc", "k", SECRET_1)]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(dir.path(), Some(encryption.clone()));
    put(&store, SECRET, MARKER).await.unwrap();
    put(&store, MAP, "map").await.unwrap();
    store.close().await;
    drop(store);
    let store = open(dir.path(), Some(Arc::new(Encryption::none())));
    let record = store.head().get(SECRET).unwrap().clone();
    assert_eq!(record.unreadable().unwrap().to_string(), "identity transformer tried to read encrypted data");
    assert!(record.value.is_empty());
    assert_eq!(value(&store, MAP), "map");
    // Its bytes stay unchanged while other records change, and in a compaction.
    for n in 0..3 {
        put(&store, MAP, &n.to_string()).await.unwrap();
    }
    store.close().await;
    drop(store);
    compact(&dir.path().join("store"), &Options { ballast_bytes: Some(0), ..Options::default() }).unwrap();
    let store = open(dir.path(), Some(encryption));
    assert_eq!(value(&store, SECRET), MARKER);
    store.close().await;
}

#[tokio::test]
async fn changed_configuration_applies_to_the_next_write() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &["identity: {}"]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(dir.path(), Some(encryption.clone()));
    put(&store, SECRET, MARKER).await.unwrap();
    std::fs::write(&config, "kind: nothing").unwrap();
    assert!(encryption.reload(|| store.head()).is_err());
    let record = store.head().get(SECRET).unwrap().clone();
    assert!(!store.is_stale(&record), "the previous configuration stays");
    configure(&config, &[&keys("aescbc", "k", SECRET_1), "identity: {}"]);
    assert!(encryption.reload(|| store.head()).unwrap());
    assert!(!encryption.reload(|| store.head()).unwrap(), "it has not changed again");
    assert!(store.is_stale(&record));
    put(&store, SECRET, MARKER).await.unwrap();
    assert!(store.head().get(SECRET).unwrap().stored_bytes().starts_with(b"k8s:enc:aescbc:v1:k:"));
    store.close().await;
}

/// The path of an object, of which there are more than a reload checks at a time.
fn nth(n: usize) -> String {
    format!("/registry/secrets/default/{n:04}")
}

#[tokio::test]
async fn key_in_use_cannot_be_removed_by_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    let (old, new) = (keys("aescbc", "old", SECRET_1), keys("secretbox", "new", SECRET_2));
    configure(&config, &[&old]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(dir.path(), Some(encryption.clone()));
    let write = async |from: usize| {
        let puts = (from..1100).map(|n| {
            let expect = store
                .head()
                .get(&nth(n))
                .map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
            Write { key: Key::from(nth(n)), expect, op: Op::Put { value: MARKER.into(), view: () } }
        });
        store.commit(puts.collect()).await.unwrap();
    };
    write(0).await;
    configure(&config, &[&new, &old]);
    assert!(encryption.reload(|| store.head()).unwrap());
    // All but one are rewritten.
    write(1).await;
    configure(&config, &[&old]);
    assert!(matches!(
        encryption.reload(|| store.head()),
        Err(EncryptionError::KeyInUse { records: 1099, .. })
    ));
    configure(&config, &[&new]);
    let error = encryption.reload(|| store.head()).unwrap_err();
    assert!(
        matches!(&error, EncryptionError::KeyInUse { records: 1, key, .. } if key.as_str() == nth(0)),
        "{error}"
    );
    assert!(!error.to_string().contains(SECRET_1) && !error.to_string().contains(SECRET_2));
    // The previous rules stay: they read all, and write with the new key.
    let head = store.head();
    assert!(store.is_stale(head.get(&nth(0)).unwrap()) && !store.is_stale(head.get(&nth(1)).unwrap()));
    write(0).await;
    assert!(encryption.reload(|| store.head()).unwrap());
    store.close().await;
    drop(store);
    let store = open(dir.path(), Some(Arc::new(Encryption::load(&config).unwrap())));
    assert!(store.head().range("", None).all(|record| record.value == MARKER));
    store.close().await;
}

#[tokio::test]
async fn unreadable_object_does_not_prevent_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &[&keys("aescbc", "lost", SECRET_1)]);
    let store = open(dir.path(), Some(Arc::new(Encryption::load(&config).unwrap())));
    put(&store, SECRET, MARKER).await.unwrap();
    store.close().await;
    drop(store);
    configure(&config, &[&keys("aescbc", "a", SECRET_2), "identity: {}"]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(dir.path(), Some(encryption.clone()));
    assert!(store.head().get(SECRET).unwrap().unreadable().is_some());
    configure(&config, &[&keys("aesgcm", "b", SECRET_2), "identity: {}"]);
    assert!(encryption.reload(|| store.head()).unwrap());
    store.close().await;
}

/// A write is encrypted with the previous rules while the new ones are being checked.
#[tokio::test(flavor = "multi_thread")]
async fn object_written_during_a_reload_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &[&keys("aescbc", "old", SECRET_1)]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = Arc::new(open(dir.path(), Some(encryption.clone())));
    configure(&config, &[&keys("aescbc", "new", SECRET_2)]);
    let mut calls = 0;
    let (checked, runtime) = (store.clone(), tokio::runtime::Handle::current());
    let (reloaded, encryption) = tokio::task::spawn_blocking(move || {
        let head = || {
            calls += 1;
            let head = checked.head();
            if calls == 1 {
                runtime.block_on(put(&checked, SECRET, MARKER)).unwrap();
            }
            head
        };
        (encryption.reload(head), encryption)
    })
    .await
    .unwrap();
    assert!(matches!(reloaded, Err(EncryptionError::KeyInUse { records: 1, .. })));
    let record = store.head().get(SECRET).unwrap().clone();
    assert!(!store.is_stale(&record), "the previous rules are back");
    put(&store, MAP, "map").await.unwrap();
    let past = store.history(&Key::from(SECRET), 1).await.unwrap();
    assert!(matches!(past[0].record.as_ref().unwrap().stored, Stored::Transformed(_)));
    drop(encryption);
    store.close().await;
}

/// The limit of the data is one of the memory, which contains both forms.
#[tokio::test]
async fn encrypted_objects_count_with_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    configure(&config, &[&keys("aesgcm", "k", SECRET_1)]);
    let store = open(dir.path(), Some(Arc::new(Encryption::load(&config).unwrap())));
    for (key, forms) in [(SECRET, 2), (MAP, 1)] {
        let before = store.data().current;
        put(&store, key, &"x".repeat(10_000)).await.unwrap();
        let more = store.data().current - before;
        assert!((10_000 * forms..10_000 * forms + 200).contains(&more), "{key}: {more}");
        let record = store.head().get(key).unwrap().clone();
        assert_eq!(record.size() as u64, more);
    }
    store.close().await;
}
