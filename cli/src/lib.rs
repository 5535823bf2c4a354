//! The command line of `orlop`: flags, configuration and commands.
//!
//! Reading order: [`args`] declares the flags, [`config`] merges flags, variables and the file into one typed
//! configuration, [`tool`] runs the short-lived commands: `snapshot`, `store`, `keys`, `volumes`, `drain`, `gc`,
//! `token`, `kubeconfig`, `page`, and those that explain, rewind and repair (`insight`). The root package starts servers, controllers and nodes.

pub mod anonymous;
pub mod args;
pub mod config;
pub mod data_dir;
mod drain;
pub mod error;
mod gc;
mod insight;
mod keys;
mod kubeconfig;
mod local_admin;
pub mod logging;
pub mod output_file;
mod owner;
mod page;
mod snapshot;
mod store;
mod token;
pub mod tool;
pub mod volumes;
