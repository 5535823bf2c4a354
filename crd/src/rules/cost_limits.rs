//! Limits of the estimated costs of rules, for each and for all rules of a schema.
//!
//! Upstream: apiextensions-apiserver `pkg/apis/apiextensions/validation` (`cel_validation.go`, `getCostErrorMessage`).

use std::rc::Rc;

use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use crate::cel::estimate::{Decl, largest_cost};
use crate::cel::types::{Declarations, OwnType};
use crate::program::Program;
use crate::schema::Schema;

/// The largest estimated cost of a rule, for all the values that an object can contain.
const PER_RULE: u64 = 10_000_000;
/// The largest estimated cost of all rules of a schema.
const PER_SCHEMA: u64 = 100_000_000;
/// Rules that an error about the total lists.
const LISTED: usize = 4;

/// The estimated costs of the rules of a schema.
#[derive(Default)]
pub(crate) struct RuleCosts {
    total: u64,
    most_expensive: Vec<(u64, Path)>,
}

impl RuleCosts {
    fn add(&mut self, cost: u64, path: Path) {
        self.total = self.total.saturating_add(cost);
        if cost < PER_SCHEMA / 100 {
            return;
        }
        self.most_expensive.push((cost, path));
        self.most_expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(LISTED);
    }

    /// Reports a total above the limit. `path` is that of the schema.
    pub(crate) fn check(&self, path: &Path, errors: &mut FieldErrors) {
        if self.total <= PER_SCHEMA {
            return;
        }
        for (_, rule) in &self.most_expensive {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(rule, why);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, &exceeds(what, self.total, PER_SCHEMA));
    }
}

/// The values that a schema describes: their type, and how many an object can contain.
#[derive(Clone)]
pub(crate) struct Occurrence {
    /// `None` if no rule is here or above, or if rules cannot use the values.
    decl: Option<Rc<Decl>>,
    /// `None` if a list or a map above has no limit.
    most: Option<u64>,
}

impl Occurrence {
    /// A single value: the object itself.
    pub(crate) fn once() -> Self {
        Occurrence { decl: None, most: Some(1) }
    }

    /// The values of a schema at this place. The schema is read only where rules need it.
    pub(crate) fn declared(mut self, schema: &Schema, has_rules: bool, is_root: bool) -> Self {
        if self.decl.is_none() && has_rules {
            self.decl = Decl::of(schema, is_root).map(Rc::new);
        }
        self
    }

    /// Whether rules can use the values.
    pub(crate) fn is_declared(&self) -> bool {
        self.decl.is_some()
    }

    /// The variables of the rules.
    pub(crate) fn declarations(&self, has_optional_old: bool) -> Declarations {
        let own = self.decl.clone().map(|decl| decl as Rc<dyn OwnType>);
        Declarations { own, has_optional_old, ..Declarations::default() }
    }

    /// A property of an object.
    pub(crate) fn property(&self, name: &str) -> Self {
        Occurrence { decl: self.decl.as_ref().and_then(|decl| decl.property(name)), most: self.most }
    }

    /// The items of a list, or the values of a map, of which there are at most `limit`.
    pub(crate) fn element(&self, limit: Option<u64>) -> Self {
        let most = self.most.zip(limit).map(|(most, limit)| most.saturating_mul(limit));
        Occurrence { decl: self.decl.as_ref().and_then(|decl| decl.element()), most }
    }

    /// Checks the estimated cost of a rule, and adds it to the total.
    pub(crate) fn check_rule(
        &self,
        rule: &Program,
        path: &Path,
        costs: &mut RuleCosts,
        errors: &mut FieldErrors,
    ) {
        let Some(decl) = &self.decl else { return };
        let times = self.most.unwrap_or_else(|| decl.max_cardinality());
        let cost = largest_cost(rule, decl).saturating_mul(times);
        check("estimated rule cost", cost, path, costs, errors);
    }

    /// Checks the estimated cost of a message, and adds it to the total.
    pub(crate) fn check_message(
        &self,
        message: &Program,
        path: &Path,
        costs: &mut RuleCosts,
        errors: &mut FieldErrors,
    ) {
        let Some(decl) = &self.decl else { return };
        check("estimated messageExpression cost", largest_cost(message, decl), path, costs, errors);
    }
}

fn check(what: &str, cost: u64, path: &Path, costs: &mut RuleCosts, errors: &mut FieldErrors) {
    if cost > PER_RULE {
        errors.forbidden(path, &exceeds(what, cost, PER_RULE));
    }
    costs.add(cost, path.clone());
}

#[allow(clippy::cast_precision_loss)]
fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// The most items of a list, or values of a map, that a schema allows.
pub(crate) fn limit(schema: &Value) -> Option<u64> {
    let name = if schema["type"] == "array" { "maxItems" } else { "maxProperties" };
    schema[name].as_i64().map(|limit| u64::try_from(limit).unwrap_or(0))
}
