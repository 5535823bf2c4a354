//! The memory of documents after decoding.

use orlop_codec::decode::{Media, estimate_body_weight, estimate_weight};

/// The memory of a byte of JSON after decoding, bytes: small members of an object need the most.
pub(crate) const DECODED: u64 = 12;
/// The memory for one unit of the weight of a document, bytes. A write decodes an object to JSON and to the types of its kind,
/// with all absent fields; a pod with 12,000 small volumes needs about 150 MB.
pub(crate) const DECODED_VALUE: u64 = 640;

/// The memory that a JSON document needs, bytes.
pub(crate) fn json_memory(document: &[u8]) -> u64 {
    document.len() as u64 * DECODED + estimate_weight(document) * DECODED_VALUE
}

/// The memory for one unit of the weight of a document as a value, without the types of its kind, bytes. An object with one member needs
/// about 650 bytes, and its weight is 9.
const VALUE: u64 = 96;

/// The memory that a JSON document needs as a value, bytes.
pub(crate) fn value_memory(document: &[u8]) -> u64 {
    document.len() as u64 * DECODED + estimate_weight(document) * VALUE
}

/// The memory that the body of a request needs, bytes.
pub(crate) fn body_memory(media: Media, body: &[u8]) -> u64 {
    body.len() as u64 * DECODED + estimate_body_weight(media, body) * DECODED_VALUE
}
