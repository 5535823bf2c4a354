//! Names of operations and tags, and the nouns in descriptions.

/// The parts of operation ids and tags that depend only on group and version.
pub(super) struct Naming {
    /// Group and version in operation ids, such as `CoreV1`.
    infix: String,
    /// The tag of the operations, such as `core_v1`.
    pub(super) tag: String,
}

impl Naming {
    pub(super) fn of(group: &str, version: &str) -> Self {
        let tag = format!("{}_{}", group_tag(group), identifier(version, false));
        Naming { infix: format!("{}{}", group_infix(group), identifier(version, true)), tag }
    }

    /// An operation id: `verb`, group and version, `rest`.
    pub(super) fn id(&self, verb: &str, rest: &str) -> String {
        format!("{verb}{}{rest}", self.infix)
    }
}

/// The group in operation ids, such as `RbacAuthorization`.
pub(super) fn group_infix(group: &str) -> String {
    identifier(short(group), true)
}

/// The tag of the operations of a group, such as `rbacAuthorization`.
pub(super) fn group_tag(group: &str) -> String {
    identifier(short(group), false)
}

/// A group without the domain of Kubernetes.
fn short(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// Converts a text to camel case. Characters that are not allowed in an identifier separate words.
fn identifier(text: &str, capital: bool) -> String {
    let mut capital = capital;
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_allowed = c.is_alphabetic() || c == '_' || at != 0 && c.is_numeric();
        match (is_allowed, capital) {
            (false, _) => capital = true,
            (true, true) => {
                out.extend(c.to_uppercase());
                capital = false;
            }
            (true, false) => out.push(c),
        }
    }
    out
}

/// A text with a capital first letter.
pub(super) fn title(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A kind with its indefinite article; plurals have none.
pub(super) fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let is_vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    format!("{} {kind}", if is_vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_tags_contain_the_group_without_the_domain_of_kubernetes() {
        for (group, version, id, tag) in [
            ("", "v1", "listCoreV1Pod", "core_v1"),
            ("apps", "v1", "listAppsV1Pod", "apps_v1"),
            ("storage.k8s.io", "v1", "listStorageV1Pod", "storage_v1"),
            ("rbac.authorization.k8s.io", "v1", "listRbacAuthorizationV1Pod", "rbacAuthorization_v1"),
            ("stable.example.com", "v1beta1", "listStableExampleComV1beta1Pod", "stableExampleCom_v1beta1"),
            ("my-group.io", "v1", "listMyGroupIoV1Pod", "myGroupIo_v1"),
            ("2a.b3.io", "v1", "listAB3IoV1Pod", "AB3Io_v1"),
        ] {
            let naming = Naming::of(group, version);
            assert_eq!((naming.id("list", "Pod").as_str(), naming.tag.as_str()), (id, tag), "{group}");
        }
    }

    #[test]
    fn kinds_have_the_articles_of_upstream() {
        for (kind, want) in [
            ("Pod", "a Pod"),
            ("Ingress", "an Ingress"),
            ("APIService", "an APIService"),
            ("Endpoints", "Endpoints"),
            ("StorageClass", "a StorageClass"),
        ] {
            assert_eq!(with_article(kind), want);
        }
    }
}
