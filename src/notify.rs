//! Reports the state of this process to systemd (`sd_notify`). Without `NOTIFY_SOCKET` this does nothing, and an error is only logged.

use sd_notify::NotifyState;

/// The server accepts requests, or the node agent is running.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// The shutdown has begun.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}
