//! Functions of named formats.
//!
//! Upstream: apiserver `pkg/cel/library/format.go`.

use std::rc::Rc;

use super::Val;
use super::cost::{Meter, Result};
use super::named_format::returned_by;

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "format.named" | "validate") || returned_by(name).is_some()
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    match (name, args) {
        ("format.named", [Val::Text(text)]) => {
            let found = returned_by(&format!("format.{}", text.as_ref()));
            Some(Ok(Val::Optional(found.map(|format| Rc::new(Val::Format(format))))))
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            let cost = (1 + text.len() as u64 / 10).saturating_mul(1 + format.pattern / 4);
            if let Err(failure) = meter.pay(cost) {
                return Some(Err(failure));
            }
            let mistakes = (format.validate)(text);
            let mistakes: Vec<Val<'v>> = mistakes.iter().map(|why| Val::text(why)).collect();
            Some(Ok(Val::Optional((!mistakes.is_empty()).then(|| Rc::new(Val::List(Rc::new(mistakes)))))))
        }
        (function, []) => returned_by(function).map(|format| Ok(Val::Format(format))),
        _ => None,
    }
}
