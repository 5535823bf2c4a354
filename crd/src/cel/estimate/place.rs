//! The place of a value in the object.
//!
//! Upstream: the paths of cel-go `checker/cost.go`. Go's `append` writes to the array of the path that it extends if that has spare
//! capacity, so `x.b` changes a path `x.a` that is still in use: the size of the list in `x.a.all(y, x.b > 0)`, read after the
//! body, is that of `x.b`. Which definitions a server accepts depends on this, so arrays are shared here too.

use std::cell::RefCell;
use std::rc::Rc;

use super::decl::Decl;
use super::size::Size;

/// A step from a value to a part of it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// To the variable itself.
    Variable,
    Field(Rc<str>),
    /// To an item of a list or a value of a map.
    Element,
    /// To a key of a map.
    Key,
    /// To the index of an item.
    Index,
}

/// The steps from a variable to a value; none if the value is computed.
#[derive(Clone, Default)]
pub(super) struct Place {
    steps: Rc<RefCell<Vec<Step>>>,
    length: usize,
    capacity: usize,
}

impl Place {
    pub(super) fn variable() -> Self {
        Place::default().part(Step::Variable)
    }

    /// The place of a part.
    pub(super) fn part(&self, step: Step) -> Self {
        let length = self.length + 1;
        if length <= self.capacity {
            let mut steps = self.steps.borrow_mut();
            match steps.get_mut(self.length) {
                Some(last) => *last = step,
                None => steps.push(step),
            }
            return Place { steps: self.steps.clone(), length, capacity: self.capacity };
        }
        let mut steps: Vec<Step> = self.steps.borrow().iter().take(self.length).cloned().collect();
        steps.push(step);
        let capacity = (2 * self.capacity).max(1);
        Place { steps: Rc::new(RefCell::new(steps)), length, capacity }
    }

    /// The declaration of the value, if the schema has one. The first step leads to the declaration of `self`, whatever it is:
    /// so do parts of computed values.
    pub(super) fn decl(&self, own: &Rc<Decl>) -> Option<Rc<Decl>> {
        let steps = self.steps.borrow();
        let mut steps = steps.iter().take(self.length);
        steps.next()?;
        steps.try_fold(own.clone(), |decl, step| match step {
            Step::Field(name) => decl.field(name),
            Step::Element => decl.element(),
            Step::Key => decl.key(),
            Step::Variable | Step::Index => None,
        })
    }

    /// The size of the value, if the schema declares it.
    pub(super) fn size(&self, own: &Rc<Decl>) -> Option<Size> {
        self.decl(own).map(|decl| Size { min: 0, max: decl.max_elements })
    }
}
