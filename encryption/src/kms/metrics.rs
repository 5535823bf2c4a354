//! Upstream's metrics of KMS plugins, in Prometheus' text format.
//!
//! Upstream: apiserver `pkg/storage/value/encrypt/envelope/metrics`. The label `apiserver_id_hash` is empty, because this server has no
//! identity.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::object::hashed;

/// The number of keys with metrics, for each metric and provider, as upstream.
const KEYS: usize = 100;
/// The upper bounds of the histogram double from 0.1 ms on.
const BUCKETS: usize = 20;

/// The metrics of a provider.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    from_storage: HashMap<String, Use>,
    to_storage: HashMap<String, Use>,
    status: HashMap<String, Use>,
    invalid: BTreeMap<&'static str, u64>,
    calls: BTreeMap<(String, String), Latencies>,
}

/// The uses of a key.
#[derive(Clone, Copy, Default)]
struct Use {
    count: u64,
    /// Seconds since the epoch.
    last: f64,
}

#[derive(Default)]
struct Latencies {
    buckets: [u64; BUCKETS],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// Records that a value was decrypted with a seed of this key.
    pub(crate) fn note_read(&self, key_id: &str) {
        note(&mut self.0.lock().from_storage, key_id);
    }

    /// Records that a value was encrypted with a seed of this key.
    pub(crate) fn note_write(&self, key_id: &str) {
        note(&mut self.0.lock().to_storage, key_id);
    }

    /// Records that the plugin reported this key.
    pub(crate) fn note_status(&self, key_id: &str) {
        note(&mut self.0.lock().status, key_id);
    }

    /// Records that the plugin reported a key whose ID is not valid.
    pub(crate) fn note_invalid(&self, fault: &'static str) {
        *self.0.lock().invalid.entry(fault).or_default() += 1;
    }

    /// Records the result and the duration of a call.
    pub(crate) fn note_call(&self, method: &str, code: &str, took: Duration) {
        let mut counts = self.0.lock();
        let latencies = counts.calls.entry((method.to_owned(), code.to_owned())).or_default();
        let seconds = took.as_secs_f64();
        for (bucket, bound) in latencies.buckets.iter_mut().zip(bounds()) {
            *bucket += u64::from(seconds <= bound);
        }
        latencies.count += 1;
        latencies.sum += seconds;
    }
}

fn note(uses: &mut HashMap<String, Use>, key_id: &str) {
    let last = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if let Some(used) = uses.get_mut(key_id) {
        *used = Use { count: used.count + 1, last };
        return;
    }
    if uses.len() >= KEYS {
        let oldest = uses.iter().min_by(|(_, a), (_, b)| a.last.total_cmp(&b.last)).map(|(id, _)| id.clone());
        oldest.and_then(|oldest| uses.remove(&oldest));
    }
    uses.insert(key_id.to_owned(), Use { count: 1, last });
}

fn bounds() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(0.0001), |bound| Some(bound * 2.0)).take(BUCKETS)
}

/// The metrics of some providers: their names, their metrics, and the number of their cached seeds. Empty if there are none.
pub(crate) fn text<'m>(providers: impl Iterator<Item = (&'m str, &'m Metrics, usize)>) -> String {
    let mut families = Families::default();
    for (name, metrics, seeds) in providers {
        let provider = format!("provider_name=\"{}\"", escaped(name));
        families.add("dek_source_cache_size", &provider, seeds);
        let counts = metrics.0.lock();
        for (transformation, uses) in
            [("from_storage", &counts.from_storage), ("to_storage", &counts.to_storage)]
        {
            for (id, used) in uses {
                let labels = format!(
                    "apiserver_id_hash=\"\",key_id_hash=\"{}\",{provider},transformation_type=\"{transformation}\"",
                    hashed(id)
                );
                families.add("key_id_hash_total", &labels, used.count);
                families.add("key_id_hash_last_timestamp_seconds", &labels, used.last);
            }
        }
        for (id, used) in &counts.status {
            let labels = format!("apiserver_id_hash=\"\",key_id_hash=\"{}\",{provider}", hashed(id));
            families.add("key_id_hash_status_last_timestamp_seconds", &labels, used.last);
        }
        for (fault, count) in &counts.invalid {
            families.add("invalid_key_id_from_status_total", &format!("error=\"{fault}\",{provider}"), count);
        }
        for ((method, code), latencies) in &counts.calls {
            let labels = format!(
                "grpc_status_code=\"{code}\",method_name=\"/v2.KeyManagementService/{method}\",{provider}"
            );
            families.add_latencies(&labels, latencies);
        }
    }
    families.text()
}

