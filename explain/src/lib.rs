//! Explains the state of objects: the answers of `orlop why`, of the page and of `GET .../why` (docs/insight.md,
//! codes in docs/why.md).
//!
//! The engine is pure. It reads a [`ClusterView`] (objects by kind and key) and has no client. It evaluates the
//! predicates by which the controllers decide, so that an explanation always matches their behaviour. There is
//! one file per kind of object: [`claim`], [`volume`], [`pod`], [`node`], [`attachment`], [`other`], and
//! [`terminating`] for objects that are being deleted, with `namespace` for namespaces. [`candidates`] judges the
//! candidate volumes of a claim by the compact [`facts`] of all volumes, and [`fix`] finds the change that makes one
//! fit. [`service`] answers from the informers of a process, [`table`] is a view made of JSON.

pub mod attachment;
pub mod candidates;
pub mod claim;
pub mod cluster_view;
pub mod eligible_nodes;
pub mod facts;
mod finalizer_block;
pub mod fix;
pub mod model;
mod namespace;
pub mod node;
pub mod other;
pub mod pod;
mod provisioning;
mod scheduling;
pub mod service;
pub mod subject;
mod sync_failing;
pub mod table;
pub mod terminating;
pub mod volume;
pub mod volume_limits;
mod words;

#[cfg(test)]
mod tests;

pub use cluster_view::ClusterView;
pub use model::Why;
pub use subject::{Other, Subject};

/// Explains the state of `subject` in the view `world`.
pub fn explain(world: &dyn ClusterView, subject: &Subject) -> Why {
    let mut why = Why::about(subject.reference(), subject.meta());
    if subject.meta().deletion_timestamp.is_some() {
        terminating::explain(world, subject, &mut why);
    } else {
        match subject {
            Subject::Claim(object) => claim::explain(world, object, &mut why),
            Subject::Volume(object) => volume::explain(world, object, &mut why),
            Subject::Pod(object) => pod::explain(world, object, &mut why),
            Subject::Node(object) => node::explain(world, object, &mut why),
            Subject::Attachment(object) => attachment::explain(world, object, &mut why),
            Subject::Other(object) => other::explain(world, object, &mut why),
        }
    }
    sync_failing::explain(world, subject, &mut why);
    why.finish();
    why
}
