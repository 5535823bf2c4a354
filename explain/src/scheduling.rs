//! The scheduler's reports about a pod.

use k8s_openapi::api::core::v1::Pod;

use orlop_client::names::condition;

/// The scheduler's message for an unschedulable pod.
pub(crate) fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let said =
        conditions.iter().find(|one| one.type_ == condition::POD_SCHEDULED && one.status == "False")?;
    // The rest of the message is about preemption, which this scheduler does not do.
    let message = said.message.as_deref()?.split(" no new claims to deallocate").next()?;
    Some(message.to_owned()).filter(|message| !message.is_empty())
}
