//! Whether types are assignable, and the type parameters that this determines.
//!
//! Upstream: cel-go `checker/types.go`.

use std::cell::Cell;
use std::collections::HashMap;

use orlop_apimachinery::steps::Steps;

use super::ty::Ty;

/// Maximum nesting depth of a type, with the values of its type parameters.
const MAX_DEPTH: usize = 200;

/// The known values of type parameters.
///
/// A value can contain other parameters, each of them several times, so a type with all its parts may be exponentially larger than
/// the expression. Therefore each visited part takes a step.
#[derive(Debug)]
pub(super) struct Substitutions {
    known: HashMap<u32, Ty>,
    /// The parameters that the current attempt has determined, with their former values.
    undo: Vec<(u32, Option<Ty>)>,
    steps: Steps,
    is_exhausted: Cell<bool>,
}

impl Substitutions {
    /// None, and the number of steps that may be taken.
    pub(super) fn new(steps: usize) -> Self {
        Substitutions {
            known: HashMap::new(),
            undo: Vec::new(),
            steps: Steps::new(steps as u64),
            is_exhausted: Cell::new(false),
        }
    }

    /// Whether a type was too large or too deep: then the results are not meaningful.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Takes a step for a part at this depth. False if the type is too large or too deep.
    fn visits(&self, depth: usize) -> bool {
        if depth > MAX_DEPTH || self.steps.take(1).is_err() {
            self.is_exhausted.set(true);
        }
        !self.is_exhausted()
    }

    /// Whether `from` is assignable to `to`. Determines type parameters only if it is.
    pub(super) fn assign(&mut self, from: &Ty, to: &Ty) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// The same for lists of types, of equal length.
    pub(super) fn assign_all(&mut self, from: &[Ty], to: &[Ty]) -> bool {
        self.undo.clear();
        if from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.assignable(from, to, 0)) {
            return true;
        }
        while let Some((number, former)) = self.undo.pop() {
            match former {
                Some(former) => self.known.insert(number, former),
                None => self.known.remove(&number),
            };
        }
        false
    }

    fn determine(&mut self, number: u32, ty: Ty) {
        let former = self.known.insert(number, ty);
        self.undo.push((number, former));
    }

    /// Replaces known parameters; unknown ones remain.
    pub(super) fn apply(&self, ty: &Ty) -> Ty {
        self.replaced(ty, 0, &Ty::clone)
    }

    /// Replaces all parameters; unknown ones are dynamic.
    pub(super) fn finish(&self, ty: &Ty) -> Ty {
        self.replaced(ty, 0, &|_| Ty::Dyn)
    }

    fn replaced(&self, ty: &Ty, depth: usize, unknown: &dyn Fn(&Ty) -> Ty) -> Ty {
        if !self.visits(depth) {
            return Ty::Error;
        }
        let part = |ty: &Ty| self.replaced(ty, depth + 1, unknown);
        match ty {
            Ty::Param(number) => self.known.get(number).map_or_else(|| unknown(ty), part),
            ty => ty.with_parts(&part),
        }
    }

    fn assignable(&mut self, from: &Ty, to: &Ty, depth: usize) -> bool {
        if !self.visits(depth) {
            return false;
        }
        if let Ty::Param(number) = to {
            match self.substitute(from, *number, to, depth) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Ty::Param(number) = from {
            return self.substitute(to, *number, from, depth).0;
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
                self.assignable(from, to, depth + 1)
            }
            (Ty::Map(key, value), Ty::Map(to_key, to_value)) => {
                self.assignable(key, to_key, depth + 1) && self.assignable(value, to_value, depth + 1)
            }
            (from, to) => from == to,
        }
    }

    /// Whether a type is a value of a parameter, and whether the parameter has a value already.
    fn substitute(&mut self, ty: &Ty, number: u32, param: &Ty, depth: usize) -> (bool, bool) {
        if ty == param {
            return (true, true);
        }
        if let Some(known) = self.known.get(&number).cloned() {
            if self.is_same(ty, &known, depth) {
                return (true, true);
            }
            if !self.assignable(ty, &known, depth + 1) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if self.is_free_of(&general, number, depth) {
                self.determine(number, general);
            }
            return (true, true);
        }
        if self.is_free_of(ty, number, depth) {
            self.determine(number, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    fn is_same(&self, a: &Ty, b: &Ty, depth: usize) -> bool {
        self.visits(depth)
            && match (a, b) {
                (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => {
                    self.is_same(a, b, depth + 1)
                }
                (Ty::Map(key, value), Ty::Map(other_key, other_value)) => {
                    self.is_same(key, other_key, depth + 1) && self.is_same(value, other_value, depth + 1)
                }
                (a, b) => a == b,
            }
    }

    /// Whether a type does not contain a parameter.
    fn is_free_of(&self, ty: &Ty, number: u32, depth: usize) -> bool {
        self.visits(depth)
            && match ty {
                Ty::Param(other) if *other == number => false,
                Ty::Param(other) => {
                    self.known.get(other).is_none_or(|known| self.is_free_of(known, number, depth + 1))
                }
                ty => ty.parts().into_iter().all(|part| self.is_free_of(part, number, depth + 1)),
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
