//! The parser, and the macros that it expands besides those of CEL's standard library: loops with two variables and
//! `sortBy`. The parser of the `cel` crate expands `optMap` and `optFlatMap` itself.
//!
//! Upstream: cel-go `ext/comprehensions.go`, `ext/lists.go`.

use std::sync::LazyLock;

use cel::Env;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};
use cel::parser::{Macro, MacroExprHelper, ParseError, Parser};

/// The variable in which macros collect their result.
pub(super) const RESULT: &str = "@result";
/// The name of that variable in expressions that other parsers have expanded.
const OLD_RESULT: &str = "__result__";
/// The list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";
/// The function that adds entries to a map.
pub(super) const MAP_INSERT: &str = "cel.@mapInsert";
/// The function that sorts a list by the keys in another list.
pub(super) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

type Arguments = Vec<IdedExpr>;
type Expanded = Result<Option<IdedExpr>, ParseError>;

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let mut add = |name: &str, count: usize, expand: fn(Loop<'_, '_>) -> Result<IdedExpr, ParseError>| {
        let expander = move |helper: &mut MacroExprHelper<'_>,
                             target: &mut Option<IdedExpr>,
                             args: &mut Arguments|
              -> Expanded {
            let range = target.take().unwrap_or_default();
            expand(Loop { make: Make(helper), range, args: std::mem::take(args) }).map(Some)
        };
        let added = env.add_macro(Macro::receiver(name, count, expander));
        debug_assert!(added.is_ok(), "{name}: {added:?}");
    };
    add("all", 3, all);
    add("exists", 3, exists);
    add("existsOne", 3, exists_one);
    add("exists_one", 3, exists_one);
    for count in [3, 4] {
        add("transformList", count, transform_list);
        add("transformMap", count, transform_map);
        add("transformMapEntry", count, transform_map_entry);
    }
    add("sortBy", 2, sort_by);
    env
});

/// Returns a parser.
pub(super) fn parser() -> Parser {
    ENV.parser().enable_optional_syntax(true)
}

/// The call of a macro.
struct Loop<'h, 'p> {
    make: Make<'h, 'p>,
    range: IdedExpr,
    args: Arguments,
}

/// The parts of the loop to which a macro expands.
struct Parts {
    init: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

impl Loop<'_, '_> {
    /// Takes the names of both variables.
    fn variables(&mut self) -> Result<(String, String), ParseError> {
        let first = self.variable(0)?;
        let second = self.variable(1)?;
        if first == second {
            let why = format!("duplicate variable name: {first}");
            return Err(self.make.0.new_error(self.args[1].id, why));
        }
        for (at, name) in [&first, &second].into_iter().enumerate() {
            if [RESULT, OLD_RESULT].contains(&name.as_str()) {
                let why = "iteration variable overwrites accumulator variable";
                return Err(self.make.0.new_error(self.args[at].id, why));
            }
        }
        self.args.drain(..2);
        Ok((first, second))
    }

    fn variable(&self, at: usize) -> Result<String, ParseError> {
        match self.args.get(at) {
            Some(IdedExpr { expr: Expr::Ident(name), .. }) => Ok(name.clone()),
            other => {
                let id = other.map_or(0, |arg| arg.id);
                Err(self.make.0.new_error(id, "argument must be a simple name"))
            }
        }
    }

    /// Takes the last argument. Macros are expanded only if all their arguments are there.
    fn last(&mut self) -> IdedExpr {
        self.args.pop().unwrap_or_default()
    }

    fn finish(mut self, (first, second): (String, String), parts: Parts) -> IdedExpr {
        self.make.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: self.range,
            iter_var: first,
            iter_var2: Some(second),
            accu_var: RESULT.to_owned(),
            accu_init: parts.init,
            loop_cond: parts.condition,
            loop_step: parts.step,
            result: parts.result,
        })))
    }

    /// Collects values: each step adds one, if the filter that may be there accepts it.
    fn collect(
        mut self,
        variables: (String, String),
        init: Expr,
        step: impl FnOnce(&mut Make<'_, '_>, IdedExpr) -> IdedExpr,
    ) -> IdedExpr {
        let value = self.last();
        let filter = self.args.pop();
        let make = &mut self.make;
        let init = make.node(init);
        let condition = make.flag(true);
        let step = step(make, value);
        let step = match filter {
            Some(filter) => {
                let unchanged = make.result();
                make.call("_?_:_", vec![filter, step, unchanged])
            }
            None => step,
        };
        let result = make.result();
        self.finish(variables, Parts { init, condition, step, result })
    }
}

