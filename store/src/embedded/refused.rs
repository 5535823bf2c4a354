//! Why the journal did not take a group.

use std::fmt;
use std::io;

/// Why a group was not appended.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The disk is full, and nothing of the group is in the journal. For [`Journal::rotate`](super::journal::Journal::rotate) also: too
    /// many files are open.
    NoSpace(String),
    /// The state of the journal is unknown.
    Unknown(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Refused::Unknown(why)
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoSpace(why) => io::Error::new(io::ErrorKind::StorageFull, why),
            Refused::Unknown(why) => io::Error::other(why),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoSpace(why) | Refused::Unknown(why) => f.write_str(why),
        }
    }
}
