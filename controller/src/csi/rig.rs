//! What tests of the sidecars need: a fake API with one driver behind it, and scenarios that are played again with every write and
//! every call failing once.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Run;
use crate::options::Options;
use crate::testing::{Failing, FakeApi, FaultKind, TestDriver};

/// The name of the test driver.
pub(crate) const DRIVER: &str = "d.example";

/// An API and a driver.
pub(crate) struct Rig {
    pub(crate) api: FakeApi,
    pub(crate) double: TestDriver,
}

impl Rig {
    /// Starts with a driver that is known to the controllers.
    pub(crate) async fn with(double: TestDriver) -> Self {
        let api = FakeApi::new();
        api.drivers().put(double.driver().await);
        Rig { api, double }
    }

    /// Creates a volume of the driver, bound to a claim of the same size, without controllers.
    pub(crate) fn bound_claim(&self, name: &str, bytes: &str) {
        let handle = format!("h-{name}");
        let size = orlop_apimachinery::quantity::Quantity::parse(bytes).expect("a size").value();
        let held = crate::testing::DriverVolume { name: name.to_owned(), bytes: size, ..Default::default() };
        self.double.state().volumes.insert(handle.clone(), held);
        self.api.seed(json!({"kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")},
            "spec": {"capacity": {"storage": bytes}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": DRIVER, "volumeHandle": handle},
                "claimRef": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")}},
            "status": {"phase": "Bound"}}));
        self.api.seed(json!({"kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")},
            "spec": {"volumeName": format!("pv-{name}"), "resources": {"requests": {"storage": bytes}}},
            "status": {"phase": "Bound", "capacity": {"storage": bytes}}}));
    }

    /// Changes the requested size, as a user would.
    pub(crate) fn ask_for(&self, name: &str, bytes: &str) {
        let patch = json!({"spec": {"resources": {"requests": {"storage": bytes}}}});
        self.api.patch("persistentvolumeclaims", &format!("ns/{name}"), "", patch);
    }

    /// One field of an object.
    pub(crate) fn field(&self, plural: &str, key: &str, pointer: &str) -> Value {
        let object = self.api.get(plural, key).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// The final state, without times.
    pub(crate) fn end(&self) -> Vec<Value> {
        let mut all = self.api.dump();
        all.iter_mut().for_each(timeless);
        all
    }

    /// The process dies and another one starts: no later action of the old one has an effect.
    pub(crate) async fn crash(&self, running: tokio_util::sync::DropGuard) {
        self.api.set_away(true);
        drop(running);
        tokio::time::sleep(Duration::from_secs(30)).await;
        self.api.set_away(false);
    }
}

fn timeless(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "lastTransitionTime" | "lastProbeTime" | "time" | "resourceVersion" => {
                        *value = json!("*")
                    }
                    _ => timeless(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(timeless),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The failure to inject.
#[derive(Clone, Debug)]
enum Trouble {
    None,
    /// The n-th write of the API fails.
    Write(usize, FaultKind),
    /// The n-th call of the driver fails.
    Call(usize, Failing),
    /// The process dies during the n-th call; the driver completes it.
    Crash(usize),
}

async fn play(
    controllers: &[Run],
    make: &impl AsyncFn() -> Rig,
    act: &impl Fn(&Rig),
    trouble: &Trouble,
) -> (Rig, usize, usize) {
    let rig = make().await;
    let calls_before = rig.double.calls().len();
    match trouble {
        Trouble::None => {}
        Trouble::Write(nth, kind) => rig.api.fail_nth_write(*nth, kind.clone()),
        Trouble::Call(nth, kind) => rig.double.fail("*", *nth, kind.clone()),
        Trouble::Crash(nth) => rig.double.fail("*", *nth, Failing::NoAnswer),
    }
    let mut running = rig.api.start(controllers, Options::default());
    // Less than the timeout of a call, so that a crash precedes the timeout.
    tokio::time::sleep(Duration::from_secs(3)).await;
    act(&rig);
    tokio::time::sleep(Duration::from_secs(3)).await;
    if let Trouble::Crash(_) = trouble {
        rig.crash(running).await;
        running = rig.api.start(controllers, Options::default());
    }
    for _ in 0..4 {
        rig.api.settle().await;
    }
    drop(running);
    let (writes, calls) = (rig.api.take_writes().len(), rig.double.calls().len() - calls_before);
    (rig, writes, calls)
}

/// Runs a scenario, then again with every single write and every single call failing in every way, and with the process
/// dying during every call. The final state of the API must be the same, and so must the driver's, as read by `held`. A
/// restart on the final state must find nothing to do. Returns the rig of the first run.
pub(crate) async fn survives<T: PartialEq + Debug>(
    controllers: &[Run],
    make: impl AsyncFn() -> Rig,
    act: impl Fn(&Rig),
    held: impl Fn(&Rig) -> T,
) -> Rig {
    let (rig, writes, calls) = play(controllers, &make, &act, &Trouble::None).await;
    let (end, kept, asked) = (rig.end(), held(&rig), rig.double.calls().len());
    let again = rig.api.start(controllers, Options::default());
    rig.api.settle().await;
    drop(again);
    assert_eq!(rig.api.take_writes(), [], "a second start finds nothing to do");
    assert_eq!(rig.double.calls().len(), asked, "a second start asks for nothing");
    let mut troubles = Vec::new();
    for nth in 0..writes {
        troubles.push(Trouble::Write(nth, FaultKind::Broken));
        troubles.push(Trouble::Write(nth, FaultKind::AnswerLost));
        troubles
            .push(Trouble::Write(nth, FaultKind::Status(409, "Conflict", "the object has been modified")));
    }
    for nth in 0..calls {
        let codes = [
            Failing::Broken,
            Failing::AnswerLost,
            Failing::NoAnswer,
            Failing::Garbage,
            Failing::Refuses(orlop_csi::error::Code::Internal, "no"),
            Failing::RefusesAfter(orlop_csi::error::Code::Aborted, "later"),
        ];
        troubles.extend(codes.map(|kind| Trouble::Call(nth, kind)));
        troubles.push(Trouble::Crash(nth));
    }
    for trouble in troubles {
        let (again, _, _) = play(controllers, &make, &act, &trouble).await;
        assert_eq!(again.end(), end, "{trouble:?}");
        assert_eq!(held(&again), kept, "{trouble:?}: what the driver has");
        assert_eq!(again.api.pending_faults() + again.double.pending_faults(), 0, "{trouble:?} happened");
    }
    rig
}
