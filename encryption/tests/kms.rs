//! A KMS plugin protects the keys: the layout of stored values, restarts, rotations, and a plugin that is slow, wrong or not there.

#![allow(clippy::unwrap_used)]

mod fake_kms;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fake_kms::{ANNOTATION, FakeKms, State, scramble};
use orlop_encryption::kms::proto::EncryptedObject;
use orlop_encryption::recover::Recovery;
use orlop_encryption::{Encryption, EncryptionError};
use orlop_store::embedded::{Embedded, Options};
use orlop_store::{Expect, Key, Kv, Op, TransformError, Transformer, Write};
use prost::Message as _;

const VALUE: &str = r#"{"metadata":{"name":"a","namespace":"default"},"data":{"k":"dmFsdWU="}}"#;
const SECRET: &str = "/registry/secrets/default/a";
const PREFIX: &str = "k8s:enc:kms:v2:kms1:";
const AES: &str = "aescbc: {keys: [{name: k, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]}";
/// Until the plugin was healthy for the first time.
const NOT_YET: &str = "got unexpected nil transformer";

/// A directory with a configuration and a socket.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("kms.sock")
    }

    /// The provider of the socket. Calls that succeed are fast; the timeout only limits those that do not.
    fn kms(&self, timeout: &str) -> String {
        kms(&format!("unix://{}", self.socket().display()), timeout)
    }

    fn configure(&self, providers: &[&str]) -> PathBuf {
        let providers = providers.join("\n  - ");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - \
             {providers}\n"
        );
        let path = self.0.path().join("config");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self) -> Encryption {
        Encryption::load(&self.configure(&[&self.kms("1m")])).unwrap()
    }
}

fn kms(endpoint: &str, timeout: &str) -> String {
    format!("kms: {{apiVersion: v2, name: kms1, endpoint: '{endpoint}', timeout: {timeout}}}")
}

fn probe(encryption: &Encryption) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::thread::scope(|scope| {
        let health = encryption.probe_kms();
        scope.spawn(move || runtime.block_on(health)).join().unwrap()
    })
}

fn encode(encryption: &Encryption, value: &str) -> Result<Bytes, String> {
    let stored = encryption.encode(&Key::from(SECRET), &Bytes::from(value.to_owned()));
    stored.map(Option::unwrap).map_err(|error| error.to_string())
}

/// The value, and whether it is stale.
fn decode(encryption: &Encryption, stored: &Bytes) -> Result<(String, bool), String> {
    let key = Key::from(SECRET);
    let decoded = encryption.decode(&key, stored).map_err(|error| error.to_string())?;
    assert_eq!(encryption.is_stale(&key, stored), decoded.is_stale);
    Ok((String::from_utf8(decoded.value.unwrap().to_vec()).unwrap(), decoded.is_stale))
}

fn object(stored: &Bytes) -> EncryptedObject {
    EncryptedObject::decode(stored.strip_prefix(PREFIX.as_bytes()).unwrap()).unwrap()
}

fn stored(object: &EncryptedObject) -> Bytes {
    [PREFIX.as_bytes(), &object.encode_to_vec()].concat().into()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn restarted_server_decrypts_the_seed_once() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let first = place.load();
    let values: Vec<_> = (0..3).map(|n| encode(&first, &format!("value {n}")).unwrap()).collect();
    for value in &values {
        let EncryptedObject {
            encrypted_data,
            key_id,
            encrypted_dek_source,
            annotations,
            encrypted_dek_source_type,
        } = object(value);
        assert_eq!((encrypted_data.len(), encrypted_dek_source.len()), (32 + 12 + 7 + 16, 32));
        assert_eq!((key_id.as_str(), encrypted_dek_source_type), ("1", 1));
        assert_eq!(annotations, [(ANNOTATION.to_owned(), b"1".to_vec())].into());
        assert!(!value.windows(5).any(|window| window == b"value"));
    }
    assert_eq!(plugin.calls(), (1, 0));
    for encryption in [first, place.load()] {
        for (n, value) in values.iter().enumerate() {
            assert_eq!(decode(&encryption, value), Ok((format!("value {n}"), false)));
        }
        let moved = encryption.decode(&Key::from("/registry/secrets/default/b"), &values[0]);
        assert_eq!(moved.unwrap_err().to_string(), "cipher: message authentication failed");
    }
    assert_eq!(plugin.calls(), (2, 1));
}

