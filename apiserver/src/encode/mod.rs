//! HTTP responses with objects: bodies, and records of the store. The encodings are in `orlop-codec`.

use std::sync::Arc;

use orlop_store::ReservedMemory;

pub(crate) mod answer;
pub(crate) mod head;
pub(crate) mod list;
pub(crate) mod stored;
pub(crate) mod undecoded;

pub(crate) use orlop_codec::encode::{negotiate, pretty, protobuf, shape, table};

/// Bodies above this size are compressed, bytes.
pub(crate) const COMPRESS_ABOVE: usize = 128 * 1024;

/// The memory of a response, in its extensions. It is held until the response has been sent.
#[derive(Clone)]
pub(crate) struct HeldMemory(
    #[allow(dead_code, reason = "dropping it returns the memory")] pub(crate) Arc<ReservedMemory>,
);

/// The memory of the largest pieces of a response, in its extensions. It is held until the client has read all pieces, or until the
/// client turns out not to read.
#[derive(Clone)]
pub(crate) struct PieceMemory(
    #[allow(dead_code, reason = "dropping it returns the memory")] pub(crate) Arc<ReservedMemory>,
);

/// Marks a response that is long although its length is not known yet: it is compressed for clients that accept that.
#[derive(Clone, Copy)]
pub(crate) struct LongBody;

/// Marks a response whose pieces take long to compute: each one may decode whole objects.
#[derive(Clone, Copy)]
pub(crate) struct ComputedBody;
