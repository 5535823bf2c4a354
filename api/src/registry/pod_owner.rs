//! The owner of a pod spec: the few rules where a bare pod differs from a template ask for it.

/// The owner of a pod spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// A pod, by name; `""` when it has none yet.
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
