//! The future type of the [`Kv`](crate::Kv) trait.

use std::future::Future;
use std::pin::Pin;

/// A boxed future, so that backends can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
