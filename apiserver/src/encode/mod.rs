//! HTTP responses with objects: bodies, and records of the store. The encodings are in `orlop-codec`.

pub(crate) mod answer;
pub(crate) mod list;
pub(crate) mod stored;

pub(crate) use orlop_codec::encode::{negotiate, pretty, protobuf, shape, table};

/// Bodies above this size are compressed, bytes.
pub(crate) const COMPRESS_ABOVE: usize = 128 * 1024;

/// Marks a response that is long although its length is not known yet.
#[derive(Clone, Copy)]
pub(crate) struct LongBody;