/// Makes nodes.
struct Make<'h, 'p>(&'h mut MacroExprHelper<'p>);

impl Make<'_, '_> {
    fn node(&mut self, expr: Expr) -> IdedExpr {
        self.0.next_expr(expr)
    }

    fn ident(&mut self, name: &str) -> IdedExpr {
        self.node(Expr::Ident(name.to_owned()))
    }

    fn result(&mut self) -> IdedExpr {
        self.ident(RESULT)
    }

    fn flag(&mut self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn number(&mut self, value: i64) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }
}

fn all(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    let test = call.last();
    let make = &mut call.make;
    let init = make.flag(true);
    let so_far = make.result();
    let condition = make.call("@not_strictly_false", vec![so_far]);
    let so_far = make.result();
    let step = make.call("_&&_", vec![so_far, test]);
    let result = make.result();
    Ok(call.finish(variables, Parts { init, condition, step, result }))
}

fn exists(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    let test = call.last();
    let make = &mut call.make;
    let init = make.flag(false);
    let so_far = make.result();
    let none = make.call("!_", vec![so_far]);
    let condition = make.call("@not_strictly_false", vec![none]);
    let so_far = make.result();
    let step = make.call("_||_", vec![so_far, test]);
    let result = make.result();
    Ok(call.finish(variables, Parts { init, condition, step, result }))
}

fn exists_one(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    let test = call.last();
    let make = &mut call.make;
    let init = make.number(0);
    let condition = make.flag(true);
    let (so_far, one) = (make.result(), make.number(1));
    let more = make.call("_+_", vec![so_far, one]);
    let unchanged = make.result();
    let step = make.call("_?_:_", vec![test, more, unchanged]);
    let (total, one) = (make.result(), make.number(1));
    let result = make.call("_==_", vec![total, one]);
    Ok(call.finish(variables, Parts { init, condition, step, result }))
}

fn transform_list(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    Ok(call.collect(variables, Expr::List(ListExpr::default()), |make, value| {
        let so_far = make.result();
        let more = make.node(Expr::List(ListExpr::new(vec![value])));
        make.call("_+_", vec![so_far, more])
    }))
}

fn transform_map(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    let key = variables.0.clone();
    Ok(call.collect(variables, Expr::Map(MapExpr::default()), |make, value| {
        let (so_far, key) = (make.result(), make.ident(&key));
        make.call(MAP_INSERT, vec![so_far, key, value])
    }))
}

fn transform_map_entry(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let variables = call.variables()?;
    Ok(call.collect(variables, Expr::Map(MapExpr::default()), |make, entries| {
        let so_far = make.result();
        make.call(MAP_INSERT, vec![so_far, entries])
    }))
}

/// `list.sortBy(e, key)`: sorts the list by the keys of its items, as a variable, because it is read twice.
fn sort_by(mut call: Loop<'_, '_>) -> Result<IdedExpr, ParseError> {
    let is_list = matches!(
        call.range.expr,
        Expr::List(_) | Expr::Select(_) | Expr::Ident(_) | Expr::Comprehension(_) | Expr::Call(_)
    );
    if !is_list {
        let why =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(call.make.0.new_error(call.range.id, why));
    }
    let variable = call.variable(0)?;
    let key = call.last();
    let Loop { mut make, range, .. } = call;
    let keys = {
        let sorted = make.ident(SORTED);
        let init = make.node(Expr::List(ListExpr::default()));
        let condition = make.flag(true);
        let so_far = make.result();
        let more = make.node(Expr::List(ListExpr::new(vec![key])));
        let step = make.call("_+_", vec![so_far, more]);
        let result = make.result();
        make.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: sorted,
            iter_var: variable,
            iter_var2: None,
            accu_var: RESULT.to_owned(),
            accu_init: init,
            loop_cond: condition,
            loop_step: step,
            result,
        })))
    };
    let sorted = make.ident(SORTED);
    let sort = Expr::Call(CallExpr {
        func_name: SORT_BY_KEYS.to_owned(),
        target: Some(Box::new(sorted)),
        args: vec![keys],
    });
    let result = make.node(sort);
    let nothing = make.node(Expr::List(ListExpr::default()));
    let condition = make.flag(false);
    let step = make.ident(SORTED);
    Ok(make.node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: nothing,
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: SORTED.to_owned(),
        accu_init: range,
        loop_cond: condition,
        loop_step: step,
        result,
    }))))
}
