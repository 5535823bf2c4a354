//! Clients that people use, against the real binary: the Python and JavaScript libraries, kube-rs, and what an informer
//! of client-go says and expects.
//!
//! The libraries are installed once by `hack/clients`, in versions that are ours; where their registries cannot be
//! reached, their tests are left out and stderr says so. Every foreign process has a deadline.

mod informer;
mod javascript;
mod kube_rs;
pub(crate) mod line;
pub(crate) mod past;
mod proto;
mod python;
mod schemathesis;
pub(crate) mod script;
