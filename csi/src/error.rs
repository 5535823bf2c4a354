//! What it means when a call fails. Everything that decides between "nothing was made" and "something may have been
//! made" asks here, because a volume is forgotten where the two are taken for each other.

use tonic::Status;

/// Codes of gRPC, as drivers answer with them.
pub use tonic::Code;

/// A call that failed. Its text is the one that Go's gRPC gives, which is what people find in events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {message}")]
pub struct CallError {
    /// What the driver answered, or what stands for the way in which it did not.
    pub code: Code,
    /// The driver's words, or ours when it did not answer.
    pub message: String,
    answered: bool,
}

/// What a failed call leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The driver has done nothing and goes on doing nothing.
    Final,
    /// The same, and the same request will fail again until somebody changes it.
    Infeasible,
    /// The work may be done, or be under way: only the same call again tells.
    Uncertain,
}

/// How failures begin that are found here, in an answer that is cut, too large or none. They come as statuses without a
/// source, like a driver's own (tonic: codec/decode.rs, client/grpc.rs, status.rs).
const FOUND_HERE: [&str; 8] = [
    "failed to decode Protobuf message",
    "Missing response message",
    "Unexpected EOF decoding",
    "protocol error:",
    "Error, decoded message length too large",
    "Error decompressing",
    "grpc-status header missing",
    "Error deserializing status message",
];
/// The longest text of a driver that is kept: events and conditions end at a kilobyte.
const LONGEST: usize = 1024;

impl CallError {
    /// The driver did not answer in time.
    pub fn late(call: &str, seconds: f64) -> Self {
        CallError {
            code: Code::DeadlineExceeded,
            message: format!("{call}: the driver did not answer within {seconds} s"),
            answered: false,
        }
    }

    /// What the driver answered breaks the specification.
    pub fn broken(message: impl Into<String>) -> Self {
        CallError { code: Code::Internal, message: message.into(), answered: false }
    }

    /// An answer with this code, for tests and tables.
    pub fn answered(code: Code, message: impl Into<String>) -> Self {
        CallError { code, message: message.into(), answered: true }
    }

    /// What is left behind (upstream: the sidecars' isFinalError and isInfeasibleError). An answer that cannot be read
    /// says nothing about what was done.
    pub fn meaning(&self) -> Meaning {
        if !self.answered {
            return Meaning::Uncertain;
        }
        match self.code {
            Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => {
                Meaning::Uncertain
            }
            Code::InvalidArgument => Meaning::Infeasible,
            Code::Ok
            | Code::Unknown
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => Meaning::Final,
        }
    }

    /// The same for a call that repeats one whose outcome is not known. A driver that is broken at the moment says nothing
    /// about what it did before; one that refuses for want of room or for what is asked has looked for what is there first,
    /// because calls are idempotent.
    pub fn meaning_of_repetition(&self) -> Meaning {
        match (self.meaning(), self.code) {
            (Meaning::Final, Code::ResourceExhausted | Code::OutOfRange | Code::NotFound) => Meaning::Final,
            (Meaning::Final | Meaning::Uncertain, _) => Meaning::Uncertain,
            (Meaning::Infeasible, _) => Meaning::Infeasible,
        }
    }

    /// Whether the driver said that it has no room.
    pub fn is_exhausted(&self) -> bool {
        self.answered && self.code == Code::ResourceExhausted
    }

    /// Whether the driver may have done what was asked, or still does it.
    pub fn is_uncertain(&self) -> bool {
        self.meaning() == Meaning::Uncertain
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        // A status that came over the wire has no source; one that stands for a broken connection has.
        let found_here = FOUND_HERE.iter().any(|begin| status.message().starts_with(begin));
        let answered = std::error::Error::source(&status).is_none() && !found_here;
        let mut message = status.message().to_owned();
        if message.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        CallError { code: status.code(), message, answered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings() {
        for (code, meaning) in [
            (Code::Aborted, Meaning::Uncertain),
            (Code::Unavailable, Meaning::Uncertain),
            (Code::DeadlineExceeded, Meaning::Uncertain),
            (Code::Cancelled, Meaning::Uncertain),
            (Code::InvalidArgument, Meaning::Infeasible),
            (Code::Internal, Meaning::Final),
            (Code::ResourceExhausted, Meaning::Final),
        ] {
            assert_eq!(CallError::answered(code, "").meaning(), meaning, "{code:?}");
            assert_eq!(CallError::from(Status::new(code, "x")).meaning(), meaning, "{code:?} of a status");
        }
        assert!(CallError::late("CreateVolume", 15.0).is_uncertain());
        assert!(CallError::broken("no volume").is_uncertain());
        let garbled = Status::internal("failed to decode Protobuf message: invalid tag value: 0");
        assert!(CallError::from(garbled).is_uncertain(), "what was done cannot be known");
        for (code, text) in [
            (Code::Internal, "Missing response message."),
            (Code::Unknown, "protocol error: received message without a grpc-status trailer"),
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
            ),
        ] {
            let error = CallError::from(Status::new(code, text));
            assert!(error.is_uncertain(), "{text}");
            assert_eq!(error.meaning_of_repetition(), Meaning::Uncertain, "{text}");
        }
        let cut = Status::from_error(Box::new(std::io::Error::other("connection reset")));
        assert!(CallError::from(cut).is_uncertain(), "a connection that broke");
    }

    #[test]
    fn a_repetition_that_fails_tells_little_about_what_was_done_before() {
        for (code, meaning) in [
            (Code::Internal, Meaning::Uncertain),
            (Code::PermissionDenied, Meaning::Uncertain),
            (Code::AlreadyExists, Meaning::Uncertain),
            (Code::Unavailable, Meaning::Uncertain),
            (Code::ResourceExhausted, Meaning::Final),
            (Code::OutOfRange, Meaning::Final),
            (Code::InvalidArgument, Meaning::Infeasible),
        ] {
            assert_eq!(CallError::answered(code, "").meaning_of_repetition(), meaning, "{code:?}");
        }
        assert_eq!(CallError::broken("x").meaning_of_repetition(), Meaning::Uncertain);
    }

    #[test]
    fn its_text_is_that_of_go() {
        let error = CallError::from(Status::resource_exhausted("no room"));
        assert_eq!(error.to_string(), "rpc error: code = ResourceExhausted desc = no room");
        let long = CallError::from(Status::internal("ä".repeat(2000)));
        assert!(long.message.len() <= 1024 + '…'.len_utf8());
    }
}
