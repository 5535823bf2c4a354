//! Rejects policies and bindings that show their author parameters that the author may not read: the expressions of a policy, such as
//! its messages, can contain any field of a parameter.
//!
//! Upstream: pkg/registry/admissionregistration/{validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,
//! mutatingadmissionpolicybinding}/authz.go.

use orlop_api::object::Object;
use orlop_api::registry::KindRef;
use orlop_api::registry::admission_registration::GROUP;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_auth::UserInfo;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_auth::selection::Selection;
use serde_json::Value;

use crate::verbs::request::Request;

/// The field of a policy with the kind of its parameters.
const KIND: &[&str] = &["spec", "paramKind"];
/// The field of a binding with the reference to the parameters.
const REFERENCE: &[&str] = &["spec", "paramRef"];
/// Stands for all groups, versions, resources, namespaces or names.
const ALL: &str = "*";

/// What the check reads.
pub(crate) trait ParameterKinds {
    /// The kind with this `apiVersion` and `kind`.
    fn kind(&self, api_version: &str, kind: &str) -> Option<KindRef>;
    /// The policy of this plural and name.
    fn policy(&self, plural: &str, name: &str) -> Option<Object>;
}

/// The parameters that an object refers to.
#[derive(Debug, PartialEq, Eq)]
enum Referrer<'a> {
    /// A policy refers to all objects of a kind.
    Policy { param_kind: &'a Value },
    /// A binding refers to some objects of the kind of its policy.
    Binding { policies: &'static str, param_ref: &'a Value },
}

impl<'a> Referrer<'a> {
    /// `None` if the object refers to no parameters, or if an update does not change them.
    fn of(plural: &str, object: &'a Object, old: Option<&Object>) -> Option<Self> {
        let set = |path: &[&str]| object.at(path).filter(|value| !value.is_null());
        let changes = |path: &[&str]| old.is_none_or(|old| old.at(path) != object.at(path));
        let policies = match plural {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
                let param_kind = set(KIND).filter(|_| changes(KIND))?;
                return Some(Referrer::Policy { param_kind });
            }
            "validatingadmissionpolicybindings" => "validatingadmissionpolicies",
            "mutatingadmissionpolicybindings" => "mutatingadmissionpolicies",
            _ => return None,
        };
        let param_ref = set(REFERENCE).filter(|_| changes(REFERENCE) || changes(&["spec", "policyName"]))?;
        Some(Referrer::Binding { policies, param_ref })
    }
}

/// Checks a policy or a binding that is otherwise valid; other objects pass.
///
/// # Errors
/// 422 if the user may not read the parameters.
pub(crate) fn check(
    request: &Request,
    object: &Object,
    old: Option<&Object>,
    kinds: &dyn ParameterKinds,
) -> Result<(), ApiError> {
    let names = request.names();
    let authorizer = &request.server.authorizer;
    if names.group != GROUP || !authorizer.restricts(&request.user) {
        return Ok(());
    }
    let Some(referrer) = Referrer::of(names.plural, object, old) else { return Ok(()) };
    let policy = match &referrer {
        Referrer::Policy { .. } => None,
        Referrer::Binding { policies, .. } => kinds.policy(policies, object.str_at(&["spec", "policyName"])),
    };
    let asked = right(&referrer, policy.as_ref(), kinds);
    if authorizer.decide_blocking(&request.user, &asked).allowed {
        return Ok(());
    }
    let (user, verb) = (shown(&request.user), &asked.verb);
    let (field, why) = match &referrer {
        Referrer::Policy { param_kind } => {
            let text = |name: &str| param_kind.get(name).and_then(Value::as_str).unwrap_or_default();
            let (kind, version) = (text("kind"), text("apiVersion"));
            let why = format!(
                "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, \
                 apiVersion={version})"
            );
            ("paramKind", why)
        }
        // Upstream exchanges the user and the verb in the text for mutating policies.
        Referrer::Binding { .. } => (
            "paramRef",
            format!("user {user} does not have {verb:?} permission on the object referenced by paramRef"),
        ),
    };
    let mut errors = FieldErrors::new();
    errors.forbidden(&Path::new("spec").child(field), &why);
    Err(ApiError::invalid(names.kind, names.group, object.name(), &errors))
}

/// The right that the author of a policy or a binding needs. `policy` is the policy of a binding, if it exists.
fn right(referrer: &Referrer<'_>, policy: Option<&Object>, kinds: &dyn ParameterKinds) -> RequestInfo {
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let param_kind = match referrer {
        Referrer::Policy { param_kind } => Some(*param_kind),
        Referrer::Binding { .. } => policy.and_then(|policy| policy.at(&["spec", "paramKind"])),
    };
    let (group, version, resource) = resource(param_kind.filter(|kind| !kind.is_null()), kinds);
    let (verb, namespace, name) = match referrer {
        Referrer::Policy { .. } => ("get", ALL.to_owned(), ALL.to_owned()),
        Referrer::Binding { policies, param_ref } => {
            let name = text(param_ref, "name");
            let verb = match *policies {
                "mutatingadmissionpolicies" if name.is_empty() => "list",
                _ => "get",
            };
            // Without a namespace, the parameters may be in each one.
            (verb, text(param_ref, "namespace"), name)
        }
    };
    let target = ResourceTarget {
        group,
        version,
        namespace,
        resource,
        subresource: String::new(),
        name,
        selection: Selection::default(),
    };
    RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) }
}

