//! Levels and stages of audit events.
//!
//! Upstream: apiserver `pkg/apis/audit/types.go`.

/// How much is recorded about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    None,
    /// The user, the verb, the object and the result.
    Metadata,
    /// The same, and the body of the request.
    Request,
    /// The same, and the body of the response.
    RequestResponse,
}

impl Level {
    /// All levels, in ascending order.
    pub const ALL: [Level; 4] = [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// The name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }

    /// The level of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A point in the life of a request at which an event may be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request has arrived.
    RequestReceived,
    /// The headers of the response of a long-running request, such as a watch, are ready.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The request panicked.
    Panic,
}

impl Stage {
    /// All stages, in their order.
    pub const ALL: [Stage; 4] =
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// The name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }

    /// The stage of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// The set with one more stage.
    #[must_use]
    pub fn with(self, stage: Stage) -> Self {
        Stages(self.0 | 1 << stage as u8)
    }

    /// The stages of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Stages(self.0 | other.0)
    }

    /// Whether the set contains a stage.
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_levels_ascend() {
        for level in Level::ALL {
            assert_eq!(Level::of_name(level.name()), Some(level));
        }
        assert!(Level::ALL.is_sorted());
        assert_eq!(Level::of_name("metadata"), None);
        for stage in Stage::ALL {
            assert_eq!(Stage::of_name(stage.name()), Some(stage));
        }
    }

    #[test]
    fn sets_contain_their_stages() {
        let one = Stages::default().with(Stage::RequestReceived);
        let both = one.union(Stages::default().with(Stage::Panic));
        let found: Vec<bool> = Stage::ALL.into_iter().map(|stage| both.contains(stage)).collect();
        assert_eq!(found, [true, false, false, true]);
    }
}
