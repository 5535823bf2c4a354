//! Builds the error for an apply that would change fields of other owners.

use orlop_api::status::ApiError;
use orlop_api::validate::Cause;

use super::entries::{EntryOwner, identity};
use super::update::Conflict;

/// Returns a 409 with a cause for each path. The conflicts are sorted by owner.
pub(super) fn error(conflicts: &[Conflict]) -> ApiError {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict",
        message: format!("conflict with {}", conflict.owner.shown()),
        field: conflict.path.clone(),
    };
    ApiError::apply_conflict(message(conflicts), conflicts.iter().map(cause).collect())
}

fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.owner.shown(), one.path);
    }
    let mut lines: Vec<String> = Vec::new();
    let mut current: Option<&EntryOwner> = None;
    for conflict in conflicts {
        if current.is_none_or(|owner| identity(owner) != identity(&conflict.owner)) {
            lines.push(format!("conflicts with {}:", conflict.owner.shown()));
            current = Some(&conflict.owner);
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
