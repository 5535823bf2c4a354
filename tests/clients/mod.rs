//! Common clients against the real binary: the Python and JavaScript libraries, kube-rs, and a hand-written
//! informer that sends and expects the same as client-go's.
//!
//! `hack/clients` installs the libraries once, in pinned versions. Where their registries cannot be reached, the
//! tests are skipped, with a message on standard error. Every external process has a deadline.

mod documented;
mod informer;
mod javascript;
mod kube_rs;
pub(crate) mod line;
pub(crate) mod past;
mod proto;
mod python;
mod schemathesis;
pub(crate) mod script;
