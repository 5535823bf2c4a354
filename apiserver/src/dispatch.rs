//! Parses request paths (upstream: RequestInfo).

use percent_encoding::percent_decode_str;

use crate::custom::Kinds;
use crate::registry::{self, Kind, KindRef, Scope};

/// The target of a path below `/api` or `/apis`.
pub(crate) enum PathTarget {
    /// A resource: a collection, an item, or a subresource of an item.
    Resource(Resource),
    /// `POST /api/v1/namespaces/NS/bindings`, the old form of `pods/NAME/binding`.
    Bindings {
        /// The namespace.
        namespace: String,
    },
    /// A path with an empty namespace.
    NoNamespace,
    /// A name that no object can have: `.` or `..`.
    BadName(String),
    /// A group that is not served: upstream answers in plain text.
    UnknownGroup,
    /// A version, resource or path form that is not served: upstream answers with a Status.
    UnknownResource,
    /// A subresource that a custom kind does not have: upstream looks for it in the object.
    UnknownSubresource(Resource),
}

/// A served resource.
#[derive(Clone)]
pub(crate) struct Resource {
    pub(crate) kind: KindRef,
    /// `""` for cluster-scoped kinds and for collections over all namespaces.
    pub(crate) namespace: String,
    /// `""` for collections.
    pub(crate) name: String,
    /// `""` for the main resource.
    pub(crate) subresource: String,
    /// The old watch form, `/api/v1/watch/...`.
    pub(crate) watch_path: bool,
}

impl Resource {
    /// A collection of a namespaced kind over all namespaces.
    pub(crate) fn is_all_namespaces(&self) -> bool {
        self.kind.scope() == Scope::Namespaced && self.namespace.is_empty()
    }

    /// Returns the store key of the object with that name.
    pub(crate) fn key(&self, name: &str) -> String {
        key(&*self.kind, &self.namespace, name)
    }

    /// Returns the store prefix of the collection.
    pub(crate) fn prefix(&self) -> String {
        prefix(&*self.kind, &self.namespace)
    }
}

/// Returns the store key of an object.
pub(crate) fn key(kind: &dyn Kind, namespace: &str, name: &str) -> String {
    format!("{}{name}", prefix(kind, namespace))
}

/// Returns the store prefix of the objects in a namespace or, with `""`, in all namespaces.
pub(crate) fn prefix(kind: &dyn Kind, namespace: &str) -> String {
    match namespace {
        "" => kind.storage_prefix().to_owned(),
        namespace => format!("{}{namespace}/", kind.storage_prefix()),
    }
}

/// Splits a store key of a kind into namespace and name.
pub(crate) fn key_names<'k>(kind: &dyn Kind, key: &'k str) -> (&'k str, &'k str) {
    let rest = key.strip_prefix(kind.storage_prefix()).unwrap_or(key);
    match kind.scope() {
        Scope::Cluster => ("", rest),
        Scope::Namespaced => rest.split_once('/').unwrap_or(("", rest)),
    }
}

/// Parses a path. The path is decoded before it is split, so an encoded slash separates segments.
pub(crate) fn target(kinds: &Kinds, path: &str) -> PathTarget {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut parts: Vec<&str> = decoded.trim_start_matches('/').split('/').collect();
    if parts.last() == Some(&"") {
        parts.pop();
    }
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return PathTarget::UnknownGroup,
    };
    let is_given = registry::KINDS.iter().any(|kind| kind.names().group == group);
    if !is_given && !kinds.has_group(group) {
        return PathTarget::UnknownGroup;
    }
    if let ["namespaces", "", _, ..] = rest {
        return PathTarget::NoNamespace;
    }
    if rest.iter().any(|part| part.is_empty()) {
        return PathTarget::UnknownResource;
    }
    if let Some(name) = rest.iter().find(|part| matches!(**part, "." | "..")) {
        return PathTarget::BadName((*name).to_owned());
    }
    // Upstream leaves unknown resources of custom groups to the handler of unknown paths.
    let unknown = if is_given { PathTarget::UnknownResource } else { PathTarget::UnknownGroup };
    resource(kinds, group, version, rest).unwrap_or(unknown)
}

/// Returns the kind at a path. Built-in kinds take precedence.
fn kind_at(kinds: &Kinds, group: &str, version: &str, plural: &str) -> Option<KindRef> {
    let given = registry::by_resource(group, version, plural).map(KindRef::Builtin);
    given.or_else(|| kinds.by_resource(group, version, plural))
}

