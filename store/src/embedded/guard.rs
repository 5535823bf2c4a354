//! Work that may panic or never come back, kept at arm's length.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::sled::ServedError;
use super::{Options, space};

/// How long opening the copy in a directory may take. Large ones get more time: even a slow disk reads
/// this many bytes in a second.
pub(crate) fn deadline(root: &Path, options: &Options) -> Duration {
    options.open_deadline + Duration::from_secs(space::allocated(root) / (5 << 20))
}

/// Runs the work in a thread of its own. A panic is an error; so is a deadline that passes, and
/// then the thread is left behind with whatever it holds.
pub(crate) fn guarded<T: Send + 'static>(
    what: &'static str,
    deadline: Duration,
    work: impl FnOnce() -> Result<T, ServedError> + Send + 'static,
) -> Result<T, ServedError> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("store-open".into()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.unwrap_or_else(|panic| Err(ServedError::Unusable(told(&*panic))));
        // Nobody may be waiting any more.
        let _ = sender.send(result);
    })?;
    match receiver.recv_timeout(deadline) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(ServedError::Unusable(format!("{what} did not end within {deadline:?}")))
        }
    }
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("sled has panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_panics_and_deadlines() {
        let result = guarded("it", Duration::from_secs(9), || Ok::<u32, _>(7));
        assert!(matches!(result, Ok(7)));
        let result = guarded::<()>("it", Duration::from_secs(9), || panic!("no page {}", 3));
        assert!(matches!(result, Err(ServedError::Unusable(why)) if why.contains("no page 3")));
        let result = guarded::<()>("it", Duration::from_millis(1), || {
            loop {
                thread::park();
            }
        });
        assert!(matches!(result, Err(ServedError::Unusable(why)) if why.contains("did not end")));
    }
}
