//! The data that policies read besides the request: objects, kinds, and the rights of users.

use std::ops::ControlFlow;

use orlop_api::object::Object;
use orlop_api::registry::KindRef;
use orlop_auth::UserInfo;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_auth::selection::Selection;
use orlop_crd::expression::{AccessAnswer, AccessQuestion, AccessTarget, DecidesAccess};

use crate::admission::matching::{Attributes, NamespaceLabels};
use crate::encode::undecoded::Undecoded;

/// The cluster around a request.
pub(crate) trait ClusterState: NamespaceLabels {
    /// The kind with this version and name, as in `paramKind`.
    fn kind_named(&self, api_version: &str, kind: &str) -> Option<KindRef>;
    /// An object of a kind.
    fn object(&self, kind: &KindRef, namespace: &str, name: &str) -> Option<Object>;
    /// Passes the objects of a kind to `visit`, by name, until it breaks.
    fn visit_objects(
        &self,
        kind: &KindRef,
        namespace: &str,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    );
    /// Decides about the rights of a user.
    fn decide(&self, user: &UserInfo, right: &RequestInfo) -> AccessAnswer;
}

/// Answers the questions of `authorizer` for the user of a request.
pub(crate) struct Access<'a> {
    pub(crate) cluster: &'a dyn ClusterState,
    pub(crate) user: &'a UserInfo,
}

impl DecidesAccess for Access<'_> {
    fn decide(&self, question: &AccessQuestion) -> AccessAnswer {
        let target = match &question.target {
            AccessTarget::Path(path) => RequestTarget::Path(path.clone()),
            AccessTarget::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                field_selector,
                label_selector,
            } => RequestTarget::Resource(ResourceTarget {
                selection: Selection::parse(field_selector, label_selector),
                group: group.clone(),
                version: "*".to_owned(),
                namespace: namespace.clone(),
                resource: resource.clone(),
                subresource: subresource.clone(),
                name: name.clone(),
            }),
        };
        let right = RequestInfo { verb: question.verb.clone().into(), target };
        let Some((namespace, name)) = &question.service_account else {
            return self.cluster.decide(self.user, &right);
        };
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let account = UserInfo::new(format!("system:serviceaccount:{namespace}:{name}"), groups);
        self.cluster.decide(&account, &right)
    }
}

/// `authorizer.requestResource`.
pub(crate) fn request_resource(request: &Attributes<'_>) -> AccessTarget {
    AccessTarget::Resource {
        group: request.names.group.to_owned(),
        resource: request.names.plural.to_owned(),
        subresource: request.subresource.to_owned(),
        namespace: request.namespace.to_owned(),
        name: request.name.to_owned(),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}
