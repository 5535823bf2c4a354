//! The name by which the program was called.

use std::ffi::OsString;
use std::path::Path;

/// The name by which this program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The program's own name.
    Itself,
    /// A kubectl plugin: the server defaults to the one of the kubeconfig.
    Kubectl,
}

impl Caller {
    pub(super) fn of(program: Option<&OsString>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        if name.is_some_and(|name| name == "kubectl-orlop") { Caller::Kubectl } else { Caller::Itself }
    }
}
