//! Finds the kind that a word names, and the path of its objects. Names and short names come from discovery, as
//! in kubectl. Pure.

use serde_json::Value;

/// orlop's API group.
const OWN: &str = "orlop.dev";
/// The path of orlop's API group.
pub(super) const GROUP: &str = "/apis/orlop.dev/v1";

/// Additional short names for kinds that have none. A kind that the server serves under such a name takes
/// precedence.
const OURS: [(&str, &str); 3] = [
    ("attachment", "volumeattachments.storage.k8s.io"),
    ("attachments", "volumeattachments.storage.k8s.io"),
    ("va", "volumeattachments.storage.k8s.io"),
];

/// A kind that the server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceKind {
    group: String,
    version: String,
    /// Plural.
    pub(super) resource: String,
    singular: String,
    kind: String,
    short_names: Vec<String>,
    is_namespaced: bool,
}

/// The path parameters of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) kind: ResourceKind,
    /// `None` for cluster-scoped kinds.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The server has no such kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KindError {
    #[error(
        "the server has no kind {asked:?}; did you mean {nearest:?}? (`kubectl api-resources` lists all)"
    )]
    Unknown { asked: String, nearest: String },
    #[error("the server has no kind {asked:?} (`kubectl api-resources` lists all)")]
    Nothing { asked: String },
    #[error("{asked:?} matches several kinds: specify one")]
    Several { asked: String },
}

