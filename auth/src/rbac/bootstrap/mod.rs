//! The RBAC objects that the API server creates at startup and repairs at every later start: the bootstrap policy of
//! Kubernetes 1.36 with the default feature gates, and the roles of orlop's own controllers (`orlop_roles`).
//!
//! Upstream: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy` of kubernetes/kubernetes.
//!
//! * [`cluster_roles()`], [`cluster_role_bindings()`]: the cluster-scoped objects.
//! * [`roles()`], [`role_bindings()`]: the objects in `kube-system` and `kube-public`.
//! * [`joining`]: the objects that let nodes join.
//! * [`reconcile()`]: the object to write, given the stored object and the bootstrap object.
//!
//! The lists of a rule are sorted, as upstream's rule builder sorts them. The order of rules and objects is upstream's.

mod aggregated_roles;
mod bindings;
mod cluster_roles;
mod controller_roles;
pub mod joining;
mod namespaced;
mod orlop_roles;
mod reconcile;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use orlop_roles::ORLOP_CONTROLLER;
pub use reconcile::{must_recreate, reconcile};

/// The label of every bootstrap object, with the value [`LABEL_VALUE`]. Upstream: `Label` in `policy.go`.
pub const LABEL: &str = "kubernetes.io/bootstrapping";
/// The value of [`LABEL`].
pub const LABEL_VALUE: &str = "rbac-defaults";
/// The annotation that permits the server to repair the object: `"true"` in every bootstrap object, `"false"` to opt
/// out. Upstream: `AutoUpdateAnnotationKey` in `k8s.io/api/rbac/v1`.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// The prefix of the labels that add a role's rules to an aggregated role, whose name follows.
pub const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// The prefix of the roles of the controllers. The controller's service account follows.
pub const CONTROLLER: &str = "system:controller:";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const KUBE_SYSTEM: &str = "kube-system";
const KUBE_PUBLIC: &str = "kube-public";

/// A list of names in a rule.
type Names = &'static [&'static str];

const READ: Names = &["get", "list", "watch"];
const WRITE: Names = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: Names =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const READ_UPDATE: Names = &["get", "list", "patch", "update", "watch"];
const LIST_WATCH: Names = &["list", "watch"];
const PATCH_UPDATE: Names = &["patch", "update"];
const CREATE: Names = &["create"];
const DELETE: Names = &["delete"];
const GET: Names = &["get"];
const UPDATE: Names = &["update"];
const ANY: Names = &["*"];

const CORE: Names = &[""];
const APPS: Names = &["apps"];
const APPS_EXTENSIONS: Names = &["apps", "extensions"];
const AUTHENTICATION: Names = &["authentication.k8s.io"];
const AUTHORIZATION: Names = &["authorization.k8s.io"];
const AUTOSCALING: Names = &["autoscaling"];
const BATCH: Names = &["batch"];
const CERTIFICATES: Names = &["certificates.k8s.io"];
const COORDINATION: Names = &["coordination.k8s.io"];
const CORE_EVENTS: Names = &["", "events.k8s.io"];
const DISCOVERY: Names = &["discovery.k8s.io"];
const EXTENSIONS: Names = &["extensions"];
const NETWORKING: Names = &["networking.k8s.io"];
const NODE: Names = &["node.k8s.io"];
const POLICY: Names = &["policy"];
const RBAC: Names = &[RBAC_GROUP];
const RESOURCE: Names = &["resource.k8s.io"];
const STORAGE: Names = &["storage.k8s.io"];

/// The permission to write events. Upstream: `eventsRule` in `controller_policy.go`.
const EVENTS: Rule = rule(&["create", "patch", "update"], CORE_EVENTS, &["events"]);

/// A `PolicyRule`. Empty lists are absent on the wire.
struct Rule {
    verbs: Names,
    groups: Names,
    resources: Names,
    names: Names,
    paths: Names,
}

/// A rule for resources.
const fn rule(verbs: Names, groups: Names, resources: Names) -> Rule {
    Rule { verbs, groups, resources, names: &[], paths: &[] }
}

/// A rule for resources with these names.
const fn named(verbs: Names, groups: Names, resources: Names, names: Names) -> Rule {
    Rule { verbs, groups, resources, names, paths: &[] }
}

/// A rule for non-resource endpoints.
const fn paths(verbs: Names, paths: Names) -> Rule {
    Rule { verbs, groups: &[], resources: &[], names: &[], paths }
}

impl Rule {
    /// The rule's wire form.
    fn wire(&self) -> Value {
        let fields = [
            ("verbs", self.verbs),
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.paths),
        ];
        let present = fields.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(present.map(|(field, list)| (field.to_owned(), json!(list))).collect())
    }
}

/// The wire form of a list of rules.
fn rules(list: &[Rule]) -> Value {
    Value::Array(list.iter().map(Rule::wire).collect())
}

