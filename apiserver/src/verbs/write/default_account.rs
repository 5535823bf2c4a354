//! Waits for the service account of a pod in a new namespace.

use std::time::Duration;

use futures::FutureExt as _;
use orlop_api::object::Object;
use tokio::time::timeout;

use crate::admission::DEFAULT_ACCOUNT;
use crate::dispatch::key;
use crate::limits::compute::leave_place;
use crate::registry;
use crate::verbs::request::{HeadLookup, Request};

/// How long a pod waits. Upstream reads the account ten times, 0.1 s to 0.2 s apart.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Waits until the account `default` of the namespace exists, if a new pod needs it and a controller is about to create it.
/// If the account is still missing afterwards, admission decides.
pub(super) async fn wait(request: &Request, pod: &Object) {
    let (names, namespace) = (request.names(), &request.resource.namespace);
    let is_pod = (names.group, names.plural) == ("", "pods") && request.resource.subresource.is_empty();
    let server = &request.server;
    // If an account cannot be read, admission fails.
    let waits = || {
        let waits = |lookup: &HeadLookup<'_>| server.admission.awaits_default_account(pod, namespace, lookup);
        request.look_up(waits).unwrap_or(false)
    };
    if !is_pod || !waits() {
        return;
    }
    let Some(kind) = registry::by_resource("", "v1", "serviceaccounts") else { return };
    let account = key(kind, namespace, DEFAULT_ACCOUNT);
    let Ok(mut changes) = server.store.watch(&account, request.head().revision()) else { return };
    leave_place();
    let exists = async { while waits() && changes.next().await.is_ok() {} };
    let _ = timeout(PATIENCE, exists.boxed()).await;
}
