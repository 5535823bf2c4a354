//! Controllers that remove what nobody needs any more: pods, the content of namespaces, objects whose owners are gone.

pub mod discovery;
pub mod namespace;

pub mod owners;
pub mod pods;
