//! Whole lives against the API in memory, with doubles of whoever mounts and whoever runs.
#![allow(clippy::unwrap_used)]

mod fixture;
mod lifecycle;
mod status;
