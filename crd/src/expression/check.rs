//! Compiles expressions for the validation of the kinds that contain them.

use orlop_api::registry::expressions::{
    CompilesExpressions, ExpressionResult, ExpressionScope, ExpressionSession,
};

use super::compile::{self, Compiler};

/// Validates CEL expressions.
#[derive(Clone, Copy, Debug)]
pub struct CelCompiler;

impl CompilesExpressions for CelCompiler {
    fn session(&self, has_variables: bool) -> Box<dyn ExpressionSession> {
        Box::new(Compiler::new(has_variables))
    }

    fn check_device_selector(&self, text: &str) -> Result<(), String> {
        compile::check_device_selector(text)
    }
}

impl ExpressionSession for Compiler {
    fn variable(&mut self, name: &str, text: &str, scope: ExpressionScope) -> Result<(), String> {
        Compiler::variable(self, name, text, scope).map(drop)
    }

    fn check(&self, text: &str, scope: ExpressionScope, result: ExpressionResult) -> Result<(), String> {
        self.compile(text, scope, result).map(drop)
    }
}
