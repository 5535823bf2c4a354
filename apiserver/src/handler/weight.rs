//! Whether a request is cheap enough for the threads that serve connections.

use super::plan::Verb;
use crate::verbs::request::Request;

/// The most bytes of a body, of an object, or of the objects of a collection that a light request processes. Decoding
/// 64 KiB of JSON takes about a millisecond.
const LIGHT_BYTES: usize = 64 << 10;
/// The most bytes that a light request copies without reading them.
const LIGHT_COPY: usize = 512 << 10;
/// The most objects of a collection that a light request visits.
const LIGHT_OBJECTS: usize = 500;

/// Whether the cost of a request is bounded by about a millisecond, whatever its client sends. Others run on the threads of
/// [`crate::limits::compute`].
pub(super) fn is_light(verb: Verb, request: &Request) -> bool {
    // The schema of a definition is compiled, and its parts may multiply.
    let defines = request.names().plural == "customresourcedefinitions" && verb.is_mutating();
    if request.body.len() > LIGHT_BYTES || defines {
        return false;
    }
    match verb {
        // A watch only opens a stream here; a kubelet computes the response of a connection.
        Verb::Watch | Verb::Connect | Verb::RequestToken => true,
        Verb::List | Verb::DeleteCollection => collection_is_light(request),
        Verb::Get => object_size(request) <= LIGHT_COPY && !request.kind().is_custom(),
        // The schema of a custom kind may contain rules that compute.
        Verb::Create => !request.kind().is_custom(),
        Verb::Update(_)
        | Verb::Patch(_)
        | Verb::Delete
        | Verb::Bind
        | Verb::Finalize
        | Verb::Evict
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale => object_size(request) <= LIGHT_BYTES && !request.kind().is_custom(),
    }
}

/// The memory of a byte of JSON after decoding, bytes: small members of an object need the most.
const DECODED: usize = 12;

/// The memory that a request needs which is not light, bytes. A list reserves its own.
pub(super) fn memory(verb: Verb, request: &Request) -> u64 {
    let object = match verb {
        Verb::Watch | Verb::Connect | Verb::RequestToken | Verb::List | Verb::DeleteCollection => 0,
        Verb::Get
        | Verb::Create
        | Verb::Update(_)
        | Verb::Patch(_)
        | Verb::Delete
        | Verb::Bind
        | Verb::Finalize
        | Verb::Evict
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale => object_size(request),
    };
    ((request.body.len() + object) * DECODED) as u64
}

/// The size of the stored object that the request names, bytes.
fn object_size(request: &Request) -> usize {
    let key = request.resource.key(&request.resource.name);
    request.head().get(&key).map_or(0, |record| record.value.len())
}

fn collection_is_light(request: &Request) -> bool {
    let (head, prefix) = (request.head(), request.resource.prefix());
    let (mut objects, mut bytes) = (0, 0);
    for record in head.range(&prefix, None) {
        objects += 1;
        bytes += record.value.len();
        if objects > LIGHT_OBJECTS || bytes > LIGHT_COPY {
            return false;
        }
    }
    // The columns of a custom kind may compute.
    !request.kind().is_custom()
}