/// The vector was computed with Python's `cryptography` and a protobuf encoder of its own: the seed has the bytes 0 to 31.
#[test]
fn value_of_another_implementation_is_read() {
    let place = Place::new();
    let _plugin = FakeKms::start(&place.socket());
    let vector = bytes(
        "0a8301404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f32333435363738393a3b3c3d49dd60ee4de80eb6fa0ddac3beae93abb9ab4dfca132eb283b1c819aeeaaa956cbd8763b0f87ea307530dc6629160b277a9decf6078ae560f8257181917fb852fa324927c0721dd3d361d0d731c4b9396c4e2fefd58c171201311a205a5b58595e5f5c5d52535051565754554a4b48494e4f4c4d4243404146474445221c0a1776657273696f6e2e6b6d732e6578616d706c652e636f6d1201312801",
    );
    let encryption = place.load();
    let vector: Bytes = [PREFIX.as_bytes(), &vector].concat().into();
    assert_eq!(decode(&encryption, &vector), Ok((VALUE.to_owned(), false)));
    assert_eq!(stored(&object(&vector)), vector, "this implementation has the same layout");
}

/// Upstream wrote this type before 1.28. The encrypted data is a vector of tests/vectors.rs.
#[test]
fn value_with_a_key_instead_of_a_seed_is_read_and_stale() {
    let place = Place::new();
    let _plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    let written = object(&encode(&encryption, VALUE).unwrap());
    let key: Vec<u8> = (0..32).collect();
    let encrypted_data = bytes(
        "32333435363738393a3b3c3dbd7982a5b15de5821966c8bc20cf91990bd639bbab2c85c7f3746af5d240eb134065e871358762c8f07916ab861bcfcf9b95938cf0f62b17f1798b702b49c852aee38fc3041681f72abe275b00f4928420dc8d8f33fe55",
    );
    let with_key = EncryptedObject {
        encrypted_data,
        encrypted_dek_source: scramble(&key),
        encrypted_dek_source_type: 0,
        ..written
    };
    assert_eq!(decode(&encryption, &stored(&with_key)), Ok((VALUE.to_owned(), true)));
}

#[test]
fn values_are_stale_after_the_plugin_changed_its_key() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    let old = encode(&encryption, "old").unwrap();
    plugin.state().key_id = "2".to_owned();
    probe(&encryption).unwrap();
    probe(&encryption).unwrap();
    assert_eq!(plugin.state().encrypt_calls, 2, "a seed for each key");
    let new = encode(&encryption, "new").unwrap();
    assert_eq!(object(&new).key_id, "2");
    assert_eq!(decode(&encryption, &old), Ok(("old".to_owned(), true)));
    assert_eq!(decode(&encryption, &new), Ok(("new".to_owned(), false)));
    assert_eq!(plugin.state().decrypt_calls, 0, "the former seed is cached");
}

#[test]
fn former_seed_stays_in_use_if_a_rotation_fails() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    plugin.state().key_id = "2".to_owned();
    plugin.state().encrypts_with = Some("3".to_owned());
    let error = probe(&encryption).unwrap_err();
    let want = "kms-provider-0: kmsv2 Provider kms1 is not healthy, error: failed to rotate DEK uid=";
    assert!(
        error.starts_with(want) && error.contains("errState=<nil>, errGen=<nil>, statusKeyIDHash=\"sha256:"),
        "{error}"
    );
    assert_eq!(object(&encode(&encryption, "value").unwrap()).key_id, "1");
}

#[test]
fn responses_that_break_the_rules_are_refused() {
    type Change = fn(&mut State);
    let cases: [(&str, Change); 7] = [
        ("got unexpected healthz status: disabled", |state| state.healthz = "disabled".to_owned()),
        ("expected KMSv2 API version v2, got v1beta1", |state| state.version = "v1beta1".to_owned()),
        ("got invalid KMSv2 KeyID hash \"\": keyID is empty", |state| state.key_id.clear()),
        ("keyID is 1025 bytes, which exceeds the max size of 1024", |state| state.key_id = "k".repeat(1025)),
        ("errState=got unexpected nil transformer, errGen=<nil>", |state| {
            state.encrypts_with = Some("another".to_owned());
        }),
        ("failed to validate key id: keyID is empty", |state| state.encrypts_with = Some(String::new())),
        ("should be a domain with at least two segments separated by dots", |state| {
            state.annotation = "foo".to_owned();
        }),
    ];
    for (want, change) in cases {
        let place = Place::new();
        let _plugin = FakeKms::start_with(&place.socket(), change);
        let encryption = place.load();
        let error = probe(&encryption).unwrap_err();
        assert!(error.starts_with("kms-provider-0: kmsv2 Provider kms1 is not healthy, error: "), "{error}");
        assert!(error.contains(want), "{want}: {error}");
        // A plugin that is not healthy may still encrypt, as upstream.
        let is_usable = want.starts_with("got unexpected healthz") || want.starts_with("expected KMSv2");
        assert_eq!(encode(&encryption, "value").is_ok(), is_usable, "{want}");
    }
}

