//! Metrics with upstream's names and labels.

mod process;

use std::collections::HashSet;

use orlop_store::{Kv, Usage};
use parking_lot::Mutex;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::custom::Kinds;
use crate::projection::Projection;
use crate::registry::{KINDS, Names, Scope};
use crate::routes::version;

const DURATION_BUCKETS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

const REQUEST: &[&str] =
    &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"];
const DURATION: &[&str] =
    &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
/// Labels of the service level indicator.
const SLI: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope", "component"];
const LONG_RUNNING: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope", "component"];
const COMPONENT: &str = "apiserver";
/// Custom kinds with their own series. Definitions come from clients, and each kind has hundreds of series.
const MAX_CUSTOM_KINDS: usize = 100;
/// The group, version and resource of further custom kinds.
const OTHER: &str = "other";
/// Requests for the metrics that may be in progress or wait. A text of 50 KB takes about 10 ms.
const SCRAPES: usize = 16;

/// The labels of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: bool,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
}

impl Labels {
    fn dry_run(&self) -> &'static str {
        if self.dry_run { "All" } else { "" }
    }

    fn long_running(&self) -> [&str; 7] {
        [self.verb, self.group, self.version, self.resource, &self.subresource, self.scope, COMPONENT]
    }
}

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    sli_durations: HistogramVec,
    long_running: IntGaugeVec,
    watch_events: IntCounterVec,
    objects: IntGaugeVec,
    /// The same count under its older name.
    storage_objects: IntGaugeVec,
    store_size: IntGauge,
    store_revision: IntGauge,
    store: StoreGauges,
    process: process::Process,
    custom_kinds: Mutex<HashSet<(&'static str, &'static str)>>,
    /// Held while the metrics are read.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// Permits for requests that read the metrics or wait for it.
    pub(crate) waiting: tokio::sync::Semaphore,
}

/// Disk usage and snapshots of the store.
struct StoreGauges {
    size: IntGauge,
    free: IntGauge,
    full: IntGauge,
    data: IntGauge,
    max_data: IntGauge,
    unread_former_versions: IntGauge,
    snapshots: IntCounterVec,
    snapshot_time: IntGauge,
}

impl StoreGauges {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(StoreGauges {
            size: IntGauge::new("orlop_store_size_bytes", "Size of the store on disk in bytes.")?,
            free: IntGauge::new("orlop_store_free_bytes", "Bytes that are free on the disk of the store.")?,
            full: IntGauge::new(
                "orlop_store_full",
                "1 when the disk is so full that only deletes and updates that do not grow are taken.",
            )?,
            data: IntGauge::new("orlop_store_data_bytes", "Bytes of the keys and values of all objects.")?,
            max_data: IntGauge::new(
                "orlop_store_max_data_bytes",
                "The limit of orlop_store_data_bytes; 0 if there is none.",
            )?,
            unread_former_versions: IntGauge::new(
                "orlop_store_unread_former_versions",
                "Former versions of Secrets that are still stored, because they cannot be decrypted without their KMS plugin.",
            )?,
            snapshots: IntCounterVec::new(
                Opts::new(
                    "orlop_snapshots_total",
                    "Scheduled snapshots by result: success, failure or unchanged.",
                ),
                &["result"],
            )?,
            snapshot_time: IntGauge::new(
                "orlop_snapshot_last_success_timestamp_seconds",
                "When the last scheduled snapshot was written; 0 when none was.",
            )?,
        })
    }

    fn set(&self, usage: Usage) {
        let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.size.set(number(usage.size));
        // A store without a disk has no limit.
        self.free.set(usage.free.map_or(i64::MAX, number));
        self.full.set(i64::from(usage.full));
        self.data.set(number(usage.data));
        self.max_data.set(number(usage.max_data));
        self.unread_former_versions.set(number(usage.unread_former_versions));
    }
}