fn resource(kinds: &Kinds, group: &str, version: &str, rest: &[&str]) -> Option<PathTarget> {
    let (watch_path, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The segment after the name of a namespace is one of its subresources, or a resource in it.
        ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
            let kind = KindRef::Builtin(registry::by_resource(group, version, "namespaces")?);
            return item(kind, "", name, sub, watch_path);
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    if let ("", "v1", ["bindings"]) = (group, version, rest)
        && !namespace.is_empty()
        && !watch_path
    {
        return Some(PathTarget::Bindings { namespace: namespace.to_owned() });
    }
    let (plural, rest) = rest.split_first()?;
    let kind = kind_at(kinds, group, version, plural)?;
    let named = !rest.is_empty();
    match (kind.scope(), namespace.is_empty()) {
        (Scope::Namespaced, true) if named => return None,
        (Scope::Cluster, false) => return None,
        (Scope::Namespaced, _) | (Scope::Cluster, true) => {}
    }
    match rest {
        [] => item(kind, namespace, "", "", watch_path),
        [name] => item(kind, namespace, name, "", watch_path),
        [name, sub] => item(kind, namespace, name, sub, watch_path),
        // The rest of the path belongs to another server.
        [name, "proxy", ..] => item(kind, namespace, name, "proxy", watch_path),
        _ => None,
    }
}

fn item(
    kind: KindRef,
    namespace: &str,
    name: &str,
    subresource: &str,
    watch_path: bool,
) -> Option<PathTarget> {
    let is_known = subresource.is_empty() || has_subresource(&*kind, subresource);
    // Subresources have no old watch form.
    if !subresource.is_empty() && watch_path || !is_known && !kind.is_custom() {
        return None;
    }
    let resource = Resource {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watch_path,
    };
    Some(if is_known { PathTarget::Resource(resource) } else { PathTarget::UnknownSubresource(resource) })
}

fn has_subresource(kind: &dyn Kind, name: &str) -> bool {
    use crate::registry::StatusSubresource;
    if name == "status" {
        return kind.policy().status != StatusSubresource::None;
    }
    kind.subresources().iter().any(|sub| sub.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(path: &str) -> String {
        match target(&Kinds::default(), path) {
            PathTarget::Resource(r) => {
                format!("{} ns={} name={} watch={}", r.kind.names().plural, r.namespace, r.name, r.watch_path)
            }
            PathTarget::Bindings { namespace } => format!("bindings ns={namespace}"),
            PathTarget::NoNamespace => "no namespace".to_owned(),
            PathTarget::BadName(name) => format!("bad name {name}"),
            PathTarget::UnknownGroup => "unknown group".to_owned(),
            PathTarget::UnknownResource => "unknown resource".to_owned(),
            PathTarget::UnknownSubresource(_) => "unknown subresource".to_owned(),
        }
    }

    #[test]
    fn paths_resolve_to_their_targets() {
        for (path, expected) in [
            ("/api/v1/pods", "pods ns= name= watch=false"),
            ("/api/v1/pods/", "pods ns= name= watch=false"),
            ("/api/v1/pods/x", "unknown resource"),
            ("/api/v1/namespaces", "namespaces ns= name= watch=false"),
            ("/api/v1/namespaces/a", "namespaces ns= name=a watch=false"),
            ("/api/v1/namespaces/a/pods", "pods ns=a name= watch=false"),
            ("/api/v1/namespaces/a/pods/x", "pods ns=a name=x watch=false"),
            ("/api/v1/namespaces/a/nodes/x", "unknown resource"),
            ("/api/v1/namespaces/a/pods/x/nope", "unknown resource"),
            ("/api/v1/watch/namespaces/a/pods", "pods ns=a name= watch=true"),
            ("/api/v1/watch/nodes", "nodes ns= name= watch=true"),
            ("/api/v1/namespaces/a/bindings", "bindings ns=a"),
            ("/api/v1//namespaces/a/pods", "unknown resource"),
            ("/api/v1/namespaces//pods/a", "no namespace"),
            ("/api/v1/nodes/..", "bad name .."),
            ("/api/v1/nope", "unknown resource"),
            ("/api/v9/pods", "unknown resource"),
            ("/apis/nope/v1", "unknown group"),
            ("/apis/storage.k8s.io/v1/storageclasses/x", "storageclasses ns= name=x watch=false"),
            ("/api/v1/nodes/a%2Fb", "unknown resource"),
        ] {
            assert_eq!(show(path), expected, "{path}");
        }
    }
}
