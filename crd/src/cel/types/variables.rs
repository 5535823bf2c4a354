//! The variables of an expression, and their types.

use std::collections::HashMap;
use std::rc::Rc;

use super::declared::{self, DEVICE, NAMESPACE, REQUEST, REVIEW, VARIABLES};
use super::ty::Ty;

/// The variables of an expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) has_params: bool,
    pub(crate) has_authorizer: bool,
    /// Whether the expression can make the objects of mutations.
    pub(crate) has_patch_types: bool,
    /// Whether `request` is an access review; then there is no other variable.
    pub(crate) is_review: bool,
    /// The types of the fields of `variables`; `None` if there is no such variable.
    pub(crate) variables: Option<Rc<HashMap<String, Ty>>>,
    /// Whether the expression selects devices: its only variable is `device`.
    pub(crate) is_device_selector: bool,
    /// The type of `self` in a rule of a schema; there is no other variable but `oldSelf`.
    pub(crate) own: Option<Rc<dyn OwnType>>,
    /// Whether `oldSelf` is an optional.
    pub(crate) has_optional_old: bool,
}

/// The type that a schema declares.
pub(crate) trait OwnType: std::fmt::Debug {
    /// The type of `self`.
    fn own(&self) -> Ty;
    /// The type of a field of an object type.
    fn field(&self, object: &str, name: &str) -> Option<Ty>;
}

impl Declarations {
    /// The type of a variable, or of the name of a type.
    pub(super) fn ident(&self, name: &str) -> Option<Ty> {
        let of_type = || type_named(name).map(|ty| Ty::Type(Some(ty.into())));
        if let Some(own) = &self.own {
            return match name {
                "self" => Some(own.own()),
                "oldSelf" if self.has_optional_old => Some(Ty::optional(own.own())),
                "oldSelf" => Some(own.own()),
                _ => of_type(),
            };
        }
        if self.is_device_selector {
            return if name == "device" { Some(Ty::object(DEVICE)) } else { of_type() };
        }
        match name {
            "request" if self.is_review => Some(Ty::object(REVIEW)),
            "object" | "oldObject" | "namespaceObject" if self.is_review => None,
            "object" | "oldObject" => Some(Ty::Dyn),
            "params" => self.has_params.then_some(Ty::Dyn),
            "request" => Some(Ty::object(REQUEST)),
            "namespaceObject" => Some(Ty::object(NAMESPACE)),
            "authorizer" => self.has_authorizer.then(|| Ty::object(declared::AUTHORIZER)),
            "variables" => self.variables.as_ref().map(|_| Ty::object(VARIABLES)),
            _ => of_type(),
        }
    }

    /// The type of a field of a type with fields.
    pub(super) fn field(&self, ty: &str, name: &str) -> Option<Ty> {
        if let Some(own) = &self.own {
            return own.field(ty, name);
        }
        if ty != VARIABLES {
            return declared::field(ty, name);
        }
        self.variables.as_ref()?.get(name).cloned()
    }
}

fn type_named(name: &str) -> Option<Ty> {
    Some(match name {
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::Text,
        "bytes" => Ty::Bytes,
        "list" => Ty::list(Ty::Dyn),
        "map" => Ty::map(Ty::Dyn, Ty::Dyn),
        "null_type" => Ty::Null,
        "optional_type" => Ty::optional(Ty::Dyn),
        "type" => Ty::Type(None),
        _ => return None,
    })
}