/// Counts a watch as open until it is dropped.
pub(crate) struct OpenWatch(IntGauge);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Fails only if a metric is defined twice, which a test rules out.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            Opts::new("apiserver_request_total", "Requests by verb, resource and code."),
            REQUEST,
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new("apiserver_request_duration_seconds", "Seconds from request to answer.")
                .buckets(DURATION_BUCKETS.to_vec()),
            DURATION,
        )?;
        let sli_durations = HistogramVec::new(
            HistogramOpts::new(
                "apiserver_request_sli_duration_seconds",
                "Seconds from request to answer, without time that is not the server's.",
            )
            .buckets(DURATION_BUCKETS.to_vec()),
            SLI,
        )?;
        let long_running =
            IntGaugeVec::new(Opts::new("apiserver_longrunning_requests", "Open watches."), LONG_RUNNING)?;
        let watch_events = IntCounterVec::new(
            Opts::new("apiserver_watch_events_total", "Events sent to watches."),
            &["group", "version", "resource"],
        )?;
        let objects = IntGaugeVec::new(
            Opts::new("apiserver_resource_objects", "Objects in the store."),
            &["group", "resource"],
        )?;
        let storage_objects = IntGaugeVec::new(
            Opts::new("apiserver_storage_objects", "Objects in the store, by resource and group in one."),
            &["resource"],
        )?;
        let build = IntGaugeVec::new(
            Opts::new("kubernetes_build_info", "Which Kubernetes this server is like; always 1."),
            &[
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ],
        )?;
        build.with_label_values(&version::build_labels().each_ref().map(String::as_str)).set(1);
        let process = process::Process::new(&registry)?;
        let store_size =
            IntGauge::new("apiserver_storage_size_bytes", "Size of the store on disk in bytes.")?;
        let store_revision = IntGauge::new("orlop_store_revision", "The newest revision of the store.")?;
        let store = StoreGauges::new()?;
        for collector in [
            Box::new(requests.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(durations.clone()),
            Box::new(sli_durations.clone()),
            Box::new(storage_objects.clone()),
            Box::new(build),
            Box::new(long_running.clone()),
            Box::new(watch_events.clone()),
            Box::new(objects.clone()),
            Box::new(store_size.clone()),
            Box::new(store_revision.clone()),
            Box::new(store.size.clone()),
            Box::new(store.free.clone()),
            Box::new(store.full.clone()),
            Box::new(store.data.clone()),
            Box::new(store.max_data.clone()),
            Box::new(store.unread_former_versions.clone()),
            Box::new(store.snapshots.clone()),
            Box::new(store.snapshot_time.clone()),
        ] {
            registry.register(collector)?;
        }
        Ok(Metrics {
            registry,
            requests,
            durations,
            sli_durations,
            long_running,
            watch_events,
            objects,
            storage_objects,
            store_size,
            store_revision,
            store,
            process,
            custom_kinds: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            waiting: tokio::sync::Semaphore::new(SCRAPES),
        })
    }

    /// The registry, in which other modules register their metrics.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The labels group, version and resource of a kind.
    pub(crate) fn kind_labels(&self, names: &Names, is_custom: bool) -> [&'static str; 3] {
        let own = [names.group, names.version, names.plural];
        if !is_custom {
            return own;
        }
        let mut kinds = self.custom_kinds.lock();
        let key = (names.group, names.plural);
        if !kinds.contains(&key) && kinds.len() >= MAX_CUSTOM_KINDS {
            return [OTHER; 3];
        }
        kinds.insert(key);
        own
    }

    /// Records that a watch has been opened.
    pub(crate) fn begin_watch(&self, labels: &Labels) -> OpenWatch {
        let gauge = self.long_running.with_label_values(&labels.long_running());
        gauge.inc();
        OpenWatch(gauge)
    }

    /// Records that a request has been answered.
    pub(crate) fn end(&self, labels: &Labels, code: u16, seconds: f64) {
        let code = code.to_string();
        let Labels { verb, group, version, resource, subresource, scope, .. } = labels;
        let base = [verb, labels.dry_run(), group, version, resource, subresource, scope, COMPONENT];
        let with_code =
            [verb, labels.dry_run(), group, version, resource, subresource, scope, COMPONENT, code.as_str()];
        self.requests.with_label_values(&with_code).inc();
        // The client decides how long a watch lasts, so its duration is not recorded.
        if *verb != "WATCH" {
            self.durations.with_label_values(&base).observe(seconds);
            let without_dry_run = [*verb, group, version, resource, subresource.as_str(), scope, COMPONENT];
            self.sli_durations.with_label_values(&without_dry_run).observe(seconds);
        }
    }

    /// The counter of events sent to watches of a kind.
    pub(crate) fn watch_counter(&self, names: &Names, is_custom: bool) -> IntCounter {
        self.watch_events.with_label_values(&self.kind_labels(names, is_custom))
    }

    /// Records the result of a scheduled snapshot.
    pub(crate) fn count_snapshot(&self, result: &str, written_s: Option<i64>) {
        self.store.snapshots.with_label_values(&[result]).inc();
        if let Some(at) = written_s {
            self.store.snapshot_time.set(at);
        }
    }

    /// All metrics in the text exposition format.
    pub(crate) fn text(&self, store: &dyn Kv<Projection>, kinds: &Kinds) -> Vec<u8> {
        self.process.read();
        // Without the kinds whose definitions were deleted.
        self.objects.reset();
        let head = store.head();
        for kind in KINDS.iter().filter(|kind| kind.is_stored() && !kind.is_view()) {
            let names = kind.names();
            let count = i64::try_from(head.range(kind.storage_prefix(), None).count()).unwrap_or(i64::MAX);
            self.objects.with_label_values(&[names.group, names.plural]).set(count);
            let qualified = match names.group {
                "" => names.plural.to_owned(),
                group => format!("{}.{group}", names.plural),
            };
            self.storage_objects.with_label_values(&[&qualified]).set(count);
        }
        let mut others = 0;
        for (nth, (group, plural, prefix)) in kinds.now().prefixes().enumerate() {
            let count = i64::try_from(head.range(prefix, None).count()).unwrap_or(i64::MAX);
            if nth < MAX_CUSTOM_KINDS {
                self.objects.with_label_values(&[group, plural]).set(count);
            } else {
                others += count;
                self.objects.with_label_values(&[OTHER; 2]).set(others);
            }
        }
        let usage = store.usage();
        self.store_size.set(i64::try_from(usage.size).unwrap_or(i64::MAX));
        self.store.set(usage);
        self.store_revision.set(i64::try_from(head.revision().0).unwrap_or(i64::MAX));
        let mut out = Vec::new();
        // Writing text into memory cannot fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut out);
        out
    }
}

/// The scope label of a request.
pub(crate) fn scope(scope: Scope, namespace: &str, name: &str) -> &'static str {
    if !name.is_empty() {
        "resource"
    } else if scope == Scope::Namespaced && !namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn series_of_custom_kinds_are_bounded() {
        let metrics = Metrics::new().unwrap();
        let names = |n: usize| crate::registry::Names {
            group: "example.com",
            version: "v1",
            plural: Box::leak(format!("kinds{n}").into_boxed_str()),
            ..*crate::registry::KINDS[0].names()
        };
        let labels: HashSet<_> = (0..1000).map(|n| metrics.kind_labels(&names(n), true)).collect();
        assert_eq!(labels.len(), MAX_CUSTOM_KINDS + 1);
        assert_eq!(metrics.kind_labels(&names(0), true)[2], "kinds0");
        assert_eq!(metrics.kind_labels(&names(5000), false)[2], "kinds5000", "built-in kinds have their own");
    }

    #[test]
    fn no_metric_is_defined_twice() {
        assert!(Metrics::new().is_ok());
    }
}
