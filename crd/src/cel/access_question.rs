//! The values of `authorizer`: questions about the rights of a user, and answers.
//!
//! Upstream: apiserver `pkg/cel/library/authz.go`.

/// The target of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessTarget {
    /// A non-resource endpoint.
    Path(String),
    /// Objects of a kind.
    Resource {
        /// API group.
        group: String,
        /// Plural of the kind.
        resource: String,
        /// Subresource, or `""`.
        subresource: String,
        /// Namespace; `""` for all namespaces and for cluster-scoped kinds.
        namespace: String,
        /// Name; `""` for all objects.
        name: String,
        /// Field selector of a list, or `""`.
        field_selector: String,
        /// Label selector of a list, or `""`.
        label_selector: String,
    },
}

/// A question about the rights of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessQuestion {
    /// Namespace and name of a service account; `None` for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The target of the question.
    pub target: AccessTarget,
    /// The verb.
    pub verb: String,
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessAnswer {
    /// Whether the action is permitted.
    pub allowed: bool,
    /// The reason of the authorizer; may be empty.
    pub reason: String,
}

/// Decides about the rights of users, for expressions that use `authorizer`.
pub trait DecidesAccess {
    /// Decides about one action.
    fn decide(&self, question: &AccessQuestion) -> AccessAnswer;
}

/// A value of these functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    /// `authorizer`, for the user of the request or a service account.
    Authorizer(Option<(String, String)>),
    /// A check without its verb.
    Check(Option<(String, String)>, AccessTarget),
    /// `authorizer.group(...)`.
    Group(Option<(String, String)>, String),
    Decision(AccessAnswer),
}

impl Access {
    /// Returns the name of the type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Access::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Access::Check(_, AccessTarget::Path(_)) => "kubernetes.authorization.PathCheck",
            Access::Check(_, AccessTarget::Resource { .. }) => "kubernetes.authorization.ResourceCheck",
            Access::Group(..) => "kubernetes.authorization.GroupCheck",
            Access::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}
