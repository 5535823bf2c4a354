//! Objects whose syncs fail or panic: for which controller, since when, how often and why. Each is retried alone, with
//! back-off (I12); this register makes it visible. It also contains the objects that cannot be decoded. [`report`] writes an Event on such an object, which
//! `orlop why` and `kubectl describe` show, and [`Failing::metrics`] is part of the process's metrics.

pub mod report;
mod set_aside;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tokio::time::Instant;

use crate::api::encoded;
use crate::object_key::split_key;

pub use set_aside::{INFORMER, SetAside};

/// Maximum number of registered objects. Further ones are retried and counted, but not named.
pub const MAX_OBJECTS: usize = 1000;
/// Longer error texts are cut, in bytes.
const MAX_TEXT: usize = 512;
/// An object is reported when it has failed this often in a row, for at least [`PATIENCE`]. A conflict or an
/// object that is about to appear resolves itself earlier.
const ATTEMPTS: u32 = 5;
/// See [`ATTEMPTS`].
const PATIENCE: Duration = Duration::from_secs(30);
/// An object whose syncs panic is reported at this number of failures in a row.
const PANICS: u32 = 2;

/// The failing objects of all controllers of a process. Clones share them.
#[derive(Clone, Default)]
pub struct Failing {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<(&'static str, String, String), FailingObject>,
    totals: BTreeMap<&'static str, Totals>,
    /// Reported objects whose last sync succeeded, until that is reported too.
    recovered: Vec<Report>,
}

/// The counters of a controller's syncs since the start of the process.
#[derive(Clone, Copy, Default)]
struct Totals {
    retries: u64,
    panics: u64,
}

/// An object whose last sync failed, or that cannot be decoded.
#[derive(Clone)]
struct FailingObject {
    target: Target,
    since: Instant,
    failures: u32,
    how: How,
    text: String,
    /// The number of failures at the last report.
    reported_at: Option<u32>,
}

/// An object, and its path on the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The reference for events, without UID.
    pub reference: ObjectReference,
    /// The path of the object's REST resource.
    pub path: String,
}

/// How a sync failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
}

/// What failed last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Sync(Failure),
    /// The object was not decoded. Each failure is a new version of the object.
    Undecodable,
}

/// Records the syncs of a queue in the register of failing objects; `target` maps a key to its object.
pub struct Syncs<K> {
    controller: &'static str,
    target: fn(&K) -> Option<Target>,
    failing: Failing,
}

impl<K> Clone for Syncs<K> {
    fn clone(&self) -> Self {
        Self { controller: self.controller, target: self.target, failing: self.failing.clone() }
    }
}

impl<K: Display> Syncs<K> {
    /// The keys are keys of objects of kind `R` (see [`key_of`](crate::object_key::key_of)).
    pub fn of<R: Resource<DynamicType = ()>>(controller: &'static str, failing: &Failing) -> Self {
        Self::with(controller, failing, |key| Some(target::<R>(&key.to_string())))
    }

    /// The keys name no single object. Failures are only counted.
    pub fn other(controller: &'static str, failing: &Failing) -> Self {
        Self::with(controller, failing, |_| None)
    }

    /// `target` is the object of a key. Failures of a key without one are only counted.
    pub fn with(controller: &'static str, failing: &Failing, target: fn(&K) -> Option<Target>) -> Self {
        Self { controller, target, failing: failing.clone() }
    }

    /// The controller's name.
    pub fn controller(&self) -> &'static str {
        self.controller
    }

    /// Registers a failure of a key.
    pub fn failed(&self, key: &K, failure: Failure, text: &str) {
        self.failing.failed(self.controller, (self.target)(key), failure, text, Instant::now());
    }

    /// Removes a key whose sync succeeded after failures.
    pub fn succeeded(&self, key: &K) {
        if let Some(target) = (self.target)(key) {
            self.failing.succeeded(self.controller, &target);
        }
    }
}

/// The object of kind `K` with this key.
pub fn target<K: Resource<DynamicType = ()>>(key: &str) -> Target {
    let (namespace, name) = split_key(key);
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let reference = ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    let collection = K::url_path(&(), namespace.map(encoded).as_deref());
    Target { reference, path: format!("{collection}/{}", encoded(name)) }
}

/// A report about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Whether the syncs of the object fail; false if they have succeeded again.
    pub failing: bool,
    /// The controller.
    pub controller: &'static str,
    /// The object.
    pub target: Target,
    /// For the user: how often, since when and why.
    pub message: String,
}

impl Failing {
    fn failed(
        &self,
        controller: &'static str,
        target: Option<Target>,
        failure: Failure,
        text: &str,
        now: Instant,
    ) {
        let mut state = self.state();
        let totals = state.totals.entry(controller).or_default();
        totals.retries += 1;
        totals.panics += u64::from(failure == Failure::Panic);
        drop(state);
        if let Some(target) = target {
            self.register(controller, target, How::Sync(failure), text, now);
        }
    }

