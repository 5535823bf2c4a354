//! Every call fails once in every way.

use orlop_csi::error::Code;
use orlop_test_support::Failing;

use super::*;
use crate::plugin::Outcome;

const CALLS: [(&str, Step); 5] = [
    ("NodeStageVolume", Step::MountDevice),
    ("NodePublishVolume", Step::SetUp),
    ("NodeExpandVolume", Step::Expand),
    ("NodeUnpublishVolume", Step::TearDown),
    ("NodeUnstageVolume", Step::UnmountDevice),
];

fn ways() -> Vec<(Failing, Outcome)> {
    vec![
        (Failing::Refuses(Code::Internal, "no"), Outcome::Final),
        (Failing::Refuses(Code::InvalidArgument, "no"), Outcome::Final),
        (Failing::Refuses(Code::ResourceExhausted, "full"), Outcome::Final),
        (Failing::Refuses(Code::Unavailable, "later"), Outcome::Uncertain),
        (Failing::Refuses(Code::Aborted, "busy"), Outcome::Uncertain),
        (Failing::RefusesAfter(Code::DeadlineExceeded, "slow"), Outcome::Uncertain),
        (Failing::RefusesAfter(Code::Cancelled, "stop"), Outcome::Uncertain),
        (Failing::Broken, Outcome::Uncertain),
        (Failing::AnswerLost, Outcome::Uncertain),
        (Failing::NoAnswer, Outcome::Uncertain),
        (Failing::Garbage, Outcome::Uncertain),
    ]
}

/// Runs all steps; one of them fails once and is repeated.
async fn scenario(form: Form, rpc: &'static str, failing: Step, way: Failing, expected: Outcome) {
    let rig = Fixture::new(both_lives()).await;
    let volume = volume(form);
    for step in steps(form) {
        let when = format!("{form:?} {step:?}, {rpc} {way:?}");
        if step == failing {
            rig.double.fail(rpc, 0, way.clone());
            let error = take(&rig.plugin, &rig.host, &volume, step).await.unwrap_err();
            assert_eq!(error.outcome, expected, "{when}: {error}");
            rig.check_records(&when);
            if expected == Outcome::Final
                && matches!((form, step), (Form::Files, Step::MountDevice) | (Form::Inline, Step::SetUp))
            {
                assert_eq!(rig.left(), Vec::<PathBuf>::new(), "{when}: a refusal leaves nothing");
            }
        }
        take(&rig.plugin, &rig.host, &volume, step).await.unwrap_or_else(|error| panic!("{when}: {error}"));
        rig.check_records(&when);
    }
    let state = rig.double.state();
    assert!(state.staged.is_empty() && state.targets.is_empty(), "{form:?} {rpc}");
    drop(state);
    assert_eq!((rig.left(), rig.double.pending_faults()), (Vec::new(), 0), "{form:?} {rpc} {way:?}");
}

