//! Validates the combinations of schemas: `allOf`, `anyOf`, `oneOf` and `not`.

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::Value;

use super::BYTES_PER_STEP;
use crate::schema::Schema;

/// The cost of an error of a part, in steps: its path and its message are written, although other parts may fit.
const STEPS_PER_ERROR: usize = 64;

/// Appends the errors of the combinations of a schema.
pub(super) fn check(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    let subject = Subject { steps, path, value };
    if !schema.any_of.is_empty() && !schema.int_or_string {
        subject.any_of(&schema.any_of, errors)?;
    }
    if !schema.one_of.is_empty() {
        subject.one_of(&schema.one_of, errors)?;
    }
    if !schema.all_of.is_empty() {
        subject.all_of(&schema.all_of, errors)?;
    }
    if let Some(not) = &schema.not
        && subject.errors(not)?.is_empty()
    {
        subject.wrong("must not validate the schema (not)", errors);
    }
    Ok(())
}

/// The value that a combination is applied to.
struct Subject<'s> {
    steps: &'s Steps,
    path: &'s Path,
    value: &'s Value,
}

impl Subject<'_> {
    /// Returns the errors of a part.
    fn errors(&self, part: &Schema) -> Result<FieldErrors, OutOfSteps> {
        let mut errors = FieldErrors::new();
        super::check(self.steps, part, self.path, self.value, None, &mut errors)?;
        let text = |cause: &orlop_api::validate::Cause| cause.field.len() + cause.message.len();
        self.steps.take(errors.causes().iter().map(text).sum::<usize>() / BYTES_PER_STEP)?;
        self.steps.take(errors.len() * STEPS_PER_ERROR)?;
        Ok(errors)
    }

    fn wrong(&self, why: &str, errors: &mut FieldErrors) {
        if errors.is_full() {
            return;
        }
        let name = match self.path.to_string() {
            name if name == "<nil>" => String::new(),
            name => name,
        };
        errors.invalid(&Path::default(), "", &format!("{name:?} {why}"));
    }

    fn any_of(&self, parts: &[Schema], errors: &mut FieldErrors) -> Result<(), OutOfSteps> {
        let mut best = None;
        for part in parts {
            let found = self.errors(part)?;
            if found.is_empty() {
                return Ok(());
            }
            keep_fewest(&mut best, found);
        }
        self.wrong("must validate at least one schema (anyOf)", errors);
        errors.extend(best.unwrap_or_default());
        Ok(())
    }

    fn one_of(&self, parts: &[Schema], errors: &mut FieldErrors) -> Result<(), OutOfSteps> {
        let (mut best, mut fitting) = (None, 0);
        for part in parts {
            let found = self.errors(part)?;
            fitting += usize::from(found.is_empty());
            keep_fewest(&mut best, found);
        }
        if fitting == 0 {
            self.wrong("must validate one and only one schema (oneOf). Found none valid", errors);
            errors.extend(best.unwrap_or_default());
        } else if fitting > 1 {
            let why =
                format!("must validate one and only one schema (oneOf). Found {fitting} valid alternatives");
            self.wrong(&why, errors);
        }
        Ok(())
    }

    fn all_of(&self, parts: &[Schema], errors: &mut FieldErrors) -> Result<(), OutOfSteps> {
        let (mut all, mut failed) = (FieldErrors::new(), 0);
        for part in parts {
            let found = self.errors(part)?;
            failed += usize::from(!found.is_empty());
            all.extend(found);
        }
        if failed > 0 {
            let more = if failed == parts.len() { ". None validated" } else { "" };
            self.wrong(&format!("must validate all the schemas (allOf){more}"), errors);
            errors.extend(all);
        }
        Ok(())
    }
}

/// Keeps the errors of the part that is nearest to fit, the first of them.
fn keep_fewest(best: &mut Option<FieldErrors>, found: FieldErrors) {
    if best.as_ref().is_none_or(|best| found.len() < best.len()) {
        *best = Some(found);
    }
}
