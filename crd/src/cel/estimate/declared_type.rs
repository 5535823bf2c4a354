//! The types of declared values, for the checker.
//!
//! An object has the name of its place: `selfType.spec`; `@items` are the items of a list, and `@values` the values of a
//! map.

use super::decl::Decl;
use super::kind::Kind;
use crate::cel::types::{OwnType, Ty};

/// The name of the type of `self`, if it is an object.
const OWN: &str = "selfType";
const ITEMS: &str = "@items";
const VALUES: &str = "@values";

impl OwnType for Decl {
    fn own(&self) -> Ty {
        ty(self, OWN)
    }

    fn field(&self, object: &str, name: &str) -> Option<Ty> {
        let mut steps = object.split('.');
        if steps.next() != Some(OWN) {
            return None;
        }
        let mut found = None;
        for step in steps {
            let above = found.as_deref().unwrap_or(self);
            found =
                Some(if matches!(step, ITEMS | VALUES) { above.element()? } else { above.field(step)? });
        }
        let object_decl = found.as_deref().unwrap_or(self);
        Some(ty(object_decl.field(name)?.as_ref(), &format!("{object}.{name}")))
    }
}

fn ty(decl: &Decl, place: &str) -> Ty {
    let element =
        |step: &str| decl.element().map_or(Ty::Dyn, |element| ty(&element, &format!("{place}.{step}")));
    match decl.kind {
        Kind::Bool => Ty::Bool,
        Kind::Int => Ty::Int,
        Kind::Uint => Ty::Uint,
        Kind::Double => Ty::Double,
        Kind::Text => Ty::Text,
        Kind::Bytes => Ty::Bytes,
        Kind::Duration => Ty::Duration,
        Kind::Timestamp => Ty::Timestamp,
        Kind::List => Ty::list(element(ITEMS)),
        Kind::Map => Ty::map(Ty::Text, element(VALUES)),
        Kind::Object => Ty::object(place),
        Kind::Dyn
        | Kind::Null
        | Kind::Optional
        | Kind::Quantity
        | Kind::Ip
        | Kind::Cidr
        | Kind::Url
        | Kind::Semver
        | Kind::Format
        | Kind::Opaque => Ty::Dyn,
    }
}