#[tokio::test]
async fn every_call_recovers_from_every_failure() {
    let mut all = Vec::new();
    for form in FORMS {
        for (rpc, step) in CALLS {
            for (way, outcome) in ways() {
                if steps(form).contains(&step) {
                    all.push(scenario(form, rpc, step, way, outcome));
                }
            }
        }
    }
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn failed_capability_query_causes_no_other_call() {
    for (way, _) in ways().into_iter().filter(|(way, _)| !matches!(way, Failing::NoAnswer)) {
        for step in [Step::MountDevice, Step::SetUp, Step::UnmountDevice] {
            scenario(Form::Files, "NodeGetCapabilities", step, way.clone(), Outcome::Final).await;
        }
    }
}

#[tokio::test]
async fn every_step_is_idempotent() {
    for form in FORMS {
        let rig = Fixture::new(both_lives()).await;
        let volume = volume(form);
        for step in steps(form).into_iter().flat_map(|step| [step, step]) {
            let done = take(&rig.plugin, &rig.host, &volume, step).await;
            done.unwrap_or_else(|error| panic!("{form:?} {step:?}: {error}"));
            rig.check_records(&format!("{form:?} {step:?}"));
        }
        assert_eq!(rig.left(), Vec::<PathBuf>::new(), "{form:?}");
        // The repeated step does not call the driver, so it succeeds without one.
        rig.host.drivers.remove(DRIVER);
        take(&rig.plugin, &rig.host, &volume, Step::TearDown).await.unwrap();
        if form != Form::Inline {
            take(&rig.plugin, &rig.host, &volume, Step::UnmountDevice).await.unwrap();
        }
    }
}

#[tokio::test]
async fn refused_call_keeps_the_record_of_an_earlier_call() {
    for form in FORMS {
        let rig = Fixture::new(both_lives()).await;
        let volume = volume(form);
        for (rpc, step) in [("NodeStageVolume", Step::MountDevice), ("NodePublishVolume", Step::SetUp)] {
            if !steps(form).contains(&step) {
                continue;
            }
            rig.double.fail(rpc, 0, Failing::AnswerLost);
            rig.double.fail(rpc, 1, Failing::Refuses(Code::Internal, "no"));
            for outcome in [Outcome::Uncertain, Outcome::Final] {
                let error = take(&rig.plugin, &rig.host, &volume, step).await.unwrap_err();
                assert_eq!(error.outcome, outcome, "{form:?} {rpc}: {error}");
                rig.check_records(&format!("{form:?} {rpc}"));
            }
            take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
        }
    }
}

#[tokio::test]
async fn hung_driver_blocks_only_its_own_volume() {
    let rig = Fixture::new(both_lives()).await;
    rig.double.fail("NodeStageVolume", 0, Failing::NoAnswer);
    let (hanging, other) = (volume(Form::Files), volume(Form::Block));
    let hangs = take(&rig.plugin, &rig.host, &hanging, Step::MountDevice);
    let goes_on = async {
        // Until the first call is in progress.
        while rig.double.pending_faults() > 0 {
            tokio::task::yield_now().await;
        }
        for step in steps(Form::Block) {
            take(&rig.plugin, &rig.host, &other, step).await.unwrap();
        }
    };
    let (hung, ()) = tokio::join!(hangs, goes_on);
    let error = hung.unwrap_err();
    assert_eq!(error.outcome, Outcome::Uncertain);
    assert!(error.to_string().contains("did not answer within 2 s"), "{error}");
}

#[tokio::test]
async fn missing_driver_is_an_error() {
    let rig = Fixture::new(both_lives()).await;
    rig.host.drivers.remove(DRIVER);
    for form in FORMS {
        let volume = volume(form);
        for step in [Step::MountDevice, Step::SetUp] {
            if !steps(form).contains(&step) {
                continue;
            }
            let error = take(&rig.plugin, &rig.host, &volume, step).await.unwrap_err();
            let expected = "driver name d.example not found in the list of registered CSI drivers";
            assert!(error.to_string().ends_with(expected), "{error}");
            assert_eq!((error.outcome, rig.left()), (Outcome::Final, Vec::new()));
        }
    }
}

#[tokio::test]
async fn false_unpublish_success_is_detected() {
    let rig = Fixture::new(both_lives()).await;
    let volume = volume(Form::Files);
    for step in [Step::MountDevice, Step::SetUp] {
        take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
    }
    let place = place_of(&volume);
    for (step, target) in [
        (Step::TearDown, rig.plugin.path(&rig.host, &place)),
        (Step::UnmountDevice, rig.host.paths.csi_global(DRIVER, "h").join("globalmount")),
    ] {
        rig.mounts.0.lock().insert(target.clone());
        let error = take(&rig.plugin, &rig.host, &volume, step).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("kubernetes.io/csi: something is still mounted at {}", target.display())
        );
        assert_eq!(error.outcome, Outcome::Uncertain);
        assert!(target.parent().unwrap().join("vol_data.json").is_file(), "the record stays");
        rig.mounts.0.lock().remove(&target);
        take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
    }
    assert_eq!(rig.left(), Vec::<PathBuf>::new());
}
