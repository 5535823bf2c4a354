//! The cost of a call.

use super::kind::Kind;
use super::size::{PER_CHARACTER, PER_PATTERN_CHARACTER, Size};
use super::ty::Type;

/// The cost of a call without that of its arguments, and the type and size of its result.
pub(super) struct CallEstimate {
    pub(super) cost: u64,
    pub(super) ty: Type,
    pub(super) size: Option<Size>,
}

impl CallEstimate {
    /// A call whose cost does not depend on sizes.
    pub(super) fn simple(kind: Kind) -> Self {
        CallEstimate { cost: 1, ty: Type::Plain(kind), size: None }
    }

    pub(super) fn costing(cost: u64, ty: Type) -> Self {
        CallEstimate { cost, ty, size: None }
    }

    pub(super) fn sized(self, size: Size) -> Self {
        CallEstimate { size: Some(size), ..self }
    }
}

/// The cost of matching a text with a pattern, whose length stands for its complexity.
pub(super) fn pattern_cost(text: Size, pattern: Size) -> u64 {
    let text = text.plus(Size::exactly(1)).cost(PER_CHARACTER);
    text.saturating_mul(pattern.cost(PER_PATTERN_CHARACTER))
}
