//! The number of connections that the process can serve: each needs an open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ListenError;

/// Generous estimate of open files other than connections.
const OTHERS: u64 = 256;
/// Minimum number of connections.
const LEAST: u64 = 16;

/// Minimum number of open files of a server: the store, the connections and the threads that serve them.
const LEAST_FILES: u64 = 128;

/// Raises the soft limit of open files to the hard limit, and checks that a server can work with it.
///
/// # Errors
/// The limit is too low.
pub(crate) fn check_limit() -> Result<(), ListenError> {
    enough(raise())
}

fn enough(files: Option<u64>) -> Result<(), ListenError> {
    match files {
        Some(files) if files < LEAST_FILES => Err(ListenError::FewFiles { files, least: LEAST_FILES }),
        Some(_) | None => Ok(()),
    }
}

/// Raises the soft limit of open files to the hard limit. Returns how many connections are possible if this many
/// are wanted (0: no limit, as a parameter and as a result).
pub(crate) fn room_for(wanted: usize) -> usize {
    let files = raise();
    let room = carried(wanted, files);
    if wanted > room {
        tracing::warn!(
            "{room} connections are possible instead of {wanted} (--max-connections): the process may open {} files; \
             raise that limit (ulimit -Hn, LimitNOFILE=)",
            files.unwrap_or_default()
        );
    }
    room
}

/// Raises the soft limit of open files to the hard limit, for this process and its children. Returns the limit;
/// `None` means no limit.
pub(crate) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(error) => {
            tracing::warn!("the limit of open files cannot be raised: {error}");
            limit.current
        }
    }
}

/// The number of connections. `files`: the limit of open files; `None` means no limit.
fn carried(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let room = usize::try_from(files.saturating_sub(OTHERS).max(LEAST)).unwrap_or(usize::MAX);
    if wanted == 0 { room } else { wanted.min(room) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_by_open_files() {
        for (case, wanted, files, want) in [
            ("1 enough", 20_000, Some(1 << 20), 20_000),
            ("2 not enough", 20_000, Some(1024), 768),
            ("3 hardly any", 20_000, Some(64), 16),
            ("4 no limit of files", 20_000, None, 20_000),
            ("5 no limit wanted", 0, Some(1024), 768),
            ("6 no limit at all", 0, None, 0),
            ("7 few wanted", 3, Some(1024), 3),
        ] {
            assert_eq!(carried(wanted, files), want, "{case}");
        }
    }

    #[test]
    fn server_needs_a_minimum_of_open_files() {
        for (files, is_enough) in [(Some(0), false), (Some(127), false), (Some(128), true), (None, true)] {
            assert_eq!(enough(files).is_ok(), is_enough, "{files:?}");
        }
        let text = enough(Some(32)).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("32 files") && text.contains("ulimit -Hn"), "{text}");
    }

    #[test]
    fn soft_limit_is_raised_to_the_hard_limit() {
        room_for(1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
