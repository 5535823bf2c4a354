//! Recycling of a released volume: a pod mounts the volume and deletes all of its content; then the volume is
//! unbound and made available again.

mod operation;
mod runner;

pub use self::runner::PodRunner;
