//! Binds a pod after a node was selected: its volumes and claims are written, its claims have to be bound, then the pod's
//! node is written. Until then the result is only assumed, and undone when a step fails.
//!
//! The states between the writes: a volume that refers to its claim (the binder completes it, and the next attempt selects it
//! first), a claim with its node (the provisioner completes it, or removes the node and the pod gets another one). So from any
//! prefix of the writes the controllers can finish (I6).

mod wait;
mod work;
mod writes;

pub use work::{BindError, Work};
