//! The validation of CEL expressions in built-in kinds. The compiler is in another crate, which implements these traits.

/// The variables of an expression besides `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpressionScope {
    /// `params`.
    pub has_params: bool,
    /// `authorizer`.
    pub has_authorizer: bool,
    /// The types `Object` and `JSONPatch`.
    pub has_patch_types: bool,
}

/// The type of the result of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionResult {
    /// A truth value.
    Bool,
    /// A text.
    Text,
    /// A text or `null`.
    TextOrNull,
    /// A list of `JSONPatch`.
    JsonPatch,
    /// An `Object`.
    ApplyConfiguration,
}

/// Compiles CEL expressions.
pub trait CompilesExpressions: Send + Sync {
    /// Begins with the expressions of one object, which share `variables` if it has some.
    fn session(&self, has_variables: bool) -> Box<dyn ExpressionSession>;

    /// Compiles an expression that selects devices. Its only variable is `device`.
    ///
    /// # Errors
    /// The compile error, also if the result is not a boolean.
    fn check_device_selector(&self, text: &str) -> Result<(), String>;
}

/// The expressions of one object.
pub trait ExpressionSession {
    /// Compiles a field of `variables`, for the expressions after it.
    ///
    /// # Errors
    /// Why it does not compile.
    fn variable(&mut self, name: &str, text: &str, scope: ExpressionScope) -> Result<(), String>;

    /// Compiles an expression.
    ///
    /// # Errors
    /// Why it does not compile, or that its result has another type.
    fn check(&self, text: &str, scope: ExpressionScope, result: ExpressionResult) -> Result<(), String>;
}