/// Group, version and plural of a kind; [`ALL`] for what is not known.
fn resource(param_kind: Option<&Value>, kinds: &dyn ParameterKinds) -> (String, String, String) {
    let all = || (ALL.to_owned(), ALL.to_owned(), ALL.to_owned());
    let Some(param_kind) = param_kind else { return all() };
    let text = |name: &str| param_kind.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.is_empty() || version.contains('/') {
        return all();
    }
    let kind = kinds.kind(api_version, text("kind"));
    let plural = kind.map_or(ALL, |kind| kind.names().plural);
    (group.to_owned(), version.to_owned(), plural.to_owned())
}

/// A user in upstream's texts: Go's form of `user.DefaultInfo`.
fn shown(user: &UserInfo) -> String {
    let extra = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let extra: Vec<String> = extra.collect();
    format!("&{{{} {} [{}] map[{}]}}", user.username, user.uid, user.groups.join(" "), extra.join(" "))
}

#[cfg(test)]
mod tests {
    use orlop_api::registry::BUILTIN_KINDS;
    use serde_json::json;

    use super::*;

    struct Builtin;

    impl ParameterKinds for Builtin {
        fn kind(&self, api_version: &str, kind: &str) -> Option<KindRef> {
            let is_it =
                |names: &orlop_api::registry::Names| names.kind == kind && names.api_version() == api_version;
            BUILTIN_KINDS.iter().find(|one| is_it(one.names())).map(|one| KindRef::Builtin(*one))
        }

        fn policy(&self, _plural: &str, _name: &str) -> Option<Object> {
            None
        }
    }

    /// Verb, group, version, resource, namespace and name of the right that an object needs.
    fn needed(plural: &str, spec: Value, old: Option<Value>, policy: Option<Value>) -> Option<String> {
        let of = |spec: Value| Object::from_value(json!({"spec": spec}));
        let (object, old, policy) = (of(spec), old.map(of), policy.map(of));
        let referrer = Referrer::of(plural, &object, old.as_ref())?;
        let right = right(&referrer, policy.as_ref(), &Builtin);
        let RequestTarget::Resource(at) = right.target else { panic!("a resource") };
        let parts = [&*right.verb, &at.group, &at.version, &at.resource, &at.namespace, &at.name];
        Some(parts.join("|"))
    }

    #[test]
    fn policies_need_all_objects_of_their_kind() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        let spec = |kind: &Value| json!({"paramKind": kind});
        for plural in ["validatingadmissionpolicies", "mutatingadmissionpolicies"] {
            for (kind, want) in [
                (secret.clone(), Some("get||v1|secrets|*|*")),
                (
                    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}),
                    Some("get|rbac.authorization.k8s.io|v1|roles|*|*"),
                ),
                (json!({"apiVersion": "e.com/v1", "kind": "Unknown"}), Some("get|e.com|v1|*|*|*")),
                (json!({"apiVersion": "a/b/c", "kind": "Secret"}), Some("get|*|*|*|*|*")),
                (Value::Null, None),
            ] {
                assert_eq!(needed(plural, spec(&kind), None, None).as_deref(), want, "{plural} {kind}");
            }
            let other = json!({"apiVersion": "v1", "kind": "ConfigMap"});
            assert_eq!(needed(plural, spec(&secret), Some(spec(&secret)), None), None, "no change");
            for old in [spec(&other), json!({})] {
                assert!(needed(plural, spec(&secret), Some(old), None).is_some());
            }
        }
        assert_eq!(needed("validatingwebhookconfigurations", spec(&secret), None, None), None);
    }

    #[test]
    fn bindings_need_the_objects_that_they_name() {
        let policy = Some(json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}}));
        let spec = |policy: &str, param: Value| json!({"policyName": policy, "paramRef": param});
        let named = json!({"name": "s", "namespace": "n"});
        for (param, validating, mutating) in [
            (named.clone(), "get||v1|secrets|n|s", "get||v1|secrets|n|s"),
            (json!({"name": "s"}), "get||v1|secrets||s", "get||v1|secrets||s"),
            (json!({"selector": {}, "namespace": "n"}), "get||v1|secrets|n|", "list||v1|secrets|n|"),
            (json!({"selector": {}}), "get||v1|secrets||", "list||v1|secrets||"),
        ] {
            for (plural, want) in [
                ("validatingadmissionpolicybindings", validating),
                ("mutatingadmissionpolicybindings", mutating),
            ] {
                let got = needed(plural, spec("p", param.clone()), None, policy.clone());
                assert_eq!(got.as_deref(), Some(want), "{plural} {param}");
            }
        }
        let plural = "validatingadmissionpolicybindings";
        let unknown = needed(plural, spec("p", named.clone()), None, None);
        assert_eq!(unknown.as_deref(), Some("get|*|*|*|n|s"), "the policy does not exist");
        let old = |policy: &str, param: &Value| Some(spec(policy, param.clone()));
        assert_eq!(needed(plural, spec("p", named.clone()), old("p", &named), policy.clone()), None);
        for old in [old("q", &named), old("p", &json!({"name": "t", "namespace": "n"}))] {
            assert!(needed(plural, spec("p", named.clone()), old, policy.clone()).is_some());
        }
        assert_eq!(needed(plural, json!({"policyName": "p"}), None, policy), None);
    }

    #[test]
    fn users_are_shown_as_upstream_does() {
        let mut user = UserInfo::new("ann", vec!["devs".to_owned(), "system:authenticated".to_owned()]);
        assert_eq!(shown(&user), "&{ann  [devs system:authenticated] map[]}");
        user.extra.insert("k".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(shown(&user), "&{ann  [devs system:authenticated] map[k:[a b]]}");
    }
}
