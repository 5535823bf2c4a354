//! The variables of an expression.

use std::collections::HashMap;

use super::access_question::DecidesAccess;
use super::{Program, Val};

/// The variables of an expression.
#[derive(Default)]
pub(crate) struct Input<'v> {
    roots: Vec<(&'static str, Val<'v>)>,
    lazy: Option<&'v LazyFields>,
    decides: Option<&'v dyn DecidesAccess>,
}

impl<'v> Input<'v> {
    /// The values of `self` and `oldSelf`.
    pub(crate) fn of_rule(own: Val<'v>, old: Option<Val<'v>>) -> Self {
        let mut input = Input::default();
        input.set("self", own);
        if let Some(old) = old {
            input.set("oldSelf", old);
        }
        input
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &'static str, value: Val<'v>) {
        self.roots.push((name, value));
    }

    /// Declares `variables`. A field is evaluated when it is first used.
    pub(crate) fn set_lazy(&mut self, variables: &'v LazyFields) {
        self.lazy = Some(variables);
        self.set("variables", Val::Variables);
    }

    /// Declares what `authorizer` asks.
    pub(crate) fn set_decides(&mut self, decides: &'v dyn DecidesAccess) {
        self.decides = Some(decides);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Val<'v>> {
        self.roots.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn decides(&self) -> Option<&'v dyn DecidesAccess> {
        self.decides
    }

    /// Returns a field of `variables`, and its position.
    pub(super) fn lazy(&self, name: &str) -> Option<(usize, &'v std::result::Result<Program, String>)> {
        let fields = self.lazy?;
        let place = *fields.places.get(name)?;
        Some((place, fields.programs.get(place)?))
    }
}

/// The fields of `variables`. Those that do not compile have an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyFields {
    programs: Vec<std::result::Result<Program, String>>,
    places: HashMap<String, usize>,
}

impl LazyFields {
    /// Adds a field. The last one of a name counts.
    pub(crate) fn push(&mut self, name: &str, program: std::result::Result<Program, String>) {
        self.places.insert(name.to_owned(), self.programs.len());
        self.programs.push(program);
    }
}

/// The values of `variables` that are known.
#[derive(Default)]
pub(crate) struct Memo<'v> {
    values: HashMap<usize, std::result::Result<Val<'v>, String>>,
    /// How many steps were nested too deep.
    pub(super) too_deep: usize,
}

impl<'v> Memo<'v> {
    pub(super) fn get(&self, place: usize) -> Option<std::result::Result<Val<'v>, String>> {
        self.values.get(&place).cloned()
    }

    pub(super) fn set(&mut self, place: usize, value: std::result::Result<Val<'v>, String>) {
        self.values.insert(place, value);
    }
}
