//! Whether a request is cheap enough for the threads that serve connections.

use orlop_api::registry::admission_registration::GROUP;
use orlop_codec::decode::estimate_weight;

use super::plan::Verb;
use crate::registry::{self, Kind, Scope};
use crate::verbs::connect;
use crate::verbs::request::Request;
use crate::{admission, dispatch};

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
    match verb {
        // A watch only opens a stream here.
        Verb::Watch | Verb::RequestToken => true,
        // A kubelet computes the response, but the pod and its node are decoded here.
        Verb::Connect => connect::decoded_bytes(request) <= LIGHT_BYTES,
        Verb::List | Verb::DeleteCollection => collection_is_light(request),
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

/// The memory that a request needs which is not light, bytes. A list reserves its own.
pub(super) fn memory(verb: Verb, request: &Request) -> u64 {
    let of_write =
        |document: &[u8]| document.len() as u64 * DECODED + estimate_weight(document) * DECODED_VALUE;
    let of_object = || stored(request, of_write);
    match verb {
        Verb::Connect => (request.body.len() + connect::decoded_bytes(request)) as u64 * DECODED,
        Verb::Watch | Verb::RequestToken | Verb::List | Verb::DeleteCollection => of_write(&request.body),
        Verb::Get => stored(request, |object| object.len() as u64 * DECODED),
        Verb::Create
        | Verb::Update(_)
        | Verb::Patch(_)
        | Verb::Bind
        | Verb::Finalize
        | Verb::Evict
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale => of_write(&request.body) + of_object(),
        // A delete never exceeds the memory limit, so that every stored object can be deleted.
        Verb::Delete => {
            let needed = of_write(&request.body) + of_object();
            request.server.limits.memory.limit().map_or(needed, |limit| needed.min(limit / 2))
        }
    }
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
}
