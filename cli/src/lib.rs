//! The command line of `orlop`: flags, configuration and commands.
//!
//! Reading order: [`args`] declares the flags, [`config`] turns flags, variables and the file into one typed configuration,
//! [`tool`] runs the commands that exit by themselves: `snapshot`, `store`, `volumes`, `drain`, `gc`, and those that explain,
//! rewind and repair (`insight`). Servers, controllers and nodes are started by the root package.

pub mod args;
pub mod config;
mod drain;
pub mod error;
mod gc;
mod insight;
pub mod logging;
mod snapshot;
mod store;
pub mod tool;
pub mod volumes;
