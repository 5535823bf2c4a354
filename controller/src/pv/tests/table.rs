//! The rows of the case tables and their fields. The two runners in `play.rs` execute them.
//!
//! The ids are those of the behaviour cases verified on Kubernetes 1.36; ids that begin with `NEW-` are
//! additional cases.

/// A case.
pub(super) struct Case {
    /// Unique id; the branches that the case tests list it in a comment.
    pub(super) id: &'static str,
    /// A description of the case.
    pub(super) about: &'static str,
    /// The initial objects.
    pub(super) given: &'static [&'static str],
    /// Whether the volumes of `own_index::WIDE` exist too; `settled` then lists only the differences from them.
    pub(super) wide: bool,
    /// The plugins of `once`, and of `settled` if that is `unit_only`.
    pub(super) plugins: Plug,
    /// Whether one CSI driver replaces every in-tree plugin.
    pub(super) everything_migrated: bool,
    /// Whether dynamic provisioning is disabled.
    pub(super) no_provisioning: bool,
    /// Whether the controller's own store lacks the claims in `once`.
    pub(super) claims_not_stored: bool,
    /// Injected events in `once`, and in `settled` if that is `unit_only`: `provision|delete|recycle RESULT` of the
    /// mock, `api VERB RESOURCE TEXT` for a server error, `race STEP` immediately before an operation starts.
    pub(super) inject: &'static [&'static str],
    /// One sync of one object.
    pub(super) once: Option<Once>,
    /// The result of the search for the only claim.
    pub(super) finds: Option<Option<&'static str>>,
    /// External changes; the controller settles before the first, after the last and at `settle`.
    pub(super) steps: &'static [&'static str],
    /// The accepted end states when the whole controller runs; empty if the case does not test this.
    pub(super) settled: &'static [End],
    /// Whether `settled` uses the plugins and errors of the case instead of the built-in plugins.
    pub(super) unit_only: bool,
}

/// One sync and the resulting state of the server.
pub(super) struct Once {
    /// `claim NS/NAME` or `volume NAME`.
    pub(super) look_at: &'static str,
    /// All volumes and claims.
    pub(super) end: &'static [&'static str],
    /// Required events; others may occur.
    pub(super) events: &'static [&'static str],
}

/// An end state.
pub(super) struct End {
    /// All volumes and claims.
    pub(super) objects: &'static [&'static str],
    /// Required events; others may occur.
    pub(super) events: &'static [&'static str],
}

/// The plugins of the controller.
#[derive(Clone, Copy)]
pub(super) enum Plug {
    /// None.
    None,
    /// The built-in ones.
    Builtin,
    /// The mock, which supports every volume and these calls: `kubernetes.io/mock-volume`.
    Mock(&'static [&'static str]),
}

/// Default values of a row.
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
