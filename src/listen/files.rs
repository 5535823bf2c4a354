//! How many connections the process can carry: each is an open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the store and the process itself have open besides connections, generously.
const OTHERS: u64 = 256;
/// Fewer make no server.
const LEAST: u64 = 16;

/// Raises the limit of open files as far as it goes without more rights, and says how many
/// connections there may be when so many are wanted (0: as many as possible; so is the answer).
pub(crate) fn room_for(wanted: usize) -> usize {
    let files = raise();
    let room = carried(wanted, files);
    if wanted > room {
        tracing::warn!(
            "there may be {room} connections and not {wanted} (--max-connections): the process may open {} files; \
             raise that limit (ulimit -Hn, LimitNOFILE=)",
            files.unwrap_or_default()
        );
    }
    room
}

/// Raises the limit of open files as far as it goes without more rights, for this process and those
/// that it starts; to how many. `None` is no limit.
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

/// `files`: how many may be open; `None` is no limit.
fn carried(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let room = usize::try_from(files.saturating_sub(OTHERS).max(LEAST)).unwrap_or(usize::MAX);
    if wanted == 0 { room } else { wanted.min(room) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried() {
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
    fn the_limit_is_raised() {
        room_for(1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
