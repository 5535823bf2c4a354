//! The future that the trait of the contract returns.

use std::future::Future;
use std::pin::Pin;

/// A boxed future, so that backends can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
