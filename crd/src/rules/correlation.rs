//! Decides whether the value of a rule is unchanged.
//!
//! A value without a counterpart, such as an item of an atomic list, is unchanged if the nearest value above that has
//! a counterpart is. Upstream: apiextensions-apiserver `pkg/apiserver/schema/cel` (`ratchetingOptions`).

use orlop_apimachinery::steps::Steps;
use serde_json::Value;

use crate::schema::{Items, Schema};
use crate::validate::{is_unchanged, member};

/// A value, and its stored value.
#[derive(Clone, Copy)]
struct Pair<'v> {
    schema: &'v Schema,
    value: &'v Value,
    old: &'v Value,
}

/// The position of a value in the stored object.
#[derive(Clone, Copy, Default)]
pub(super) struct Correlation<'v> {
    /// `None` if the value has no counterpart.
    own: Option<Pair<'v>>,
    /// The nearest value above that has a counterpart; `None` at the root.
    above: Option<Pair<'v>>,
}

impl<'v> Correlation<'v> {
    /// The position of the object itself.
    pub(super) fn root(schema: &'v Schema, value: &'v Value, old: &'v Value) -> Self {
        Correlation { own: Some(Pair { schema, value, old }), above: None }
    }

    /// The position of a member.
    pub(super) fn member(self, name: &str) -> Self {
        let Some(own) = self.own else { return self };
        if self.above.is_none() && matches!(name, "apiVersion" | "kind") {
            // Both objects have the version of the request.
            return Correlation::default();
        }
        let pair = || {
            let schema = member(own.schema, name)?;
            Some(Pair { schema, value: own.value.get(name)?, old: own.old.get(name)? })
        };
        Correlation { own: pair(), above: Some(own) }
    }

    /// The position of an item; `twin` is the stored item with the same keys.
    pub(super) fn item(self, schema: &'v Schema, value: &'v Value, twin: Option<&'v Value>) -> Self {
        let Some(own) = self.own else { return self };
        let is_keyed = matches!(own.schema.list, Items::Map(_));
        let pair = twin.filter(|_| is_keyed).map(|old| Pair { schema, value, old });
        Correlation { own: pair, above: Some(own) }
    }

    /// Whether errors of the value are those of the stored object.
    pub(super) fn is_unchanged(self, steps: &Steps) -> bool {
        self.own
            .or(self.above)
            .is_some_and(|pair| is_unchanged(pair.schema, pair.value, pair.old, steps).unwrap_or(false))
    }
}
