//! End-to-end tests: each one starts the real binary, or reads the repository itself.
//!
//! `harness` is the test library, `tidy` checks the repository's own rules, `faults` injects disk faults below a
//! server, and the other files contain one story each. A story starts its own control plane on port 0, so all of
//! them run in parallel, and waits for conditions ("the claim is bound"), never for time.

#![allow(clippy::unwrap_used)]

mod addresses;
mod admission;
mod aggregation;
mod api;
mod attach;
mod audit;
mod audit_log;
mod authentication;
mod authorization;
mod bench;
mod browser;
mod clients;
mod components;
mod crash;
mod csi;
mod custom;
mod faults;
mod group_snapshots;
mod harness;
mod identity;
mod insight;
mod insight_api;
mod insight_readme;
mod joining;
mod kubectl;
mod kubelets;
mod lab;
mod linear;
mod loopback;
mod node;
mod node_commands;
mod node_hung;
mod node_kill;
mod node_lifecycle;
mod node_network;
mod node_readme;
mod overload;
mod own_authority;
mod page;
mod process;
mod provision;
mod proxies;
mod quota;
mod recycle;
mod schedule;
mod secrets;
mod service_account;
mod snapshot;
mod snapshots_and_resize;
mod story;
mod tidy;
mod tls;
mod upstream;
mod volume_snapshots;
mod why;
mod workload;
