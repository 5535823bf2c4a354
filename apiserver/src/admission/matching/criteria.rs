//! Rules and selectors, compiled.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/matching`, `pkg/admission/plugin/webhook/predicates`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize as _;
use serde_json::Value;

use super::{Attributes, GroupVersionKind};

/// A rule: operations on resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    names: Vec<String>,
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = rule.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned(),
            names: texts("resourceNames"),
        }
    }

    fn matches(&self, request: &Attributes<'_>, group: &str, version: &str) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let is_cluster_wide = request.is_namespace() || request.namespace.is_empty();
        let in_scope = match self.scope.as_str() {
            "*" => true,
            "Namespaced" => !is_cluster_wide,
            "Cluster" => is_cluster_wide,
            _ => false,
        };
        let names_resource = self.resources.iter().any(|one| {
            let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
            (resource == "*" || resource == request.names.plural)
                && (subresource == "*" || subresource == request.subresource)
        });
        in_scope
            && names_resource
            && has(&self.operations, request.operation.text())
            && has(&self.groups, group)
            && has(&self.versions, version)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

/// Returns the labels of a namespace.
pub(crate) trait NamespaceLabels {
    /// The namespace, if it exists.
    fn namespace(&self, name: &str) -> Option<Object>;
}

/// Rules and selectors.
#[derive(Clone, Debug)]
pub(crate) struct Criteria {
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether other versions and groups of a resource match, too.
    is_equivalent: bool,
    /// Whether an absence of rules matches every request.
    matches_without_rules: bool,
}

/// The kind in whose form a matched request is processed.
pub(crate) type Matched = Option<GroupVersionKind>;

fn selector(value: &Value, name: &str) -> Result<Selector, String> {
    match value.get(name).filter(|selector| !selector.is_null()) {
        None => Ok(Selector::everything()),
        Some(selector) => {
            let typed = LabelSelector::deserialize(selector).map_err(|error| error.to_string())?;
            Selector::from_label_selector(&typed)
        }
    }
}

fn rules(value: &Value, name: &str) -> Vec<Rule> {
    value.get(name).and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect()
}

impl Criteria {
    /// Those of `MatchResources`.
    pub(crate) fn of_match_resources(value: &Value) -> Self {
        Criteria {
            rules: rules(value, "resourceRules"),
            excluded: rules(value, "excludeResourceRules"),
            matches_without_rules: true,
            ..Criteria::selecting(value)
        }
    }

    /// Those of a webhook.
    pub(crate) fn of_webhook(value: &Value) -> Self {
        Criteria { rules: rules(value, "rules"), ..Criteria::selecting(value) }
    }

    fn selecting(value: &Value) -> Self {
        Criteria {
            namespaces: selector(value, "namespaceSelector"),
            objects: selector(value, "objectSelector"),
            rules: Vec::new(),
            excluded: Vec::new(),
            is_equivalent: value.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
            matches_without_rules: false,
        }
    }

    /// Whether a request matches, and in the form of which kind.
    ///
    /// # Errors
    /// 404 if the namespace does not exist; 500 if a selector is invalid.
    pub(crate) fn matches(
        &self,
        request: &Attributes<'_>,
        object: Option<&Object>,
        old: Option<&Object>,
        namespaces: &dyn NamespaceLabels,
    ) -> Result<Matched, ApiError> {
        // The rules decide about most requests, and are cheaper than the labels of a namespace.
        let Some(kind) = self.matched_kind(request) else { return Ok(None) };
        let in_namespace = self.matches_namespace(request, object, namespaces);
        if let Ok(false) = in_namespace {
            return Ok(None);
        }
        let selects = match &self.objects {
            Ok(selector) if selector.is_everything() => Ok(true),
            Ok(selector) => Ok([object, old].into_iter().flatten().any(|one| has_labels(selector, one))),
            Err(why) => Err(ApiError::internal(why)),
        };
        if let Ok(false) = selects {
            return Ok(None);
        }
        in_namespace?;
        selects?;
        Ok(Some(kind))
    }

    /// Whether a resource of a group may match, in any version.
    pub(crate) fn covers(&self, group: &str) -> bool {
        let without_rules = self.rules.is_empty() && self.matches_without_rules;
        let names = |rule: &Rule| rule.groups.iter().any(|one| one == "*" || one == group);
        without_rules || self.rules.iter().any(names)
    }

    fn matched_kind(&self, request: &Attributes<'_>) -> Matched {
        if self.kind_of(&self.excluded, request).is_some() {
            return None;
        }
        if self.rules.is_empty() && self.matches_without_rules {
            return Some(request.kind.clone());
        }
        self.kind_of(&self.rules, request)
    }

    fn kind_of(&self, rules: &[Rule], request: &Attributes<'_>) -> Matched {
        let own = request.names;
        if rules.iter().any(|rule| rule.matches(request, own.group, own.version)) {
            return Some(request.kind.clone());
        }
        let equivalents = request.equivalents.iter().filter(|_| self.is_equivalent);
        let equivalents: Vec<_> = equivalents.collect();
        rules.iter().find_map(|rule| {
            let matching = equivalents.iter().find(|kind| rule.matches(request, &kind.group, &kind.version));
            matching.map(|kind| (*kind).clone())
        })
    }

    fn matches_namespace(
        &self,
        request: &Attributes<'_>,
        object: Option<&Object>,
        namespaces: &dyn NamespaceLabels,
    ) -> Result<bool, ApiError> {
        if request.namespace.is_empty() && !request.is_namespace() {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(ApiError::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let is_written = request.is_namespace() && request.subresource.is_empty();
        if let (true, Some(object)) = (is_written, object) {
            return Ok(has_labels(selector, object));
        }
        match namespaces.namespace(request.namespace) {
            Some(namespace) => Ok(has_labels(selector, &namespace)),
            None => Err(namespace_not_found(request.namespace)),
        }
    }
}

/// 404 for a namespace.
pub(crate) fn namespace_not_found(name: &str) -> ApiError {
    match crate::registry::by_resource("", "v1", "namespaces") {
        Some(kind) => ApiError::not_found(kind.names(), name),
        None => ApiError::no_such_resource(),
    }
}

fn has_labels(selector: &Selector, object: &Object) -> bool {
    let labels = object.labels().into_iter().flatten();
    selector.matches(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
}