/// The kinds in a document of aggregated discovery, the preferred version of each group first.
pub(super) fn read(discovery: &Value) -> Vec<ResourceKind> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let many = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut kinds = Vec::new();
    // orlop's own group has paths but no objects.
    for group in many(&discovery["items"]).into_iter().filter(|group| group["metadata"]["name"] != OWN) {
        for version in many(&group["versions"]) {
            for resource in many(&version["resources"]) {
                kinds.push(ResourceKind {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    resource: text(&resource["resource"]),
                    singular: text(&resource["singularResource"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    short_names: many(&resource["shortNames"]).iter().map(text).collect(),
                    is_namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
    kinds
}

/// Whether the server has orlop's API group.
pub(super) fn has_insight(discovery: &Value) -> bool {
    let groups = discovery["items"].as_array();
    groups.is_some_and(|groups| groups.iter().any(|group| group["metadata"]["name"] == OWN))
}

/// Finds the kind that a word names: `RESOURCE`, `RESOURCE.GROUP` or `RESOURCE.VERSION.GROUP`, where RESOURCE is
/// the plural, the singular, the kind or a short name. If several groups match, the first one is used, as in
/// kubectl.
pub(super) fn find<'a>(kinds: &'a [ResourceKind], asked: &str) -> Result<&'a ResourceKind, KindError> {
    let word = asked.to_ascii_lowercase();
    if word.is_empty() {
        return Err(KindError::Nothing { asked: word });
    }
    if word.contains(',') {
        return Err(KindError::Several { asked: asked.to_owned() });
    }
    if let Some(kind) = look_up(kinds, &word) {
        return Ok(kind);
    }
    let ours = OURS.iter().find(|(ours, _)| *ours == word);
    if let Some(kind) = ours.and_then(|(_, full)| look_up(kinds, full)) {
        return Ok(kind);
    }
    let asked = asked.to_owned();
    match nearest(kinds, &word) {
        Some(nearest) => Err(KindError::Unknown { asked, nearest }),
        None => Err(KindError::Nothing { asked }),
    }
}

/// Matches plural names first, then short names, then singular names and kinds: kubectl's order.
fn look_up<'a>(kinds: &'a [ResourceKind], word: &str) -> Option<&'a ResourceKind> {
    type Names = fn(&ResourceKind, &str) -> bool;
    let orders: [Names; 4] = [
        |kind, name| kind.resource == name,
        |kind, name| kind.short_names.iter().any(|short| short == name),
        |kind, name| kind.singular == name,
        |kind, name| kind.kind.eq_ignore_ascii_case(name),
    ];
    orders
        .iter()
        .find_map(|is_named| kinds.iter().find(|kind| kind.is_placed(word, |name| is_named(kind, name))))
}

/// A name with the same prefix.
fn nearest(kinds: &[ResourceKind], word: &str) -> Option<String> {
    let alike = |name: &str| name.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
    let names =
        kinds.iter().flat_map(|kind| [&kind.resource, &kind.singular].into_iter().chain(&kind.short_names));
    let best = names
        .map(|name| (alike(name), name))
        .max_by_key(|(alike, name)| (*alike, usize::MAX - name.len()))?;
    (best.0 >= 2).then(|| best.1.clone())
}

impl ResourceKind {
    /// Whether a word is one of this kind's names, alone, with the group, or with version and group.
    fn is_placed(&self, word: &str, is_named: impl Fn(&str) -> bool) -> bool {
        if is_named(word) {
            return true;
        }
        let Some((name, place)) = word.split_once('.').filter(|(name, _)| !name.is_empty()) else {
            return false;
        };
        let is_here = place == self.group
            || place
                .split_once('.')
                .is_some_and(|(version, group)| version == self.version && group == self.group);
        is_here && is_named(name)
    }

    /// Whether the objects have a namespace.
    pub(super) fn is_namespaced(&self) -> bool {
        self.is_namespaced
    }

    /// The path of all objects, or of one object.
    pub(super) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace.filter(|_| self.is_namespaced) {
            path = format!("{path}/namespaces/{}", escaped(namespace));
        }
        path = format!("{path}/{}", self.resource);
        match name {
            Some(name) => format!("{path}/{}", escaped(name)),
            None => path,
        }
    }
}

impl Object {
    /// An object of this kind. The namespace of a cluster-scoped kind is ignored, as in kubectl.
    pub(super) fn new(kind: &ResourceKind, namespace: &str, name: &str) -> Self {
        let namespace = kind.is_namespaced.then(|| namespace.to_owned());
        Object { kind: kind.clone(), namespace, name: name.to_owned() }
    }

    /// The path of a subresource in orlop's API group.
    pub(super) fn insight(&self, tail: &str) -> String {
        let namespace =
            self.namespace.as_ref().map_or_else(String::new, |name| format!("/namespaces/{}", escaped(name)));
        let resource = match self.kind.group.as_str() {
            "" => self.kind.resource.clone(),
            group => format!("{}.{group}", self.kind.resource),
        };
        format!("{GROUP}{namespace}/{resource}/{}/{tail}", escaped(&self.name))
    }

    /// The short word for the kind in messages. Most short names are not words ("no" is a node).
    fn word(&self) -> &str {
        let kind = &self.kind;
        let short = kind.short_names.iter().find(|short| matches!(short.as_str(), "pv" | "pvc"));
        let names = [short, Some(&kind.singular), Some(&kind.resource)];
        names.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or(&kind.kind)
    }

    /// The object as a command argument: `pvc/data -n default`.
    pub(super) fn as_argument(&self) -> String {
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!(" -n {name}"));
        format!("{}/{}{namespace}", self.word(), self.name)
    }

    /// The object in messages: `pvc default/data`.
    pub(super) fn shown(&self) -> String {
        let word = self.word();
        match &self.namespace {
            Some(namespace) => format!("{word} {namespace}/{}", self.name),
            None => format!("{word} {}", self.name),
        }
    }
}

