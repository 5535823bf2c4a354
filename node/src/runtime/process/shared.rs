//! The state that all pods of the process runtime share.

use kube::Client;
use orlop_client::recorder::Recorder;

use super::decide::BackOff;
use super::plan;

/// The state that all pods of a runtime share.
pub(super) struct RuntimeContext {
    pub(super) settings: plan::Settings,
    pub(super) client: Client,
    pub(super) events: Option<Recorder>,
    pub(super) back_off: BackOff,
}
