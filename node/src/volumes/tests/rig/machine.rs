//! A machine that outlives agents: what is mounted, what was called, and which calls go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::mount::{Force, Mount, MountError, MountPoint, Mounter};
use crate::plugin::{Place, PluginError};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::volumes::tests) enum Fault {
    /// Nothing is done.
    Final,
    /// Nothing is done, and that takes five seconds.
    Late,
    /// Nothing is done, and nobody says so.
    Lost,
    /// It is done, and nobody says so.
    Done,
    /// Nothing is done, and it panics.
    Panics,
    /// It never begins, and never ends.
    HangsBefore,
    /// It is done, and never ends.
    HangsAfter,
    /// It is done, and the answer is that nothing was.
    Denied,
}

/// The calls that are to go wrong: those that begin with a text, after so many of them, once or always.
pub(in crate::volumes::tests) struct Plan {
    pub(in crate::volumes::tests) call: &'static str,
    pub(in crate::volumes::tests) skip: usize,
    pub(in crate::volumes::tests) fault: Fault,
    pub(in crate::volumes::tests) always: bool,
}

#[derive(Default)]
pub(in crate::volumes::tests) struct State {
    /// Every call, in order.
    pub(in crate::volumes::tests) calls: Vec<String>,
    pub(in crate::volumes::tests) devices: BTreeSet<String>,
    pub(in crate::volumes::tests) places: BTreeMap<Place, String>,
    /// What the controller has attached.
    pub(in crate::volumes::tests) attached: BTreeSet<String>,
    /// What must never be.
    pub(in crate::volumes::tests) wrong: Vec<String>,
    pub(in crate::volumes::tests) plans: Vec<Plan>,
    busy: BTreeSet<String>,
    pub(in crate::volumes::tests) expand_error: Option<fn() -> PluginError>,
    pub(in crate::volumes::tests) owned: Vec<String>,
    pub(in crate::volumes::tests) own_for: Option<Duration>,
    pub(in crate::volumes::tests) own_fails: usize,
    pub(in crate::volumes::tests) read_only: Vec<bool>,
    /// UIDs of the pods for which a device was mounted.
    pub(in crate::volumes::tests) staged_for: Vec<String>,
    /// When a directory is renamed into this one, something is mounted in it as if that had been done right before.
    pub(in crate::volumes::tests) mounts_late: Option<PathBuf>,
    /// Records that cannot be read, by the UID of their pod.
    pub(in crate::volumes::tests) unreadable: BTreeSet<String>,
    /// It is not known yet what drivers want.
    pub(in crate::volumes::tests) unsynced: bool,
    /// The groups that volumes were staged for.
    pub(in crate::volumes::tests) groups: Vec<Option<i64>>,
    points: Vec<PathBuf>,
    /// How often the table of mounts was read.
    pub(in crate::volumes::tests) readings: usize,
}

/// The machine.
#[derive(Clone, Default)]
pub(in crate::volumes::tests) struct Machine(Arc<Mutex<State>>);

/// Takes its volume out of those with a call under way, also when the call is dropped.
struct Busy(Machine, String);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.state().busy.remove(&self.1);
    }
}

impl Machine {
    pub(in crate::volumes::tests) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::volumes::tests) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    pub(in crate::volumes::tests) fn plan(&self, call: &'static str, skip: usize, fault: Fault) {
        self.state().plans.push(Plan { call, skip, fault, always: false });
    }

    pub(in crate::volumes::tests) fn always(&self, call: &'static str, fault: Fault) {
        self.state().plans.push(Plan { call, skip: 0, fault, always: true });
    }

    /// The controller attaches these, and detaches all others.
    pub(super) fn attach(&self, names: BTreeSet<String>) {
        let mut state = self.state();
        let staged = state.devices.iter().filter(|name| *name != "loose" && !name.contains('^'));
        let lost: Vec<String> =
            staged.filter(|name| !names.contains(&format!("test/disk/{name}"))).cloned().collect();
        state.wrong.extend(lost.iter().map(|name| format!("{name} is detached while it is mounted")));
        state.attached = names;
    }

    pub(in crate::volumes::tests) fn mount_at(&self, path: &Path) {
        self.state().points.push(path.to_owned());
    }

    pub(super) async fn call(
        &self,
        volume: &str,
        call: String,
        effect: impl FnOnce(&mut State),
    ) -> Result<(), PluginError> {
        let fault = {
            let mut state = self.state();
            if !state.busy.insert(volume.to_owned()) {
                state.wrong.push(format!("{call}: another call of {volume} is under way"));
            }
            state.calls.push(call.clone());
            let mut hit = None;
            let plans = std::mem::take(&mut state.plans);
            for mut plan in plans {
                if hit.is_none() && call.starts_with(plan.call) {
                    if plan.skip == 0 {
                        hit = Some(plan.fault);
                        if !plan.always {
                            continue;
                        }
                    } else {
                        plan.skip -= 1;
                    }
                }
                state.plans.push(plan);
            }
            hit
        };
        let _busy = Busy(self.clone(), volume.to_owned());
        tokio::task::yield_now().await;
        match fault {
            Some(Fault::HangsBefore) => std::future::pending().await,
            Some(Fault::Late) => {
                tokio::time::sleep(Duration::from_secs(5)).await;
                return Err(PluginError::plain(format!("{call}: no")));
            }
            Some(Fault::Final) => return Err(PluginError::plain(format!("{call}: no"))),
            Some(Fault::Lost) => return Err(PluginError::uncertain(format!("{call}: no answer"))),
            Some(Fault::Panics) => panic!("on purpose"),
            Some(Fault::Done | Fault::HangsAfter | Fault::Denied) | None => effect(&mut self.state()),
        }
        match fault {
            Some(Fault::Done) => Err(PluginError::uncertain(format!("{call}: no answer"))),
            Some(Fault::HangsAfter) => std::future::pending().await,
            Some(Fault::Denied) => Err(PluginError::plain(format!("{call}: no"))),
            Some(_) | None => Ok(()),
        }
    }
}

impl Mounter for Machine {
    fn mount(&self, _: &Mount) -> Result<(), MountError> {
        Ok(())
    }

    fn unmount(&self, target: &Path, _: Force) -> Result<(), MountError> {
        let mut state = self.state();
        state.calls.push(format!("unmount {}", target.display()));
        state.points.retain(|point| point != target);
        Ok(())
    }

    fn renamed(&self) {
        let mut state = self.state();
        if let Some(room) = state.mounts_late.take() {
            let moved = std::fs::read_dir(room).unwrap().next().unwrap().unwrap().path();
            state.points.push(moved.join("late"));
        } else {
            state.points.retain(|point| point.exists());
        }
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        let point = |target: &PathBuf| MountPoint {
            target: target.clone(),
            root: PathBuf::from("/"),
            fs_type: "tmpfs".to_owned(),
            source: "tmpfs".to_owned(),
            options: Vec::new(),
            device: (0, 1),
        };
        let mut state = self.state();
        state.readings += 1;
        Ok(state.points.iter().map(point).collect())
    }
}
