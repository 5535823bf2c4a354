#![allow(clippy::unwrap_used)]
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::*;

const BINDER: &str = "persistentvolume-binder-controller";

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

#[test]
fn an_object_is_reported_after_five_failures_in_thirty_seconds_then_at_each_doubling() {
    let (failing, start) = (Failing::default(), Instant::now());
    let claim = target::<PersistentVolumeClaim>("team/data");
    let fail = |at| failing.failed(BINDER, Some(claim.clone()), Failure::Error, "refused", at);
    (0..5).for_each(|nth| fail(after(start, nth)));
    assert_eq!(failing.due(after(start, 29)), []);
    let due = failing.due(after(start, 30));
    assert_eq!(due[0].message, "The sync failed 5 times in 30 s: refused");
    assert_eq!(due[0].target.path, "/api/v1/namespaces/team/persistentvolumeclaims/data");
    assert_eq!(due.len(), 1);
    (0..4).for_each(|nth| fail(after(start, 31 + nth)));
    assert_eq!(failing.due(after(start, 40)), []);
    fail(after(start, 41));
    assert_eq!(failing.due(after(start, 42)).len(), 1);
}

#[test]
fn a_panic_is_reported_at_the_second_time_and_a_success_ends_it() {
    let (failing, start) = (Failing::default(), Instant::now());
    let syncs = Syncs::<&str>::of::<PersistentVolume>(BINDER, &failing);
    syncs.failed(&"pv-1", Failure::Panic, "index out of bounds");
    assert_eq!(failing.due(after(start, 60)), []);
    syncs.failed(&"pv-1", Failure::Panic, "index out of bounds");
    assert_eq!(failing.due(start + Duration::from_secs(60)).len(), 1);
    assert!(
        failing.metrics().contains(&format!("orlop_controller_failing_objects{{controller=\"{BINDER}\"}} 1"))
    );
    syncs.succeeded(&"pv-1");
    let recovered = failing.due(Instant::now());
    assert_eq!(recovered.len(), 1);
    assert_eq!(
        (recovered[0].failing, recovered[0].message.as_str()),
        (false, "A sync succeeded after 2 failures")
    );
    assert_eq!(failing.due(Instant::now()), []);
    let metrics = failing.metrics();
    for line in [
        format!("workqueue_retries_total{{name=\"{BINDER}\"}} 2"),
        format!("orlop_controller_panics_total{{controller=\"{BINDER}\"}} 2"),
        format!("orlop_controller_failing_objects{{controller=\"{BINDER}\"}} 0"),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[test]
fn an_undecodable_object_is_reported_immediately_and_when_it_is_decoded_again() {
    let failing = Failing::default();
    let set_aside = SetAside::of::<PersistentVolumeClaim>(&failing);
    let gauge = || {
        let metrics = failing.metrics();
        let mut lines = metrics
            .lines()
            .filter(|line| line.starts_with("orlop_controller_failing_objects{controller=\"informer\"}"));
        lines.next().and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    assert_eq!(gauge().as_deref(), Some("0"));
    set_aside.add("team/data", "invalid type");
    set_aside.add("team/gone", "invalid type");
    assert_eq!(gauge().as_deref(), Some("2"));
    set_aside.deleted("team/gone");
    let due = failing.due(Instant::now());
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].target.path, "/api/v1/namespaces/team/persistentvolumeclaims/data");
    assert_eq!(due[0].message, "The object cannot be decoded, and controllers ignore it: invalid type");
    assert_eq!(failing.due(Instant::now()), [], "there is no new version");
    set_aside.decoded("team/data");
    let due = failing.due(Instant::now());
    assert_eq!(
        (due.len(), due[0].failing, due[0].message.as_str()),
        (1, false, "The object can be decoded again")
    );
    assert_eq!(gauge().as_deref(), Some("0"));
    assert!(!failing.metrics().contains("workqueue_retries_total{name=\"informer\"}"), "nothing is retried");
}

#[test]
fn the_register_and_its_texts_are_bounded() {
    let failing = Failing::default();
    let syncs = Syncs::<String>::of::<PersistentVolume>(BINDER, &failing);
    let text = "é".repeat(1 << 20);
    for nth in 0..=MAX_OBJECTS {
        syncs.failed(&format!("pv-{nth}"), Failure::Error, if nth == 0 { &text } else { "short" });
    }
    let state = failing.state();
    assert_eq!(state.objects.len(), MAX_OBJECTS);
    assert!(state.objects.values().all(|object| object.text.len() <= MAX_TEXT));
    assert_eq!(state.totals[BINDER].retries, MAX_OBJECTS as u64 + 1);
}