    fn register(&self, controller: &'static str, target: Target, how: How, text: &str, now: Instant) {
        let mut state = self.state();
        let key = key(controller, &target);
        if state.objects.len() >= MAX_OBJECTS && !state.objects.contains_key(&key) {
            return;
        }
        let object = state.objects.entry(key).or_insert_with(|| FailingObject {
            target,
            since: now,
            failures: 0,
            how,
            text: String::new(),
            reported_at: None,
        });
        object.failures = object.failures.saturating_add(1);
        object.how = how;
        object.text.clear();
        object.text.push_str(&text[..text.floor_char_boundary(MAX_TEXT)]);
    }

    fn succeeded(&self, controller: &'static str, target: &Target) {
        let mut state = self.state();
        let Some(object) = state.objects.remove(&key(controller, target)) else { return };
        if object.reported_at.is_some() && state.recovered.len() < MAX_OBJECTS {
            let message = match object.how {
                How::Sync(_) => format!("A sync succeeded after {} failures", object.failures),
                How::Undecodable => "The object can be decoded again".to_owned(),
            };
            state.recovered.push(Report { failing: false, controller, target: object.target, message });
        }
    }

    /// The objects to report: those that have failed for long enough, again whenever their failures have doubled,
    /// and those that have recovered. They count as reported.
    pub fn due(&self, now: Instant) -> Vec<Report> {
        let mut state = self.state();
        let mut due = std::mem::take(&mut state.recovered);
        let objects = state.objects.iter_mut().filter(|(_, object)| object.is_due(now));
        due.extend(objects.map(|((controller, ..), object)| {
            object.reported_at = Some(object.failures);
            Report { failing: true, controller, target: object.target.clone(), message: object.message(now) }
        }));
        due
    }

    /// Removes an object that does not exist any more.
    pub fn gone(&self, report: &Report) {
        self.forget(report.controller, &report.target);
    }

    fn forget(&self, controller: &'static str, target: &Target) {
        self.state().objects.remove(&key(controller, target));
    }

    /// The metrics in Prometheus' text format. `workqueue_retries_total` has upstream's name.
    pub fn metrics(&self) -> String {
        let state = self.state();
        let mut failing: BTreeMap<&str, u64> = state.totals.keys().map(|name| (*name, 0)).collect();
        failing.insert(INFORMER, 0);
        for (controller, ..) in state.objects.keys() {
            *failing.entry(controller).or_default() += 1;
        }
        let mut text = String::new();
        let retries = state.totals.iter().map(|(name, totals)| (*name, totals.retries));
        let help = "Total number of retries handled by workqueue";
        series(&mut text, "workqueue_retries_total", "counter", "name", help, retries);
        let panics = state.totals.iter().map(|(name, totals)| (*name, totals.panics));
        let help = "Syncs that panicked. Each affects one object, which is retried with back-off";
        series(&mut text, "orlop_controller_panics_total", "counter", "controller", help, panics);
        let help = "Objects whose last sync by the controller failed, or that an informer cannot decode";
        series(&mut text, "orlop_controller_failing_objects", "gauge", "controller", help, failing);
        text
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn key(controller: &'static str, target: &Target) -> (&'static str, String, String) {
    (controller, target.reference.kind.clone().unwrap_or_default(), target.path.clone())
}

fn series<'a>(
    text: &mut String,
    name: &str,
    type_: &str,
    label: &str,
    help: &str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {type_}");
    for (controller, value) in values {
        let _ = writeln!(text, "{name}{{{label}=\"{controller}\"}} {value}");
    }
}

impl FailingObject {
    fn is_due(&self, now: Instant) -> bool {
        match (self.reported_at, self.how) {
            (Some(at), _) => self.failures >= at.saturating_mul(2),
            (None, How::Sync(Failure::Panic)) => self.failures >= PANICS,
            (None, How::Sync(Failure::Error)) => {
                self.failures >= ATTEMPTS && now.duration_since(self.since) >= PATIENCE
            }
            // There is no other attempt before the object changes.
            (None, How::Undecodable) => true,
        }
    }

    fn message(&self, now: Instant) -> String {
        let Self { failures, text, .. } = self;
        let seconds = now.duration_since(self.since).as_secs();
        match self.how {
            How::Sync(Failure::Panic) => {
                format!("The sync panicked, a bug of orlop; failure {failures} in {seconds} s: {text}")
            }
            How::Sync(Failure::Error) => format!("The sync failed {failures} times in {seconds} s: {text}"),
            How::Undecodable => format!("The object cannot be decoded, and controllers ignore it: {text}"),
        }
    }
}

#[cfg(test)]
mod tests;