#[test]
fn values_that_the_plugin_does_not_know_are_unreadable() {
    let place = Place::new();
    let plugin = FakeKms::start_with(&place.socket(), |state| state.decrypts = vec!["1".to_owned()]);
    let encryption = place.load();
    let written = object(&encode(&encryption, VALUE).unwrap());
    let other_key = EncryptedObject { key_id: "2".to_owned(), ..written.clone() };
    let no_annotations = EncryptedObject { annotations: [].into(), ..written.clone() };
    let bad_annotation =
        EncryptedObject { annotations: [("foo".to_owned(), vec![])].into(), ..written.clone() };
    let short_seed = EncryptedObject { encrypted_dek_source: vec![1], ..written };
    for (object, want) in [
        (&other_key, "failed to decrypt DEK, error: rpc error: code = NotFound desc = there is no key 2"),
        (
            &no_annotations,
            "failed to decrypt DEK, error: rpc error: code = InvalidArgument desc = the annotation is missing",
        ),
        (
            &bad_annotation,
            "failed to validate annotations: annotations: Invalid value: \"foo\": should be a domain with at least two segments separated by dots",
        ),
        (&short_seed, "invalid seed length 1 used for key generation"),
    ] {
        for _ in 0..2 {
            let error = encryption.decode(&Key::from(SECRET), &stored(object)).unwrap_err();
            assert_eq!(error.to_string(), want);
            assert!(!error.is_temporary(), "{error}");
        }
    }
    assert_eq!(plugin.state().decrypt_calls, 3, "failed calls are not repeated immediately");
    assert!(decode(&encryption, &Bytes::from(format!("{PREFIX}?"))).is_err());
    let other_provider = Bytes::from("k8s:enc:kms:v2:kms2:?");
    assert_eq!(decode(&encryption, &other_provider), Err("no matching prefix found".to_owned()));
}

#[test]
fn plugin_that_hangs_delays_one_read_until_the_timeout() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let written = encode(&place.load(), VALUE).unwrap();
    let encryption = Encryption::load(&place.configure(&[&place.kms("500ms")])).unwrap();
    while probe(&encryption).is_err() {}
    plugin.state().hangs = true;
    let want =
        "failed to decrypt DEK, error: rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    for _ in 0..3 {
        assert_eq!(decode(&encryption, &written), Err(want.to_owned()));
    }
    assert_eq!(plugin.state().decrypt_calls, 1);
    encode(&encryption, VALUE).unwrap();
    plugin.state().hangs = false;
    // It responds again. A successful health check ends the outage.
    while decode(&encryption, &written).is_err() {
        let _ = probe(&encryption);
    }
    assert_eq!(decode(&encryption, &written), Ok((VALUE.to_owned(), false)));
}

#[test]
fn restarted_plugin_is_called_again() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    drop(plugin);
    let plugin = FakeKms::start_with(&place.socket(), |state| state.key_id = "2".to_owned());
    probe(&encryption).unwrap();
    assert_eq!(object(&encode(&encryption, VALUE).unwrap()).key_id, "2");
    drop(plugin);
}

#[test]
fn socket_may_be_abstract() {
    let place = Place::new();
    let name = format!("orlop-kms-test-{}", std::process::id());
    let _plugin = FakeKms::start(Path::new(&format!("\0{name}")));
    let path = place.configure(&[&kms(&format!("unix:///@{name}"), "1m")]);
    let encryption = Encryption::load(&path).unwrap();
    let written = encode(&encryption, VALUE).unwrap();
    assert_eq!(decode(&encryption, &written), Ok((VALUE.to_owned(), false)));
}

#[test]
fn metrics_show_the_calls_and_keys() {
    let place = Place::new();
    let _plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    encode(&encryption, VALUE).unwrap();
    let metrics = encryption.metrics();
    for want in [
        "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"kms1\"} 1",
        "apiserver_envelope_encryption_kms_operations_latency_seconds_count{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/Encrypt\",provider_name=\"kms1\"} 1",
        "provider_name=\"kms1\",transformation_type=\"to_storage\"} 1",
    ] {
        assert!(metrics.contains(want), "{want}\n{metrics}");
    }
    assert_eq!(Encryption::none().metrics(), "");
}

fn open(dir: &Path, encryption: &Arc<Encryption>) -> Embedded<()> {
    let transformer: Arc<dyn Transformer> = encryption.clone();
    let options = Options { ballast_bytes: Some(0), transformer: Some(transformer), ..Options::default() };
    Embedded::open(dir.join("store"), options).unwrap()
}

