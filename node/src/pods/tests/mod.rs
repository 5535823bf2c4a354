//! Whole pod lifecycles against an API server in memory, with fakes of the volume manager and the runtime.
#![allow(clippy::unwrap_used)]

mod fixture;
mod lifecycle;
mod status;
