//! Whether a request is cheap enough for the threads that serve connections.

use orlop_api::registry::admission_registration::GROUP;
use orlop_codec::decode::estimate_weight;
use orlop_codec::patch::{self, PatchKind};

use super::plan::Verb;
use crate::registry::{self, Kind, Scope};
use crate::verbs::request::Request;
use crate::verbs::{connect, filter};
use crate::{admission, dispatch};

/// The most bytes of a body, of an object, or of the objects of a collection that a light request processes. Decoding
/// 64 KiB of JSON takes about a millisecond.
const LIGHT_BYTES: usize = 64 << 10;
/// The most bytes that a light request copies without reading them.
const LIGHT_COPY: usize = 512 << 10;
/// The most bytes of selectors that a light request parses.
const LIGHT_SELECTORS: usize = 4 << 10;
/// The most objects of a collection that a light request visits.
const LIGHT_OBJECTS: usize = 500;

/// Whether the cost of a request is bounded by about a millisecond, whatever its client sends. Others run on the threads of
/// [`crate::limits::compute`].
pub(super) fn is_light(verb: Verb, request: &Request) -> bool {
    let names = request.names();
    // Roles are compared with the rights of their author, and reviews look rights up for many groups.
    let compares = matches!(names.group, "rbac.authorization.k8s.io" | "authorization.k8s.io");
    // The schema of a definition is compiled, and its parts may multiply.
    let defines = names.plural == "customresourcedefinitions";
    // Expressions are compiled. The objects of admission can always be deleted.
    let configures = names.group == "admissionregistration.k8s.io" && verb != Verb::Delete;
    let selects_devices = names.group == "resource.k8s.io" && names.plural != "resourceslices";
    let writes = verb.is_mutating() || verb == Verb::Connect;
    let computes = verb.is_mutating() && (compares || defines || configures || selects_devices)
        || writes && !admits_nothing(request);
    if request.body.len() > LIGHT_BYTES || computes || !admission_is_light(verb, request) {
        return false;
    }
    if copied_weight(verb, request) > 0 {
        return false;
    }
    match verb {
        Verb::RequestToken => true,
        // A watch only opens a stream here.
        Verb::Watch => filter::text_len(&request.query) <= LIGHT_SELECTORS,
        // A kubelet computes the response, but the pod and its node are decoded here.
        Verb::Connect => connect::decoded_bytes(request) <= LIGHT_BYTES,
        Verb::List | Verb::DeleteCollection => {
            filter::text_len(&request.query) <= LIGHT_SELECTORS && collection_is_light(request)
        }
        Verb::Get if request.kind().is_custom() => false,
        Verb::Get => copies_stored_form(request) || object_size(request) <= LIGHT_COPY,
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

/// Whether no policy and no webhook applies to a write: policies evaluate expressions on the object, and webhooks patch it. Then the
/// request retains those that were examined, so that admission compiles no new ones on this thread. Leases wait for other requests
/// only if a policy or webhook applies to them, or has changed and is not compiled yet.
fn admits_nothing(request: &Request) -> bool {
    let group = request.names().group;
    if group == GROUP {
        return true;
    }
    let server = &request.server;
    let (Some(policies), Some(webhooks)) = (server.policies.known(), server.webhooks.known()) else {
        return false;
    };
    let admits = match group {
        "coordination.k8s.io" => policies.covers(group) || webhooks.covers(group),
        _ => policies.is_any() || webhooks.is_any(),
    };
    if !admits {
        // Only this function sets it, once for each request.
        let _ = request.admission.set((policies, webhooks));
    }
    !admits
}

/// The memory of a byte of JSON after decoding, bytes: small members of an object need the most.
const DECODED: u64 = 12;
/// The memory for one unit of the weight of a document, bytes. A write decodes an object to JSON and to the types of its kind,
/// with all absent fields; a pod with 12,000 small volumes needs about 150 MB.
const DECODED_VALUE: u64 = 640;

/// The memory to reserve for a request that is not light, bytes. A list reserves its own.
pub(super) fn memory(verb: Verb, request: &Request) -> u64 {
    let of_write =
        |document: &[u8]| document.len() as u64 * DECODED + estimate_weight(document) * DECODED_VALUE;
    let limit = request.server.limits.memory.limit();
    match verb {
        Verb::Connect => {
            let body = request.body.len() as u64 * DECODED;
            reservation(body, connect::decoded_bytes(request) as u64 * DECODED, limit)
        }
        // A watch reserves the memory of its selectors itself, as long as it is open.
        Verb::Watch | Verb::RequestToken => of_write(&request.body),
        Verb::List | Verb::DeleteCollection => of_write(&request.body) + filter::memory(&request.query),
        Verb::Get => reservation(0, stored(request, |object| object.len() as u64 * DECODED), limit),
        Verb::Create
        | Verb::Update(_)
        | Verb::Patch(_)
        | Verb::Bind
        | Verb::Finalize
        | Verb::Evict
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale => {
            let copied = copied_weight(verb, request) * DECODED_VALUE;
            reservation(of_write(&request.body), stored(request, of_write) + copied, limit)
        }
        // A delete never exceeds the memory limit, so that every stored object can be deleted.
        Verb::Delete => {
            let needed = of_write(&request.body) + stored(request, of_write);
            limit.map_or(needed, |limit| needed.min(limit / 2))
        }
    }
}

/// The memory to reserve for a request whose body needs `body` bytes and whose stored object needs `object` bytes (0 without an object),
/// under `--memory-limit`. Pure.
///
/// A body that exceeds the limit and creates an object, or makes one larger by more than an eighth of the limit, gets a reservation above
/// the limit, which always fails. The stored object never causes such a failure: if the body and the object together exceed three quarters
/// of the limit, the request reserves only these three quarters, or the need of its body if that is more. Only one such request runs at a
/// time, while all others use at most the rest of the limit. Therefore at most one stored object exceeds the limit, however many clients send such requests. The last quarter stays free for
/// small requests, because on a busy server the whole limit is never free.
///
/// It would not be enough to reserve more for a create, and so to refuse objects whose update would not fit. An object grows after its
/// creation, by managed fields, defaults and the writes of controllers, and the next start of the server can have a smaller limit. Each of
/// these would make the object impossible to update.
fn reservation(body: u64, object: u64, limit: Option<u64>) -> u64 {
    let needed = body.saturating_add(object);
    let Some(limit) = limit else { return needed };
    let alone = limit - limit / 4;
    // A client that reads an object, changes it and writes it back sends the object as the body.
    let is_written_back = object > 0 && body <= object.saturating_add(limit / 8);
    let of_body = if is_written_back { body.min(alone) } else { body };
    needed.min(of_body.max(alone))
}

/// The weight of the values that a patch may copy.
fn copied_weight(verb: Verb, request: &Request) -> u64 {
    if !matches!(verb, Verb::Patch(_) | Verb::PatchScale) {
        return 0;
    }
    let kind = PatchKind::from_content_type(request.content_type.as_deref().unwrap_or_default());
    kind.map_or(0, |kind| patch::copied_weight(kind, &request.body))
}

/// Whether the admission of a write reads other objects: quotas, limit ranges, classes or budgets. Updates to most kinds, such
/// as Leases, read none.
fn reads_others(verb: Verb, kind: &dyn Kind) -> bool {
    match verb {
        Verb::Create | Verb::Bind | Verb::Evict | Verb::Patch(_) => true,
        Verb::Update(_) => matches!(kind.names().plural, "pods" | "persistentvolumeclaims" | "services"),
        Verb::Get
        | Verb::List
        | Verb::Watch
        | Verb::Delete
        | Verb::DeleteCollection
        | Verb::Finalize
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale
        | Verb::Connect
        | Verb::RequestToken => false,
    }
}

/// Whether the objects are small which the admission of a write reads.
fn admission_is_light(verb: Verb, request: &Request) -> bool {
    let namespace = &request.resource.namespace;
    if namespace.is_empty() || !reads_others(verb, request.kind()) {
        return true;
    }
    let head = request.head();
    let budgets =
        (verb == Verb::Evict).then(|| registry::by_resource("policy", "v1", "poddisruptionbudgets"));
    let mut bytes = 0;
    for kind in admission::read_by(request.kind()).chain(budgets.flatten()) {
        let of = if kind.scope() == Scope::Namespaced { namespace } else { "" };
        for record in head.range(&dispatch::prefix(kind, of), None) {
            bytes += record.value.len();
            if bytes > LIGHT_BYTES {
                return false;
            }
        }
    }
    true
}

/// Whether the response of a GET is a copy of the stored bytes, which takes less than a millisecond for the largest object. The
/// check must be cheaper than a lookup of the object.
fn copies_stored_form(request: &Request) -> bool {
    !request.pretty && matches!(request.accept.as_deref(), None | Some("application/json" | "*/*"))
}

/// The size of the stored object that the request names, bytes.
fn object_size(request: &Request) -> usize {
    stored(request, <[u8]>::len)
}

/// Measures the stored object that the request names.
fn stored<T: Default>(request: &Request, measure: impl FnOnce(&[u8]) -> T) -> T {
    let key = request.resource.key(&request.resource.name);
    request.head().get(&key).map_or_else(T::default, |record| measure(&record.value))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::write::Part;

    #[test]
    fn most_updates_read_no_other_objects() {
        let kind = |group, plural| registry::by_resource(group, "v1", plural).expect("it is served");
        let (leases, pods) = (kind("coordination.k8s.io", "leases"), kind("", "pods"));
        for (verb, kind, want) in [
            (Verb::Update(Part::Main), leases, false),
            (Verb::Create, leases, true),
            (Verb::Update(Part::Named("resize")), pods, true),
            (Verb::Delete, pods, false),
            (Verb::Evict, pods, true),
        ] {
            assert_eq!(reads_others(verb, kind), want, "{verb:?} {}", kind.names().plural);
        }
    }

    /// An object that can be created can be read, updated, patched and deleted, however much larger its stored form is. All others are
    /// refused (413) if their body alone exceeds the limit.
    #[test]
    fn stored_object_never_makes_a_request_exceed_the_limit() {
        const LIMIT: u64 = 64 << 20;
        const ALONE: u64 = 48 << 20;
        const MIB: u64 = 1 << 20;
        // case, body, stored object, reservation
        for (case, body, object, want) in [
            ("1 create", 10 * MIB, 0, 10 * MIB),
            ("2 large create", 60 * MIB, 0, 60 * MIB),
            ("3 too large create", 65 * MIB, 0, 65 * MIB),
            ("4 update within the limit", 10 * MIB, 12 * MIB, 22 * MIB),
            ("5 update of a large object with its first body", 60 * MIB, 60 * MIB, ALONE),
            ("6 the same in a longer encoding", 64 * MIB, 30 * MIB, 64 * MIB),
            ("7 update of an object that has grown", 10 * MIB, 90 * MIB, ALONE),
            ("8 object with managed fields, written back", 95 * MIB, 90 * MIB, ALONE),
            ("9 patch of such an object", 1, 90 * MIB, ALONE),
            ("10 read of such an object", 0, 90 * MIB, ALONE),
            ("11 small object that becomes too large", 65 * MIB, MIB, 65 * MIB),
            ("12 large object that becomes much larger", 99 * MIB, 90 * MIB, 99 * MIB),
            ("13 body of any size", u64::MAX, MIB, u64::MAX),
        ] {
            assert_eq!(reservation(body, object, Some(LIMIT)), want, "{case}");
            assert_eq!(reservation(body, object, None), body.saturating_add(object), "{case}: no limit");
        }
        for limit in [1, 7, MIB, LIMIT] {
            for (created, growth) in [(limit, 0), (limit, 1), (limit / 2, 2), (limit / 3, 30), (1, 1000)] {
                let object = created * growth;
                for body in [0, 1, created, object] {
                    let reserved = reservation(body, object, Some(limit));
                    assert!(reserved <= limit, "limit {limit}, body {body}, object {object}: {reserved}");
                }
            }
        }
    }
}