/// Escapes text for a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// The discovery document of a server with some kinds.
    pub(crate) fn discovery() -> Value {
        let resource = |name: &str, singular: &str, kind: &str, scope: &str, short: &[&str]| {
            json!({"resource": name, "singularResource": singular, "responseKind": {"kind": kind}, "scope": scope,
                "shortNames": short, "verbs": ["get"]})
        };
        json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
                resource("persistentvolumes", "persistentvolume", "PersistentVolume", "Cluster", &["pv"]),
                resource("persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", "Namespaced", &["pvc"]),
                resource("events", "event", "Event", "Namespaced", &["ev"]),
            ]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [
                resource("events", "event", "Event", "Namespaced", &["ev"]),
            ]}]},
            {"metadata": {"name": "storage.k8s.io"}, "versions": [{"version": "v1", "resources": [
                resource("volumeattachments", "volumeattachment", "VolumeAttachment", "Cluster", &[]),
            ]}]},
            {"metadata": {"name": "example.com"}, "versions": [
                {"version": "v2", "resources": [resource("pvs", "pv", "Pv", "Namespaced", &["volumeattachment"])]},
                {"version": "v1", "resources": [resource("pvs", "pv", "Pv", "Namespaced", &[])]},
            ]},
            {"metadata": {"name": "orlop.dev"}, "versions": [{"version": "v1", "resources": [
                resource("stream", "", "Stream", "Cluster", &[]),
            ]}]},
        ]})
    }

    #[test]
    fn kinds_are_found_by_any_name() {
        let kinds = read(&discovery());
        for (word, wanted) in [
            ("persistentvolumes", "/api/v1/persistentvolumes"),
            ("PersistentVolume", "/api/v1/persistentvolumes"),
            ("pvc", "/api/v1/namespaces/ns/persistentvolumeclaims"),
            ("events", "/api/v1/namespaces/ns/events"),
            ("ev.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/ns/events"),
            ("attachment", "/apis/storage.k8s.io/v1/volumeattachments"),
            ("VA", "/apis/storage.k8s.io/v1/volumeattachments"),
            ("volumeattachments.storage.k8s.io", "/apis/storage.k8s.io/v1/volumeattachments"),
            // Plural names come before short names, short before singular; additional short names come last.
            ("pvs", "/apis/example.com/v2/namespaces/ns/pvs"),
            ("pv", "/api/v1/persistentvolumes"),
            ("volumeattachment", "/apis/example.com/v2/namespaces/ns/pvs"),
            ("pvs.example.com", "/apis/example.com/v2/namespaces/ns/pvs"),
            ("pvs.v1.example.com", "/apis/example.com/v1/namespaces/ns/pvs"),
        ] {
            assert_eq!(find(&kinds, word).unwrap().path(Some("ns"), None), wanted, "{word}");
        }
        let unknown = KindError::Unknown { asked: "pvx".into(), nearest: "pv".into() };
        assert_eq!(find(&kinds, "pvx"), Err(unknown));
        assert_eq!(find(&kinds, "xyz"), Err(KindError::Nothing { asked: "xyz".into() }));
        for word in ["pods.storage.k8s.io", "", ".", "stream"] {
            assert!(find(&kinds, word).is_err(), "{word}");
        }
        assert!(has_insight(&discovery()) && !has_insight(&json!({"items": []})));
    }

    #[test]
    fn paths_have_group_and_namespace() {
        let kinds = read(&discovery());
        let object = |word, name| Object::new(find(&kinds, word).unwrap(), "ns", name);
        let claim = object("pvc", "data");
        assert_eq!(claim.insight("why"), "/apis/orlop.dev/v1/namespaces/ns/persistentvolumeclaims/data/why");
        assert_eq!(claim.shown(), "pvc ns/data");
        let attachment = object("attachment", "a:b/c?d");
        let path = "/apis/orlop.dev/v1/volumeattachments.storage.k8s.io/a:b%2Fc%3Fd/release";
        assert_eq!(attachment.insight("release"), path);
        assert_eq!(attachment.shown(), "volumeattachment a:b/c?d");
        assert_eq!(claim.kind.path(None, None), "/api/v1/persistentvolumeclaims");
        assert_eq!(claim.kind.path(Some("ns"), Some("x")), "/api/v1/namespaces/ns/persistentvolumeclaims/x");
    }
}
