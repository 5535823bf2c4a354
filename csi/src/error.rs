//! Classification of failed calls. All code that decides between "nothing was created" and "something may have
//! been created" uses this module, because confusing the two leaks volumes.

use tonic::Status;

/// gRPC status codes, as drivers return them.
pub use tonic::Code;

/// A failed call. Its text is that of Go's gRPC, which also appears in events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {message}")]
pub struct CallError {
    /// The driver's code, or the code that stands for the way the call failed.
    pub code: Code,
    /// The driver's message, or orlop's if the driver did not respond.
    pub message: String,
    answered: bool,
}

/// The state that a failed call leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The driver has done nothing and will do nothing.
    Final,
    /// As `Final`, and the same request will fail again until it is changed.
    Infeasible,
    /// The operation may be complete or in progress: only repeating the same call can determine which.
    Uncertain,
}

/// Prefixes of errors detected on this side: the response is truncated, too large or missing. tonic returns them
/// as statuses without a source, like a driver's own (tonic: codec/decode.rs, client/grpc.rs, status.rs).
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
/// Maximum length of a driver's message: events and conditions are limited to a kilobyte.
const LONGEST: usize = 1024;

impl CallError {
    /// The driver did not respond in time.
    pub fn late(call: &str, seconds: f64) -> Self {
        CallError {
            code: Code::DeadlineExceeded,
            message: format!("{call}: the driver did not answer within {seconds} s"),
            answered: false,
        }
    }

    /// The driver's response violates the specification.
    pub fn broken(message: impl Into<String>) -> Self {
        CallError { code: Code::Internal, message: message.into(), answered: false }
    }

    /// A response with this code, for tests and tables.
    pub fn answered(code: Code, message: impl Into<String>) -> Self {
        CallError { code, message: message.into(), answered: true }
    }

    /// Returns the state that the call left behind (upstream: the sidecars' isFinalError and isInfeasibleError). An
    /// unreadable response does not show whether the driver did the operation.
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

    /// Classifies the failure of a call that repeats one with an unknown outcome. A driver that is currently broken
    /// reports nothing about its earlier work; one that rejects the call for lack of capacity or for its parameters
    /// has looked for existing results first, because calls are idempotent.
    pub fn meaning_of_repetition(&self) -> Meaning {
        match (self.meaning(), self.code) {
            (Meaning::Final, Code::ResourceExhausted | Code::OutOfRange | Code::NotFound) => Meaning::Final,
            (Meaning::Final | Meaning::Uncertain, _) => Meaning::Uncertain,
            (Meaning::Infeasible, _) => Meaning::Infeasible,
        }
    }

    /// Returns whether the driver reported that it is out of capacity.
    pub fn is_exhausted(&self) -> bool {
        self.answered && self.code == Code::ResourceExhausted
    }

    /// Returns whether the driver may have done the operation, or may still be doing it.
    pub fn is_uncertain(&self) -> bool {
        self.meaning() == Meaning::Uncertain
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        // A status received over the wire has no source; a status for a broken connection has one.
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
    fn status_code_and_origin_determine_the_meaning() {
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
        assert!(CallError::from(garbled).is_uncertain(), "the outcome is unknown");
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
    fn repeated_failure_is_uncertain_unless_about_capacity_or_parameters() {
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
    fn text_matches_go_grpc() {
        let error = CallError::from(Status::resource_exhausted("no room"));
        assert_eq!(error.to_string(), "rpc error: code = ResourceExhausted desc = no room");
        let long = CallError::from(Status::internal("ä".repeat(2000)));
        assert!(long.message.len() <= 1024 + '…'.len_utf8());
    }
}