/// A role with a name and rules, without a namespace or aggregation.
struct Role {
    name: &'static str,
    rules: &'static [Rule],
}

/// A subject of a binding.
enum Subject {
    User(&'static str),
    Group(&'static str),
    /// A service account in `kube-system`.
    Account(&'static str),
}

impl Subject {
    /// The subject's wire form.
    fn wire(&self) -> Value {
        match self {
            Subject::User(name) => json!({ "kind": "User", "apiGroup": RBAC_GROUP, "name": name }),
            Subject::Group(name) => json!({ "kind": "Group", "apiGroup": RBAC_GROUP, "name": name }),
            Subject::Account(name) => {
                json!({ "kind": "ServiceAccount", "name": name, "namespace": KUBE_SYSTEM })
            }
        }
    }
}

/// The wire form of a list of subjects.
fn subjects(list: &[Subject]) -> Value {
    Value::Array(list.iter().map(Subject::wire).collect())
}

/// The reference to a role. `kind` is `ClusterRole` or `Role`.
fn role_ref(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": RBAC_GROUP, "kind": kind, "name": name })
}

/// The metadata of a bootstrap object. Upstream: `addDefaultMetadata` in `policy.go`. `aggregates_to` is the role that
/// includes this role's rules.
fn metadata(name: &str, namespace: Option<&str>, aggregates_to: Option<&str>) -> Value {
    let mut labels = Map::new();
    labels.insert(LABEL.to_owned(), json!(LABEL_VALUE));
    if let Some(role) = aggregates_to {
        labels.insert(format!("{AGGREGATE_TO}{role}"), json!("true"));
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("annotations".to_owned(), json!({ AUTO_UPDATE: "true" }));
    Value::Object(metadata)
}

/// The wire form of a cluster role without aggregation.
fn cluster_role(name: &str, list: &[Rule]) -> Value {
    json!({ "metadata": metadata(name, None, None), "rules": rules(list) })
}

/// The bootstrap ClusterRoles, without `apiVersion` and `kind`. Upstream: `ClusterRoles` in `policy.go`, then
/// `ControllerRoles` in `controller_policy.go`. orlop's own follow.
pub fn cluster_roles() -> Vec<Value> {
    let mut all = cluster_roles::all();
    all.extend(
        controller_roles::ROLES.iter().map(|role| cluster_role(&controller_name(role.name), role.rules)),
    );
    all.extend(orlop_roles::cluster_roles());
    all
}

/// The bootstrap ClusterRoleBindings, without `apiVersion` and `kind`. Upstream: `ClusterRoleBindings` in `policy.go`,
/// then `ControllerRoleBindings` in `controller_policy.go`. orlop's own follow.
pub fn cluster_role_bindings() -> Vec<Value> {
    let mut all = bindings::all();
    all.extend(orlop_roles::cluster_role_bindings());
    all
}

/// The bootstrap Roles, in `kube-system`, `kube-public` and `kube-node-lease`, without `apiVersion` and `kind`. Upstream: `NamespaceRoles`
/// in `namespace_policy.go`.
pub fn roles() -> Vec<Value> {
    let mut all = namespaced::roles();
    all.extend(orlop_roles::roles());
    all
}

/// The bootstrap RoleBindings, in `kube-system`, `kube-public` and `kube-node-lease`, without `apiVersion` and `kind`. Upstream:
/// `NamespaceRoleBindings` in `namespace_policy.go`.
pub fn role_bindings() -> Vec<Value> {
    let mut all = namespaced::bindings();
    all.extend(orlop_roles::role_bindings());
    all
}

/// The accounts of upstream's controllers whose only roles are in `kube-system` and `kube-public`.
const BOOTSTRAP_SIGNER: &str = "bootstrap-signer";
const TOKEN_CLEANER: &str = "token-cleaner";

/// The names of the controllers' service accounts, in `kube-system`.
pub fn controller_accounts() -> impl Iterator<Item = &'static str> {
    let in_namespaces = [BOOTSTRAP_SIGNER, TOKEN_CLEANER];
    let of_upstream = controller_roles::ROLES.iter().map(|role| role.name).chain(in_namespaces);
    of_upstream.chain(orlop_roles::own_accounts())
}

/// The rules of nodes, for the Node authorizer. Upstream: `NodeRules` in `policy.go`.
pub fn node_rules() -> Vec<super::Rule> {
    let list = |names: Names| names.iter().map(|name| (*name).to_owned()).collect();
    let rules = cluster_roles::NODE_RULES.iter();
    let rules = rules.map(|rule| super::Rule {
        verbs: list(rule.verbs),
        api_groups: list(rule.groups),
        resources: list(rule.resources),
        resource_names: list(rule.names),
        non_resource_urls: list(rule.paths),
    });
    rules.collect()
}

/// The name of a controller's role and binding, from its service account.
fn controller_name(account: &str) -> String {
    format!("{CONTROLLER}{account}")
}
