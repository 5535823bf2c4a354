//! One row of the tables, and what its fields mean. Rows are played by the two runners in `play.rs`.
//!
//! The ids are those of the behaviour cases that were verified on Kubernetes 1.36; ids that begin with `NEW-` are our own.

/// A case.
pub(super) struct Case {
    /// Unique; the branches that it holds name it in a comment.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) about: &'static str,
    /// Objects at the start.
    pub(super) given: &'static [&'static str],
    /// The volumes of `own_index::WIDE` are there too; `settled` then names only what differs from them.
    pub(super) wide: bool,
    /// The plugins of `once`, and of `settled` if that is `unit_only`.
    pub(super) plugins: Plug,
    /// Every plugin that belongs to Kubernetes is served by one CSI driver.
    pub(super) everything_migrated: bool,
    /// Dynamic provisioning is switched off.
    pub(super) no_provisioning: bool,
    /// In `once` the controller's own store does not know the claims.
    pub(super) claims_not_stored: bool,
    /// What happens on the way in `once`, and in `settled` if that is `unit_only`: `provision|delete|recycle RESULT` of the
    /// mock, `api VERB RESOURCE TEXT` for an error of the server, `race STEP` right before an operation starts.
    pub(super) inject: &'static [&'static str],
    /// One look at one object.
    pub(super) once: Option<Once>,
    /// What the search finds for the only claim.
    pub(super) finds: Option<Option<&'static str>>,
    /// Changes from outside; before the first, after the last and at `settle` everything comes to rest.
    pub(super) steps: &'static [&'static str],
    /// How it ends when the whole controller runs. One of these; none means it was not asked.
    pub(super) settled: &'static [End],
    /// `settled` is played with the plugins and errors of the case, not with the standard plugins.
    pub(super) unit_only: bool,
}

/// One look, and what is on the server afterwards.
pub(super) struct Once {
    /// `claim NS/NAME` or `volume NAME`.
    pub(super) look_at: &'static str,
    /// All volumes and claims.
    pub(super) end: &'static [&'static str],
    /// Events that must be there; others may be.
    pub(super) events: &'static [&'static str],
}

/// A state of rest.
pub(super) struct End {
    /// All volumes and claims.
    pub(super) objects: &'static [&'static str],
    /// Events that must be there; others may be.
    pub(super) events: &'static [&'static str],
}

/// Which plugins the controller has.
#[derive(Clone, Copy)]
pub(super) enum Plug {
    /// None.
    None,
    /// The standard ones.
    Builtin,
    /// One that knows every volume and these calls, `kubernetes.io/mock-volume`.
    Mock(&'static [&'static str]),
}

/// What is not said in a row.
pub(super) const NO_CASE: Case = Case {
    id: "",
    about: "",
    given: &[],
    wide: false,
    plugins: Plug::Builtin,
    everything_migrated: false,
    no_provisioning: false,
    claims_not_stored: false,
    inject: &[],
    once: None,
    finds: None,
    steps: &[],
    settled: &[],
    unit_only: false,
};

/// Every row of every table.
pub(super) fn all() -> impl Iterator<Item = &'static Case> {
    [
        super::set_1::CASES,
        super::set_2::CASES,
        super::set_3::CASES,
        super::set_4::CASES,
        super::set_5::CASES,
        super::set_6::CASES,
        super::set_8_9::CASES,
        super::set_10::CASES,
        super::set_11::CASES,
        super::set_12::CASES,
        super::set_13::CASES,
        super::set_14::CASES,
        super::set_15::CASES,
        super::own_fit::CASES,
        super::own_attributes::CASES,
        super::own_wish::CASES,
        super::own_repair::CASES,
        super::own_reclaim::CASES,
        super::own_class::CASES,
        super::own_provision::CASES,
        super::own_index::CASES,
        super::own_index_modes::CASES,
        super::new::CASES,
    ]
    .into_iter()
    .flatten()
}
