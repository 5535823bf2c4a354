//! What is left to do when a pod has been given a node: its volumes and claims are written, its claims have to be bound,
//! then the pod is told its node. Until then all of it is only believed here, and undone when it fails.
//!
//! The writes and what they leave: a volume that points to its claim (the binder finishes it, and the next attempt finds
//! it first), a claim with its node (the provisioner finishes it, or takes the node away again and the pod gets another one).
//! So any prefix of them is a state from which the controllers finish (I6).

mod wait;
mod work;
mod writes;

pub use work::{BindError, Work};
