//! Cases of our own: what upstream does not have.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[];
