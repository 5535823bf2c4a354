//! The audit policy: its document, and the validation of it.
//!
//! Upstream: apiserver `pkg/apis/audit/v1/types.go`, `pkg/apis/audit/validation`, `pkg/audit/policy/reader.go`.

use orlop_api::validate::{FieldErrors, Path};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::level::{Level, Stage, Stages};

const API_VERSION: &str = "audit.k8s.io/v1";

/// A validated policy. The first rule that matches a request decides; without one the request is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rules, in order.
    pub(super) rules: Vec<PolicyRule>,
}

/// A rule. An empty list matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyRule {
    pub(super) level: Level,
    pub(super) users: Vec<String>,
    pub(super) user_groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<GroupResources>,
    pub(super) namespaces: Vec<String>,
    pub(super) non_resource_urls: Vec<String>,
    /// Includes the stages that the policy omits as a whole.
    pub(super) omit_stages: Stages,
    pub(super) omit_managed_fields: bool,
}

/// Resources of an API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GroupResources {
    /// The group; empty for the core group.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) group: String,
    /// Resources such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*`; empty for all.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) resources: Vec<String>,
    /// Names of objects; empty for all.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) resource_names: Vec<String>,
}

/// Why a document is not a valid policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct PolicyError(Vec<String>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyDocument {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default, deserialize_with = "or_default")]
    rules: Vec<RuleDocument>,
    #[serde(default, deserialize_with = "or_default")]
    omit_stages: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleDocument {
    #[serde(default, deserialize_with = "or_default")]
    level: String,
    #[serde(default, deserialize_with = "or_default")]
    users: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    user_groups: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<GroupResources>,
    #[serde(default, deserialize_with = "or_default")]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs", deserialize_with = "or_default")]
    non_resource_urls: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

/// `null` stands for an absent value.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Policy {
    /// Reads and validates a document.
    ///
    /// # Errors
    /// All problems of the document.
    pub fn parse(document: Value) -> Result<Self, PolicyError> {
        let one = |problem: String| PolicyError(vec![problem]);
        if !document.is_object() {
            return Err(one("it is not a document with apiVersion, kind and rules".to_owned()));
        }
        let document: PolicyDocument =
            serde_json::from_value(document).map_err(|error| one(error.to_string()))?;
        if document.api_version != API_VERSION || document.kind != "Policy" {
            return Err(one(format!(
                "apiVersion and kind must be {API_VERSION} and Policy, and are {:?} and {:?}",
                document.api_version, document.kind
            )));
        }
        if document.rules.is_empty() {
            return Err(one(
                "rules: Required value: a policy without rules records nothing; to disable the audit log, omit the \
                 --audit- flags or use one rule with level None"
                    .to_owned(),
            ));
        }
        let mut errors = FieldErrors::new();
        let omitted = stages(&document.omit_stages, &Path::new("omitStages"), &mut errors);
        let mut rules = Vec::with_capacity(document.rules.len());
        for (index, rule) in document.rules.into_iter().enumerate() {
            let path = Path::new("rules").index(index);
            rules.push(rule.validated(&path, omitted, document.omit_managed_fields, &mut errors));
        }
        if errors.is_empty() {
            return Ok(Policy { rules });
        }
        Err(PolicyError(
            errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect(),
        ))
    }
}

impl RuleDocument {
    /// The rule; problems go to `errors`.
    fn validated(
        self,
        path: &Path,
        omitted: Stages,
        omit_managed_fields: bool,
        errors: &mut FieldErrors,
    ) -> PolicyRule {
        let level = Level::of_name(&self.level);
        if level.is_none() {
            let at = path.child("level");
            match self.level.as_str() {
                "" => errors.required(&at, ""),
                other => errors.not_supported(&at, other, &Level::ALL.map(Level::name)),
            }
        }
        check_urls(&self, path, errors);
        check_resources(&self.resources, &path.child("resources"), errors);
        let omit_stages = stages(&self.omit_stages, &path.child("omitStages"), errors).union(omitted);
        PolicyRule {
            level: level.unwrap_or(Level::None),
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            resources: self.resources,
            namespaces: self.namespaces,
            non_resource_urls: self.non_resource_urls,
            omit_stages,
            omit_managed_fields: self.omit_managed_fields.unwrap_or(omit_managed_fields),
        }
    }
}

fn check_urls(rule: &RuleDocument, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("nonResourceURLs");
    for (index, url) in rule.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let at = path.index(index);
        if !url.starts_with('/') {
            errors.invalid(&at, url.as_str(), "must be * or begin with /");
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            errors.invalid(&at, url.as_str(), "a * is allowed only as the last character");
        }
    }
    let is_for_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if is_for_resources && !rule.non_resource_urls.is_empty() {
        let detail = "a rule with resources or namespaces cannot also have nonResourceURLs; write two rules";
        errors.invalid(&path, rule.non_resource_urls.clone(), detail);
    }
}

