//! Deadlines and panic isolation for work that may panic or never return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::sled::ServedError;
use super::{Options, space};

/// The deadline for opening the copy in a directory. It grows with the size of the copy, at a rate that
/// even a slow disk can read.
pub(crate) fn deadline(root: &Path, options: &Options) -> Duration {
    options.open_deadline + Duration::from_secs(space::allocated(root) / (5 << 20))
}

/// Runs the work in a thread of its own. A panic becomes an error, and so does a missed deadline; the thread
/// is then abandoned with everything it owns.
pub(crate) fn guarded<T: Send + 'static>(
    what: &'static str,
    deadline: Duration,
    work: impl FnOnce() -> Result<T, ServedError> + Send + 'static,
) -> Result<T, ServedError> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("store-open".into()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.unwrap_or_else(|panic| Err(ServedError::Unusable(panic_message(&*panic))));
        // The caller may have stopped waiting.
        let _ = sender.send(result);
    })?;
    match receiver.recv_timeout(deadline) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(ServedError::Unusable(format!("{what} did not end within {deadline:?}")))
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("sled has panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_missed_deadlines_become_errors() {
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
