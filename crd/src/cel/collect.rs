//! Steps of loops that add to the list or map which the loop collects. They change it in place: a copy for each step
//! would cost time that is quadratic in its size.

use std::rc::Rc;

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr};

use super::Val;
use super::cost::{Result, fail};
use super::eval::Run;
use super::macros::MAP_INSERT;
use super::shown::shown;

/// A step that adds to the collected value.
enum Addition<'v> {
    /// An item of a list.
    Item(&'v IdedExpr),
    /// A key and its value.
    Entry(&'v IdedExpr, &'v IdedExpr),
    /// A map of entries.
    Entries(&'v IdedExpr),
}

/// Returns the filter, if there is one, and the addition of a loop that collects values.
fn addition(all: &ComprehensionExpr) -> Option<(Option<&IdedExpr>, Addition<'_>)> {
    let is_collected = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == all.accu_var);
    let Expr::Call(step) = &all.loop_step.expr else { return None };
    let (filter, step) = match (step.func_name.as_str(), step.args.as_slice()) {
        ("_?_:_", [filter, more, unchanged]) if is_collected(unchanged) => match &more.expr {
            Expr::Call(more) => (Some(filter), more),
            _ => return None,
        },
        _ => (None, step),
    };
    let addition = match (step.func_name.as_str(), step.args.as_slice()) {
        ("_+_", [list, more]) if is_collected(list) => match &more.expr {
            Expr::List(more) if more.optional_indices.is_empty() => match more.elements.as_slice() {
                [item] => Addition::Item(item),
                _ => return None,
            },
            _ => return None,
        },
        (MAP_INSERT, [map, key, value]) if is_collected(map) => Addition::Entry(key, value),
        (MAP_INSERT, [map, entries]) if is_collected(map) => Addition::Entries(entries),
        _ => return None,
    };
    Some((filter, addition))
}

impl<'v> Run<'v, '_> {
    /// Executes the step of a loop if it adds to the collected value, which is at `place` of the variables.
    pub(super) fn collect(&mut self, all: &'v ComprehensionExpr, place: usize) -> Result<bool> {
        let Some((filter, addition)) = addition(all) else { return Ok(false) };
        let is_collected = match (&addition, &self.bound[place].1) {
            (Addition::Item(_), collected) => matches!(collected, Val::List(_)),
            (Addition::Entry(..) | Addition::Entries(_), collected) => matches!(collected, Val::Map(_)),
        };
        if !is_collected {
            return Ok(false);
        }
        if let Some(filter) = filter {
            match self.expr(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(true),
                _ => return fail("no such overload"),
            }
        }
        match addition {
            Addition::Item(item) => {
                let item = self.expr(item)?;
                self.meter.pay(2 + item.weight())?;
                if let Val::List(list) = &mut self.bound[place].1 {
                    Rc::make_mut(list).push(item);
                }
            }
            // The keys are those of another map, or positions: they differ.
            Addition::Entry(key, value) => {
                let entry = (self.expr(key)?, self.expr(value)?);
                self.insert(place, entry)?;
            }
            Addition::Entries(entries) => {
                let entries = self.expr(entries)?;
                for (key, value) in entries.members(&mut self.meter)? {
                    let known = self.bound[place].1.get(&key, &mut self.meter)?;
                    if known.is_some() {
                        return fail(format!("insert failed: key {} already exists", shown(&key)));
                    }
                    self.insert(place, (key, value))?;
                }
            }
        }
        Ok(true)
    }

    fn insert(&mut self, place: usize, entry: (Val<'v>, Val<'v>)) -> Result<()> {
        self.meter.pay(2 + entry.0.weight() + entry.1.weight())?;
        if let Val::Map(pairs) = &mut self.bound[place].1 {
            Rc::make_mut(pairs).push(entry);
        }
        Ok(())
    }
}
