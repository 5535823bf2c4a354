//! Compiles expressions.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::cel::types::{self, Declarations, JSON_PATCH, OBJECT, Ty};
use crate::cel::{LazyFields, Program};
use orlop_api::registry::expressions::{ExpressionResult, ExpressionScope};

/// Compiles the expressions of one policy.
#[derive(Debug, Default)]
pub struct Compiler {
    /// The types of the fields of `variables`; `None` if the expressions have no such variable.
    variables: Option<Rc<HashMap<String, Ty>>>,
    is_review: bool,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Arc<str>,
    pub(super) program: Program,
}

impl Expression {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The compiled fields of `variables`, in order. Those that do not compile have an error.
#[derive(Clone, Debug, Default)]
pub struct Variables(pub(super) LazyFields);

impl Variables {
    /// Adds a field.
    pub fn push(&mut self, name: &str, compiled: Result<Expression, String>) {
        self.0.push(name, compiled.map(|expression| expression.program));
    }
}

impl Compiler {
    /// A compiler for expressions with or without `variables`.
    pub fn new(has_variables: bool) -> Self {
        Compiler { variables: has_variables.then(Rc::default), is_review: false }
    }

    /// A compiler for the match conditions of an authorization webhook: `request` is the `spec` of an access review.
    pub fn for_reviews() -> Self {
        Compiler { variables: None, is_review: true }
    }

    /// Compiles a field of `variables`, which later expressions can use.
    ///
    /// # Errors
    /// Why the expression does not compile.
    pub fn variable(&mut self, name: &str, text: &str, scope: ExpressionScope) -> Result<Expression, String> {
        let compiled = self.typed(text, scope);
        let ty = compiled.as_ref().map_or(Ty::Dyn, |(_, ty)| ty.clone());
        // No expression is being compiled, so nothing else refers to the types.
        Rc::make_mut(self.variables.get_or_insert_default()).insert(name.to_owned(), ty);
        compiled.map(|(expression, _)| expression)
    }

    /// Compiles an expression with a result of this type.
    ///
    /// # Errors
    /// Why the expression does not compile, or has another type.
    pub fn compile(
        &self,
        text: &str,
        scope: ExpressionScope,
        result: ExpressionResult,
    ) -> Result<Expression, String> {
        let (expression, ty) = self.typed(text, scope)?;
        let wanted = match result {
            ExpressionResult::Bool => "bool".to_owned(),
            ExpressionResult::Text => "string".to_owned(),
            ExpressionResult::TextOrNull => "one of [string null_type]".to_owned(),
            ExpressionResult::JsonPatch => format!("list({JSON_PATCH})"),
            ExpressionResult::ApplyConfiguration => OBJECT.to_owned(),
        };
        let fits = match result {
            ExpressionResult::Bool => ty == Ty::Bool,
            ExpressionResult::Text => ty == Ty::Text,
            ExpressionResult::TextOrNull => matches!(ty, Ty::Text | Ty::Null),
            ExpressionResult::JsonPatch => ty == Ty::list(Ty::object(JSON_PATCH)),
            ExpressionResult::ApplyConfiguration => ty == Ty::object(OBJECT),
        };
        if fits {
            Ok(expression)
        } else {
            Err(format!("must evaluate to {wanted} but got {}", ty.declared()))
        }
    }

    fn typed(&self, text: &str, scope: ExpressionScope) -> Result<(Expression, Ty), String> {
        let declarations = Declarations {
            has_params: scope.has_params,
            has_authorizer: scope.has_authorizer,
            has_patch_types: scope.has_patch_types,
            is_review: self.is_review,
            variables: self.variables.clone(),
            ..Declarations::default()
        };
        typed(text, &declarations)
    }
}

/// Compiles an expression that selects devices.
///
/// # Errors
/// The compile error, also if the result is not a boolean.
pub(super) fn check_device_selector(text: &str) -> Result<(), String> {
    let (_, ty) = typed(text, &Declarations { is_device_selector: true, ..Declarations::default() })?;
    match ty {
        Ty::Bool | Ty::Dyn => Ok(()),
        other => Err(format!("must evaluate to bool or the unknown type, not {}", other.declared())),
    }
}

/// Compiles an expression, and returns the type of its result.
fn typed(text: &str, declarations: &Declarations) -> Result<(Expression, Ty), String> {
    let (expr, ty) =
        types::compile(text, declarations).map_err(|why| format!("compilation failed: {why}"))?;
    let program = Program { expr: Arc::new(expr), uses_old: false };
    Ok((Expression { text: text.into(), program }, ty))
}
