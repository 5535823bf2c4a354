//! Whether types are assignable, and the type parameters that this determines.
//!
//! Upstream: cel-go `checker/types.go`.

use std::collections::HashMap;

use super::ty::Ty;

/// The known values of type parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Substitutions(HashMap<u32, Ty>);

impl Substitutions {
    /// Whether `from` is assignable to `to`. Determines type parameters only if it is.
    pub(super) fn assign(&mut self, from: &Ty, to: &Ty) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// The same for lists of types, of equal length.
    pub(super) fn assign_all(&mut self, from: &[Ty], to: &[Ty]) -> bool {
        let mut tried = self.clone();
        if from.len() != to.len() || !from.iter().zip(to).all(|(from, to)| tried.assignable(from, to)) {
            return false;
        }
        *self = tried;
        true
    }

    /// Replaces known parameters; unknown ones remain.
    pub(super) fn apply(&self, ty: &Ty) -> Ty {
        ty.replaced(&|number| self.0.get(&number).map(|known| self.apply(known)))
    }

    /// Replaces all parameters; unknown ones are dynamic.
    pub(super) fn finish(&self, ty: &Ty) -> Ty {
        ty.replaced(&|number| Some(self.0.get(&number).map_or(Ty::Dyn, |known| self.finish(known))))
    }

    fn assignable(&mut self, from: &Ty, to: &Ty) -> bool {
        if let Ty::Param(number) = to {
            match self.substitute(from, *number, to) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Ty::Param(number) = from {
            return self.substitute(to, *number, from).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Ty::Null, other) | (other, Ty::Null) => {
                matches!(other, Ty::Null | Ty::Optional(_) | Ty::Object(_) | Ty::Duration | Ty::Timestamp)
            }
            (Ty::Type(_), Ty::Type(_)) => true,
            (Ty::List(from), Ty::List(to)) | (Ty::Optional(from), Ty::Optional(to)) => {
                self.assignable(from, to)
            }
            (Ty::Map(key, value), Ty::Map(to_key, to_value)) => {
                self.assignable(key, to_key) && self.assignable(value, to_value)
            }
            (from, to) => from == to,
        }
    }

    /// Whether a type is a value of a parameter, and whether the parameter has a value already.
    fn substitute(&mut self, ty: &Ty, number: u32, param: &Ty) -> (bool, bool) {
        if ty == param {
            return (true, true);
        }
        if let Some(known) = self.0.get(&number).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.assignable(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if self.is_free_of(&general, number) {
                self.0.insert(number, general);
            }
            return (true, true);
        }
        if self.is_free_of(ty, number) {
            self.0.insert(number, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a type does not contain a parameter.
    fn is_free_of(&self, ty: &Ty, number: u32) -> bool {
        match ty {
            Ty::Param(other) if *other == number => false,
            Ty::Param(other) => self.0.get(other).is_none_or(|known| self.is_free_of(known, number)),
            ty => ty.parts().into_iter().all(|part| self.is_free_of(part, number)),
        }
    }
}

/// Returns the more general of two assignable types.
pub(super) fn most_general(a: &Ty, b: &Ty) -> Ty {
    if is_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn is_less_specific(a: &Ty, b: &Ty) -> bool {
    match (a, b) {
        (Ty::Dyn | Ty::Param(_), _) | (Ty::Type(_), Ty::Type(_)) => true,
        (_, Ty::Dyn | Ty::Param(_)) => false,
        (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => is_less_specific(a, b),
        (Ty::Map(key, value), Ty::Map(other_key, other_value)) => {
            is_less_specific(key, other_key) && is_less_specific(value, other_value)
        }
        (a, b) => a == b,
    }
}
