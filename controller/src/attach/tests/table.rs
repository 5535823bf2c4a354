//! One row of the tables, and the meaning of its lines. `play.rs` runs the rows.
//!
//! The ids are those of the behaviour cases that were verified on Kubernetes 1.36; ids that begin with `NEW-` are orlop's.
//! `HP` stands for the driver `hostpath.csi.k8s.io`, `HP^h` for its volume `h`, `HP^h@n` for that volume on the node `n`; a
//! blank in a name is written `%20`.

/// A case.
pub(super) struct Case {
    /// Unique; the branches that it covers name it in a comment.
    pub(super) id: &'static str,
    /// The behaviour that it shows.
    pub(super) about: &'static str,
    /// Objects before the controller starts.
    pub(super) given: &'static [&'static str],
    /// What attachers do, as `WHERE=HOW`: WHERE is a node or `*`, HOW is `ok`, `attachNever`, `attachOnce`, `attachError: TEXT`,
    /// `detachNever` or `detachError: TEXT`. Without a line all is `ok`.
    pub(super) attacher: &'static [&'static str],
    /// Flags that differ from the default.
    pub(super) flags: &'static [&'static str],
    /// The pod GC runs too.
    pub(super) pod_gc: bool,
    /// The steps after the start. Before the first, after the last and at `settle`, the test waits until nothing changes.
    pub(super) steps: &'static [&'static str],
    /// All VolumeAttachments and nodes at the end.
    pub(super) end: &'static [&'static str],
    /// Required events; others may occur. With a star at the end, only the beginning is compared.
    pub(super) events: &'static [&'static str],
    /// Reasons of events that must not occur; `REASON on pod/NS/NAME` for one object.
    pub(super) absent: &'static [&'static str],
}

/// The defaults of a row.
pub(super) const NO_CASE: Case = Case {
    id: "",
    about: "",
    given: &[],
    attacher: &[],
    flags: &[],
    pod_gc: false,
    steps: &[],
    end: &[],
    events: &[],
    absent: &[],
};

/// Every row of every table.
pub(super) fn all() -> impl Iterator<Item = &'static Case> {
    [
        super::attach::CASES,
        super::pods::CASES,
        super::shared::CASES,
        super::nodes::CASES,
        super::restart::CASES,
        super::new::CASES,
    ]
    .into_iter()
    .flatten()
}
