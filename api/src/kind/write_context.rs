//! The request around a write, for the rules that depend on more than the object.

/// A right on a subresource of the object's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The subresource, which need not be served.
    pub subresource: &'a str,
    /// The namespace; `""` for all.
    pub namespace: &'a str,
    /// The name; `""` for all.
    pub name: &'a str,
}

/// The namespace and the user of a write.
pub trait WriteContext {
    /// The verb of the request: `create`, `update` or `patch`.
    fn verb(&self) -> &'static str;

    /// The value of a label of the object's namespace.
    fn namespace_label(&self, key: &str) -> Option<String>;

    /// Checks a right of the user.
    ///
    /// # Errors
    /// The message of the 403, if the user does not have it.
    fn check(&self, permission: Permission<'_>) -> Result<(), String>;

    /// The node of the pod to which the user's service account token is bound.
    fn service_account_node(&self) -> Option<String>;
}