fn check_resources(resources: &[GroupResources], path: &Path, errors: &mut FieldErrors) {
    for (index, group) in resources.iter().enumerate() {
        let at = path.index(index);
        if !group.group.is_empty() && !is_group(&group.group) {
            let detail =
                "must be the name of an API group without a version, such as apps; \"\" is the core group";
            errors.invalid(&at.child("group"), group.group.as_str(), detail);
        }
        if !group.resource_names.is_empty() && group.resources.is_empty() {
            let detail = "resourceNames need at least one entry in resources";
            errors.invalid(&at.child("resourceNames"), group.resource_names.clone(), detail);
        }
    }
}

/// Whether a text is a DNS subdomain.
fn is_group(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(is_inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn stages(names: &[String], path: &Path, errors: &mut FieldErrors) -> Stages {
    let mut found = Stages::default();
    for (index, name) in names.iter().enumerate() {
        match Stage::of_name(name) {
            Some(stage) => found = found.with(stage),
            None => {
                errors.not_supported(&path.index(index), name.as_str(), &Stage::ALL.map(Stage::name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(rule: Value) -> String {
        let document = json!({"apiVersion": API_VERSION, "kind": "Policy", "rules": [rule]});
        Policy::parse(document).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn rules_are_validated() {
        for (rule, want) in [
            (json!({"level": "Metadata"}), ""),
            (json!({"level": "None", "users": null, "resources": [{"group": ""}]}), ""),
            (json!({"level": "None", "nonResourceURLs": ["*", "/healthz*", "/a"]}), ""),
            (
                json!({"level": "Request", "resources": [{"group": "apps", "resources": ["*/scale"], "resourceNames": ["a"]}]}),
                "",
            ),
            (json!({}), "rules[0].level: Required value"),
            (
                json!({"level": "metadata"}),
                r#"rules[0].level: Unsupported value: "metadata": supported values: "None", "Metadata", "Request", "RequestResponse""#,
            ),
            (
                json!({"level": "None", "nonResourceURLs": ["healthz"]}),
                r#"rules[0].nonResourceURLs[0]: Invalid value: "healthz": must be * or begin with /"#,
            ),
            (
                json!({"level": "None", "nonResourceURLs": ["/a*b"]}),
                r#"rules[0].nonResourceURLs[0]: Invalid value: "/a*b": a * is allowed only as the last character"#,
            ),
            (
                json!({"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["n"]}),
                r#"rules[0].nonResourceURLs: Invalid value: ["/a"]: a rule with resources or namespaces cannot also have nonResourceURLs; write two rules"#,
            ),
            (
                json!({"level": "None", "resources": [{"group": "apps/v1"}]}),
                r#"rules[0].resources[0].group: Invalid value: "apps/v1": must be the name of an API group without a version, such as apps; "" is the core group"#,
            ),
            (
                json!({"level": "None", "resources": [{"resourceNames": ["a"]}]}),
                r#"rules[0].resources[0].resourceNames: Invalid value: ["a"]: resourceNames need at least one entry in resources"#,
            ),
            (
                json!({"level": "None", "omitStages": ["Received"]}),
                r#"rules[0].omitStages[0]: Unsupported value: "Received": supported values: "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic""#,
            ),
        ] {
            assert_eq!(problem(rule.clone()), want, "{rule}");
        }
        assert!(problem(json!({"level": "None", "user": ["a"]})).contains("unknown field `user`"));
        assert!(problem(json!({"level": "None", "users": "a"})).contains("invalid type: string"));
    }

    #[test]
    fn documents_of_other_kinds_are_rejected() {
        let rules = json!([{"level": "Metadata"}]);
        for (document, want) in [
            (
                json!({"apiVersion": API_VERSION, "kind": "Policy", "metadata": {"name": "a"}, "rules": rules}),
                "",
            ),
            (json!({"apiVersion": API_VERSION, "kind": "Policy"}), "rules: Required value: a policy"),
            (json!({"kind": "Policy", "rules": rules}), "apiVersion and kind must be"),
            (
                json!({"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy", "rules": rules}),
                "apiVersion and kind",
            ),
            (json!({"apiVersion": "v1", "kind": "Config"}), "apiVersion and kind"),
            (json!("text"), "it is not a document"),
            (json!(null), "it is not a document"),
        ] {
            let found =
                Policy::parse(document.clone()).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(found.starts_with(want) && found.is_empty() == want.is_empty(), "{document}: {found}");
        }
    }

    #[test]
    fn rules_inherit_from_the_policy() {
        let document = json!({"apiVersion": API_VERSION, "kind": "Policy", "omitStages": ["RequestReceived"],
        "omitManagedFields": true, "rules": [
            {"level": "Request", "omitStages": ["Panic"]},
            {"level": "Request", "omitManagedFields": false},
        ]});
        let policy = Policy::parse(document).expect("valid");
        let found: Vec<_> = policy
            .rules
            .iter()
            .map(|rule| (Stage::ALL.map(|stage| rule.omit_stages.contains(stage)), rule.omit_managed_fields))
            .collect();
        assert_eq!(found, [([true, false, false, true], true), ([true, false, false, false], false)]);
    }
}
