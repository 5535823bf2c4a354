//! The owner of a pod spec, for the few rules that differ between bare pods and templates.

/// The owner of a pod spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// A pod and its name; `""` if it has none yet.
    Pod(&'a str),
    /// A template of another kind.
    Template,
}

impl Owner<'_> {
    /// Whether the rules for bare pods apply.
    pub(super) fn is_pod(self) -> bool {
        match self {
            Owner::Pod(_) => true,
            Owner::Template => false,
        }
    }
}
