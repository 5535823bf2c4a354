//! The name under which the program was called.

use std::ffi::OsString;
use std::path::Path;

/// How this program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// By its own name.
    Itself,
    /// As a plugin of kubectl, whose kubeconfig says which server is meant when nobody says it.
    Kubectl,
}

impl Caller {
    pub(super) fn of(program: Option<&OsString>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        if name.is_some_and(|name| name == "kubectl-orlop") { Caller::Kubectl } else { Caller::Itself }
    }
}
