//! Scrubbing a released volume with policy Recycle: a pod mounts it and deletes everything in it; then the volume is
//! untied from its claim and offered again.

mod operation;
mod runner;

pub use self::runner::PodRunner;
