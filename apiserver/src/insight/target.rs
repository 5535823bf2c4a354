//! Resolves `[namespaces/NS/]RESOURCE/NAME` to an object, which may or may not exist.

use serde_json::{Map, Value};

use super::key_resolver::{kinds, resource_name};
use super::{API_VERSION, no_such_path};
use crate::dispatch;
use crate::registry::{KindRef, Scope};
use crate::state::Inner;
use orlop_api::status::ApiError;

/// An object by its name.
#[derive(Clone, Debug)]
pub(crate) struct ObjectTarget {
    /// The kind.
    pub(crate) kind: KindRef,
    /// `None` for cluster-scoped kinds.
    pub(crate) namespace: Option<String>,
    /// The name.
    pub(crate) name: String,
}

/// Whether a text is a valid path segment as upstream defines it (apimachinery, api/validation/path:
/// IsValidPathSegmentName).
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}

impl ObjectTarget {
    /// Parses the segments of a path.
    ///
    /// # Errors
    /// 404 for a resource that is not served; 400 if the namespace is missing or not allowed, or if the bare name of
    /// the resource is ambiguous.
    pub(crate) fn parse(server: &Inner, path: &[&str]) -> Result<Self, ApiError> {
        let (namespace, resource, name) = match path {
            ["namespaces", namespace, resource, name] => (Some(*namespace), *resource, *name),
            [resource, name] => (None, *resource, *name),
            _ => {
                let given = path.join("/");
                return Err(no_such_path(format!(
                    "{given:?} names no object in {API_VERSION}: the path must be [namespaces/NAMESPACE/]RESOURCE/NAME"
                )));
            }
        };
        if !is_name(name) || namespace.is_some_and(|namespace| !is_name(namespace)) {
            return Err(ApiError::bad_request(
                "names of objects and namespaces cannot be empty, . or .., or hold / or %",
            ));
        }
        let kind = find(&kinds(&server.kinds.now()), resource)?;
        match (kind.scope(), namespace) {
            (Scope::Namespaced, None) => Err(ApiError::bad_request(format!(
                "{resource} are namespaced: the path must be namespaces/NAMESPACE/{resource}/{name}"
            ))),
            (Scope::Cluster, Some(_)) => Err(ApiError::bad_request(format!(
                "{resource} are cluster-scoped: the path must be {resource}/{name}"
            ))),
            (Scope::Namespaced, Some(_)) | (Scope::Cluster, None) => {
                Ok(ObjectTarget { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() })
            }
        }
    }

    /// The key in the store.
    pub(crate) fn key(&self) -> String {
        dispatch::key(&*self.kind, self.namespace.as_deref().unwrap_or_default(), &self.name)
    }

    /// The object reference in responses, without a UID.
    pub(crate) fn reference(&self) -> Value {
        let names = self.kind.names();
        let mut map = Map::new();
        map.insert("kind".to_owned(), names.kind.into());
        map.insert("apiVersion".to_owned(), names.api_version().into());
        map.insert("resource".to_owned(), resource_name(&self.kind).into());
        if let Some(namespace) = &self.namespace {
            map.insert("namespace".to_owned(), namespace.clone().into());
        }
        map.insert("name".to_owned(), self.name.clone().into());
        Value::Object(map)
    }

    /// The object reference with the UID of one of the objects that had this name.
    pub(crate) fn reference_with(&self, uid: &str) -> Value {
        let mut reference = self.reference();
        if !uid.is_empty() {
            reference["uid"] = uid.into();
        }
        reference
    }
}

/// The kind among `kinds` of a resource: `pods`, `volumeattachments.storage.k8s.io`, or an unambiguous bare name. Singular and
/// short names are accepted too.
///
/// # Errors
/// 404 if there is none, 400 if a bare name is ambiguous; both list the alternatives.
pub(super) fn find(kinds: &[KindRef], text: &str) -> Result<KindRef, ApiError> {
    if let Some((plural, group)) = text.split_once('.') {
        let found = kinds.iter().find(|kind| kind.names().group == group && kind.names().plural == plural);
        return found.cloned().ok_or_else(|| unknown(text));
    }
    let by_plural = |kind: &KindRef| kind.names().plural == text;
    let by_other = |kind: &KindRef| kind.names().singular == text || kind.names().short.contains(&text);
    let mut found: Vec<KindRef> = kinds.iter().filter(|kind| by_plural(kind)).cloned().collect();
    if found.is_empty() {
        found = kinds.iter().filter(|kind| by_other(kind)).cloned().collect();
    }
    // Bare names refer to the core group first.
    if let Some(core) = found.iter().find(|kind| kind.names().group.is_empty()) {
        return Ok(core.clone());
    }
    match found.as_slice() {
        [] => Err(unknown(text)),
        [one] => Ok(one.clone()),
        several => {
            let names: Vec<String> = several.iter().map(resource_name).collect();
            Err(ApiError::bad_request(format!("{text:?} stands for several resources: {}", names.join(", "))))
        }
    }
}

fn unknown(text: &str) -> ApiError {
    no_such_path(format!(
        "there is no resource {text:?}: use a plural name with its group, such as persistentvolumes or \
         volumeattachments.storage.k8s.io"
    ))
}