const LATENCY: &str = "kms_operations_latency_seconds";

/// The names of the metrics, with their types and upstream's descriptions.
const FAMILIES: [(&str, &str, &str); 6] = [
    (
        "dek_source_cache_size",
        "gauge",
        "Number of records in data encryption key (DEK) source cache. On a restart, this value is an approximation of the number of decrypt RPC calls the server will make to the KMS plugin.",
    ),
    (
        "invalid_key_id_from_status_total",
        "counter",
        "Number of times an invalid keyID is returned by the Status RPC call split by error.",
    ),
    ("key_id_hash_last_timestamp_seconds", "gauge", "The last time in seconds when a keyID was used."),
    (
        "key_id_hash_status_last_timestamp_seconds",
        "gauge",
        "The last time in seconds when a keyID was returned by the Status RPC call.",
    ),
    (
        "key_id_hash_total",
        "counter",
        "Number of times a keyID is used split by transformation type, provider, and apiserver identity.",
    ),
    (LATENCY, "histogram", "KMS operation duration with gRPC error code status total."),
];

/// Lines by metric.
#[derive(Default)]
struct Families(BTreeMap<&'static str, Vec<String>>);

impl Families {
    fn add(&mut self, name: &'static str, labels: &str, value: impl std::fmt::Display) {
        self.line(name, "", labels, value);
    }

    fn line(&mut self, name: &'static str, suffix: &str, labels: &str, value: impl std::fmt::Display) {
        let line = format!("apiserver_envelope_encryption_{name}{suffix}{{{labels}}} {value}\n");
        self.0.entry(name).or_default().push(line);
    }

    fn add_latencies(&mut self, labels: &str, latencies: &Latencies) {
        for (count, bound) in latencies.buckets.iter().zip(bounds()) {
            self.line(LATENCY, "_bucket", &format!("{labels},le=\"{bound}\""), count);
        }
        self.line(LATENCY, "_bucket", &format!("{labels},le=\"+Inf\""), latencies.count);
        self.line(LATENCY, "_sum", labels, latencies.sum);
        self.line(LATENCY, "_count", labels, latencies.count);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, kind, help) in FAMILIES {
            let Some(lines) = self.0.get(name) else { continue };
            let full = format!("apiserver_envelope_encryption_{name}");
            // Writing to a string cannot fail.
            let _ = write!(text, "# HELP {full} [ALPHA] {help}\n# TYPE {full} {kind}\n");
            lines.iter().for_each(|line| text.push_str(line));
        }
        text
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_upstreams_names_and_labels() {
        let metrics = Metrics::default();
        metrics.note_read("1");
        metrics.note_read("1");
        metrics.note_write("1");
        metrics.note_status("1");
        metrics.note_invalid("empty");
        metrics.note_call("Status", "OK", Duration::from_millis(1));
        let text = text([("a\"b", &metrics, 3)].into_iter());
        let hash = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
        for line in [
            "# TYPE apiserver_envelope_encryption_dek_source_cache_size gauge".to_owned(),
            "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"a\\\"b\"} 3".to_owned(),
            format!(
                "apiserver_envelope_encryption_key_id_hash_total{{apiserver_id_hash=\"\",key_id_hash=\"{hash}\",provider_name=\"a\\\"b\",transformation_type=\"from_storage\"}} 2"
            ),
            format!(
                "apiserver_envelope_encryption_key_id_hash_total{{apiserver_id_hash=\"\",key_id_hash=\"{hash}\",provider_name=\"a\\\"b\",transformation_type=\"to_storage\"}} 1"
            ),
            "apiserver_envelope_encryption_invalid_key_id_from_status_total{error=\"empty\",provider_name=\"a\\\"b\"} 1".to_owned(),
            "apiserver_envelope_encryption_kms_operations_latency_seconds_bucket{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/Status\",provider_name=\"a\\\"b\",le=\"0.0008\"} 0".to_owned(),
            "apiserver_envelope_encryption_kms_operations_latency_seconds_bucket{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/Status\",provider_name=\"a\\\"b\",le=\"0.0016\"} 1".to_owned(),
            "apiserver_envelope_encryption_kms_operations_latency_seconds_count{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/Status\",provider_name=\"a\\\"b\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(super::text(std::iter::empty()), "");
    }

    #[test]
    fn number_of_keys_is_limited() {
        let metrics = Metrics::default();
        (0..3 * KEYS).for_each(|n| metrics.note_read(&n.to_string()));
        let counts = metrics.0.lock();
        assert_eq!(counts.from_storage.len(), KEYS);
        assert!(counts.from_storage.contains_key(&(3 * KEYS - 1).to_string()));
    }
}
