//! Whether a request is cheap enough for the threads that serve connections.

use orlop_api::registry::admission_registration::GROUP;
use orlop_auth::node::node_name;
use orlop_codec::decode::Media;
use orlop_codec::patch::{self, PatchKind};

use super::light::{self, LIGHT_BYTES};
use super::plan::Verb;
use crate::limits::decoded::{DECODED, DECODED_VALUE, body_memory, json_memory};
use crate::registry::{self, Kind, Scope};
use crate::verbs::request::Request;
use crate::verbs::{connect, filter};
use crate::{admission, dispatch};

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
    if computes || !light::body(media(verb, request), &request.body) || copied_weight(verb, request) > 0 {
        return false;
    }
    if !admission_is_light(verb, request) {
        return false;
    }
    match verb {
        // A watch only opens a stream here.
        Verb::Watch => filter::text_len(&request.query) <= LIGHT_SELECTORS,
        // A kubelet computes the response, but the pod and its node are decoded here.
        Verb::Connect => {
            let decoded = connect::decoded(request);
            light::documents(|| decoded.iter().map(|record| &*record.value))
        }
        Verb::List | Verb::DeleteCollection => {
            filter::text_len(&request.query) <= LIGHT_SELECTORS && collection_is_light(verb, request)
        }
        Verb::Get if request.kind().is_custom() => false,
        Verb::Get => copies_stored_form(request) || object_is_light(request),
        // The account is decoded; for a node, also its pod and the volumes of the pod.
        Verb::RequestToken => node_name(&request.user).is_none() && object_is_light(request),
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
        | Verb::PatchScale => !request.kind().is_custom() && object_is_light(request),
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
    let head = request.head();
    let (Some(policies), Some(webhooks)) = (server.policies.known(&head), server.webhooks.known(&head))
    else {
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

/// The memory to reserve for a request that is not light, bytes. A list reserves its own.
pub(super) fn memory(verb: Verb, request: &Request) -> u64 {
    let of_body = || body_memory(media(verb, request), &request.body);
    let limit = request.server.limits.memory.limit();
    match verb {
        Verb::Connect => {
            let body = request.body.len() as u64 * DECODED;
            let decoded = connect::decoded(request).iter().map(|record| json_memory(&record.value)).sum();
            reservation(body, decoded, limit)
        }
        // A watch reserves the memory of its selectors itself, as long as it is open.
        Verb::Watch => of_body(),
        Verb::List | Verb::DeleteCollection => of_body() + filter::memory(&request.query),
        Verb::Get => reservation(0, stored(request, json_memory), limit),
        Verb::Create
        | Verb::Update(_)
        | Verb::Patch(_)
        | Verb::Bind
        | Verb::Finalize
        | Verb::Evict
        | Verb::GetScale
        | Verb::UpdateScale
        | Verb::PatchScale
        | Verb::RequestToken => {
            let copied = copied_weight(verb, request) * DECODED_VALUE;
            reservation(of_body(), stored(request, json_memory) + copied, limit)
        }
        // A delete never exceeds the memory limit, so that every stored object can be deleted. Its body has options, whose values are few.
        Verb::Delete => {
            let needed = of_body() + stored(request, json_memory);
            limit.map_or(needed, |limit| needed.min(alone(limit)))
        }
    }
}

/// What a request with a large object reserves at most: only one such request runs at a time, and a quarter stays free for small ones.
fn alone(limit: u64) -> u64 {
    limit - limit / 4
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
    let alone = alone(limit);
    // A client that reads an object, changes it and writes it back sends the object as the body.
    let is_written_back = object > 0 && body <= object.saturating_add(limit / 8);
    let of_body = if is_written_back { body.min(alone) } else { body };
    needed.min(of_body.max(alone))
}

/// The format of the body of a request. The handlers reject unknown formats without reading the body.
fn media(verb: Verb, request: &Request) -> Media {
    match (verb, patch_kind(verb, request)) {
        (Verb::Patch(_) | Verb::PatchScale, Some(PatchKind::Apply)) => Media::Yaml,
        (Verb::Patch(_) | Verb::PatchScale, _) => Media::Json,
        (_, _) => request.media().unwrap_or(Media::Json),
    }
}

/// The format of a patch; `None` for other requests and for unknown formats.
fn patch_kind(verb: Verb, request: &Request) -> Option<PatchKind> {
    let is_patch = matches!(verb, Verb::Patch(_) | Verb::PatchScale);
    let header = request.content_type.as_deref().unwrap_or_default();
    is_patch.then(|| PatchKind::from_content_type(header)).flatten()
}

/// The weight of the values that a patch may copy.
fn copied_weight(verb: Verb, request: &Request) -> u64 {
    patch_kind(verb, request).map_or(0, |kind| patch::copied_weight(kind, &request.body))
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
    // A pod names one of them.
    let reads_account = matches!(verb, Verb::Create | Verb::Update(_) | Verb::Patch(_))
        && (request.names().group, request.names().plural) == ("", "pods")
        && matches!(request.resource.subresource.as_str(), "" | "ephemeralcontainers");
    let accounts = reads_account.then(|| registry::by_resource("", "v1", "serviceaccounts"));
    let others = budgets.into_iter().chain(accounts).flatten();
    let prefixes = admission::read_by(request.kind()).chain(others).map(|kind| {
        let of = if kind.scope() == Scope::Namespaced { namespace } else { "" };
        dispatch::prefix(kind, of)
    });
    let prefixes: Vec<String> = prefixes.collect();
    light::documents(|| {
        prefixes.iter().flat_map(|prefix| head.range(prefix, None)).map(|record| &*record.value)
    })
}

/// Whether the response of a read is a copy of the stored bytes, which takes less than a millisecond for the largest object. The
/// check must be cheaper than a lookup of the object.
fn copies_stored_form(request: &Request) -> bool {
    !request.pretty && matches!(request.accept.as_deref(), None | Some("application/json" | "*/*"))
}

/// Whether the stored object that the request names is cheap to decode.
fn object_is_light(request: &Request) -> bool {
    stored(request, |object| Some(light::documents(|| std::iter::once(object)))).unwrap_or(true)
}

/// Measures the stored object that the request names.
fn stored<T: Default>(request: &Request, measure: impl FnOnce(&[u8]) -> T) -> T {
    let key = request.resource.key(&request.resource.name);
    request.head().get(&key).map_or_else(T::default, |record| measure(&record.value))
}

/// Whether the objects of a collection are few, and cheap to copy or to decode.
fn collection_is_light(verb: Verb, request: &Request) -> bool {
    // The columns of a custom kind may compute.
    if request.kind().is_custom() {
        return false;
    }
    let (head, prefix) = (request.head(), request.resource.prefix());
    let (mut objects, mut bytes) = (0, 0);
    let most = if verb == Verb::List && copies_stored_form(request) { LIGHT_COPY } else { LIGHT_BYTES };
    for record in head.range(&prefix, None) {
        objects += 1;
        bytes += record.value.len();
        if objects > LIGHT_OBJECTS || bytes > most {
            return false;
        }
    }
    most == LIGHT_COPY || light::documents(|| head.range(&prefix, None).map(|record| &*record.value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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

    /// With `--memory-limit 256Mi`, the server accepts ordinary objects of 1 MB in protobuf, and reserves what many empty items need.
    #[test]
    fn memory_of_protobuf_depends_on_its_fields() {
        let address = |nth: usize| {
            let target = json!({"kind": "Pod", "namespace": "default", "name": format!("application-6d5f7b8c9-{nth:05}"),
                "uid": format!("0a1b2c3d-0000-4000-8000-{nth:012}")});
            json!({"ip": "10.244.100.200", "nodeName": "node-000.example", "targetRef": target})
        };
        let addresses: Vec<Value> = (0..6_000).map(address).collect();
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"},
            "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]});
        let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"a": "some text, and more of it\n".repeat(40_000)}});
        let volumes = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"volumes": vec![json!({}); 31_000]}});
        for (case, object, want) in [
            ("1 Endpoints", endpoints, (50..192)),
            ("2 a ConfigMap", text, (50..192)),
            ("3 empty volumes", volumes, (150..256)),
        ] {
            let body = crate::encode::protobuf::encode(&object).expect("it can be encoded");
            let mib = body_memory(Media::Protobuf, &body) >> 20;
            assert!(want.contains(&mib), "{case}: {mib} MiB for {} bytes", body.len());
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
