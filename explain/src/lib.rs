//! Why is it as it is: the answers of `orlop why`, of the page and of `GET .../why` (docs/insight.md, codes in docs/why.md).
//!
//! The engine is pure. It sees a [`ClusterView`] (objects by kind and key) and no client, and it asks the predicates by which the
//! controllers decide, so that what a person is told and what is done cannot disagree. One file per kind of question:
//! [`claim`], [`volume`], [`pod`], [`node`], [`attachment`], [`other`], and [`terminating`] for what shall go and is still here. The
//! volumes that a claim could have are judged in [`candidates`] over the small [`facts`] of all of them, and what would make
//! one fit is in [`fix`]. [`service`] answers from the informers of a process, [`table`] is a world made of JSON.

pub mod attachment;
pub mod candidates;
pub mod claim;
pub mod cluster_view;
pub mod facts;
pub mod fix;
pub mod model;
pub mod node;
pub mod other;
pub mod places;
pub mod pod;
mod provisioning;
mod scheduling;
pub mod service;
pub mod subject;
pub mod table;
pub mod terminating;
pub mod volume;
mod words;

#[cfg(test)]
mod tests;

pub use cluster_view::ClusterView;
pub use model::Why;
pub use subject::{Other, Subject};

/// Explains the state of `subject` in `world`.
pub fn explain(world: &dyn ClusterView, subject: &Subject) -> Why {
    let mut why = Why::about(subject);
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
    why.finish();
    why
}