async fn put(store: &Embedded<()>, key: &str, value: &str) -> Result<(), String> {
    let expect = store.head().get(key).map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
    let op = Op::Put { value: Bytes::from(value.to_owned()), view: () };
    let committed = store.commit(vec![Write { key: Key::from(key), expect, op }]).await;
    committed.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn objects_are_readable_when_the_plugin_starts_after_the_server() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = Arc::new(place.load());
    let store = open(place.0.path(), &encryption);
    let nth = |n: usize| format!("/registry/secrets/default/{n:03}");
    for n in 0..250 {
        put(&store, &nth(n), &format!("value {n}")).await.unwrap();
    }
    put(&store, "/registry/configmaps/default/a", "map").await.unwrap();
    store.close().await;
    drop((store, encryption, plugin));

    let config = place.configure(&[&place.kms("500ms")]);
    let encryption = Arc::new(Encryption::load(&config).unwrap());
    let store = open(place.0.path(), &encryption);
    let record = store.head().get(&nth(0)).unwrap().clone();
    assert_eq!(record.unreadable(), Some(&TransformError::temporary(NOT_YET)));
    assert_eq!(store.head().get("/registry/configmaps/default/a").unwrap().value, "map");
    assert!(put(&store, SECRET, "value").await.unwrap_err().contains(NOT_YET));
    let down = probe(&encryption).unwrap_err();
    let want = "kms-provider-0: failed to perform status section of the healthz check for KMS Provider kms1, error: rpc error: code = DeadlineExceeded desc = context deadline exceeded: cannot connect to ";
    assert!(down.starts_with(want), "{down}");
    let mut recovery = Recovery::new(&store.head());
    assert!(recovery.writes(&encryption, &store.head()).is_empty() && !recovery.is_done());

    let _plugin = FakeKms::start(&place.socket());
    while probe(&encryption).is_err() {}
    // A client deletes one of them first.
    let expect = Expect::Revision(store.head().get(&nth(7)).unwrap().mod_revision);
    store.commit(vec![Write { key: Key::from(nth(7)), expect, op: Op::Delete }]).await.unwrap();
    let mut commits = 0;
    while !recovery.is_done() {
        let writes = recovery.writes(&encryption, &store.head());
        if !writes.is_empty() {
            commits += 1;
            store.commit(writes).await.unwrap();
        }
    }
    assert_eq!(commits, 3);
    let head = store.head();
    for n in (0..250).filter(|n| *n != 7) {
        let record = head.get(&nth(n)).unwrap();
        assert_eq!(record.value, format!("value {n}"));
        assert!(!store.is_stale(record) && record.mod_revision > record.create_revision);
    }
    assert!(head.get(&nth(7)).is_none());
    store.close().await;
}

#[tokio::test]
async fn changed_configuration_adds_and_removes_a_plugin() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = Arc::new(Encryption::load(&place.configure(&[AES])).unwrap());
    assert!(!encryption.has_kms());
    let store = open(place.0.path(), &encryption);
    put(&store, SECRET, VALUE).await.unwrap();
    place.configure(&[&place.kms("1m"), AES]);
    assert!(encryption.reload(|| store.head()).unwrap() && encryption.has_kms());
    let record = store.head().get(SECRET).unwrap().clone();
    assert!(store.is_stale(&record));
    put(&store, SECRET, VALUE).await.unwrap();
    let record = store.head().get(SECRET).unwrap().clone();
    assert!(record.stored_bytes().starts_with(PREFIX.as_bytes()) && !store.is_stale(&record));
    place.configure(&[&place.kms("1m")]);
    assert!(encryption.reload(|| store.head()).unwrap());
    assert_eq!(plugin.state().encrypt_calls, 1, "an unchanged provider stays in use");
    place.configure(&[AES]);
    let refused = encryption.reload(|| store.head());
    assert!(matches!(refused, Err(EncryptionError::KeyInUse { records: 1, .. })), "{refused:?}");
    store.close().await;
}

#[test]
fn health_is_reported_without_waiting_for_a_recent_result() {
    let place = Place::new();
    let plugin = FakeKms::start(&place.socket());
    let encryption = place.load();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    plugin.state().healthz = "disabled".to_owned();
    assert_eq!(runtime.block_on(encryption.kms_health()), Ok(()), "a good result is repeated");
    assert!(probe(&encryption).is_err());
    assert!(runtime.block_on(encryption.kms_health()).is_err());
    assert_eq!(runtime.block_on(Encryption::none().kms_health()), Ok(()));
}
