//! Tests of the verbs through the router, on a store in memory, with a manual clock and tokio's paused time where
//! time has to pass.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod admitted_reviews;
mod audit;
mod authentication;
mod custom;
mod deletes;
mod fail_closed;
mod former;
mod insight;
mod insight_replay;
mod insight_rights;
mod insight_streams;
mod lists;
mod logs;
mod nodes;
mod paging;
mod pods;
mod quotas;
mod racy;
mod rbac;
mod rig;
mod samples;
mod scales;
mod secret_errors;
mod selectors;
mod services;
mod serving;
mod system_objects;
mod tokens;
mod unreadable;
mod unreadable_dependency;
mod walk;
mod watches;
mod writers;
mod writes;
