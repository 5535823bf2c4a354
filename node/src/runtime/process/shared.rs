//! The parts of the runtime that all its pods share.

use kube::Client;
use orlop_client::recorder::Recorder;

use super::decide::BackOff;
use super::plan;

/// What all pods of a runtime share.
pub(super) struct RuntimeContext {
    pub(super) settings: plan::Settings,
    pub(super) client: Client,
    pub(super) events: Option<Recorder>,
    pub(super) back_off: BackOff,
}
