//! The overloads of all functions.

use std::collections::HashMap;
use std::rc::Rc;

use super::ty::{COMPARABLE_PARAMETER, Ty};

/// One line for each overload: the name, with a dot before that of a method, the types of the arguments, and the type of
/// the result. The receiver of a method is its first argument. A line with `C` has an overload for each comparable type.
const TEXT: &str = include_str!("functions.txt");

/// The types whose values have an order, for the functions of lists.
const COMPARABLE: [Ty; 8] =
    [Ty::Int, Ty::Uint, Ty::Double, Ty::Bool, Ty::Duration, Ty::Timestamp, Ty::Text, Ty::Bytes];

/// An overload of a function.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    pub(super) is_method: bool,
    pub(super) args: Vec<Ty>,
    pub(super) result: Ty,
}

/// The overloads by name.
pub(super) type Functions = Rc<HashMap<&'static str, Vec<Overload>>>;

thread_local! {
    static FUNCTIONS: Functions = Rc::new(read());
}

/// Returns all functions.
pub(super) fn functions() -> Functions {
    FUNCTIONS.with(Rc::clone)
}

fn read() -> HashMap<&'static str, Vec<Overload>> {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for (name, overload) in TEXT.lines().filter_map(overload) {
        // The comparisons have the same overloads.
        let names: &[&'static str] = if name == "_<_" { &["_<_", "_<=_", "_>_", "_>=_"] } else { &[name] };
        for name in names {
            functions.entry(name).or_default().extend(variants(&overload));
        }
    }
    functions
}

/// Returns an overload for each comparable type, if it has a parameter for them.
fn variants(overload: &Overload) -> Vec<Overload> {
    let has_parameter = overload.args.iter().any(|arg| *arg == Ty::list(Ty::Param(COMPARABLE_PARAMETER)));
    if !has_parameter {
        return vec![overload.clone()];
    }
    let with = |ty: &Ty| {
        let replaced = |of: &Ty| of.replaced(&|number| (number == COMPARABLE_PARAMETER).then(|| ty.clone()));
        let args = overload.args.iter().map(replaced).collect();
        Overload { is_method: overload.is_method, args, result: replaced(&overload.result) }
    };
    COMPARABLE.iter().map(with).collect()
}

fn overload(line: &'static str) -> Option<(&'static str, Overload)> {
    let (left, result) = line.split_once("-> ")?;
    let mut words = left.split_whitespace();
    let name = words.next()?;
    let args = words.map(Ty::parse).collect::<Option<_>>()?;
    let plain = name.strip_prefix('.');
    let is_method = plain.is_some();
    Some((plain.unwrap_or(name), Overload { is_method, args, result: Ty::parse(result)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_overload() {
        for line in TEXT.lines() {
            assert!(overload(line).is_some(), "{line}");
        }
        assert_eq!(functions()["_>_"].len(), functions()["_<_"].len());
    }
}
