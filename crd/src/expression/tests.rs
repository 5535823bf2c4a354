use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use orlop_api::registry::expressions::{CompilesExpressions as _, ExpressionResult, ExpressionScope};

use super::*;

const ALL: ExpressionScope =
    ExpressionScope { has_params: true, has_authorizer: true, has_patch_types: true };

fn compiled(text: &str, result: ExpressionResult) -> Result<Expression, String> {
    Compiler::new(true).compile(text, ALL, result)
}

#[test]
fn errors_are_those_of_cel_go() {
    for (text, result, want) in [
        (
            "object.metadata.(",
            ExpressionResult::Bool,
            "compilation failed: ERROR: <input>:1:17: Syntax error: no viable alternative at input '.('\n | \
             object.metadata.(\n | ................^",
        ),
        (
            "'a' + 1 == 'a1'",
            ExpressionResult::Bool,
            "compilation failed: ERROR: <input>:1:5: found no matching overload for '_+_' applied to '(string, int)'\n | \
             'a' + 1 == 'a1'\n | ....^",
        ),
        (
            "object.foo()",
            ExpressionResult::Bool,
            "compilation failed: ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')\n | object.foo()\n | \
             ..........^",
        ),
        ("object.metadata.name", ExpressionResult::Bool, "must evaluate to bool but got dyn"),
        ("1", ExpressionResult::TextOrNull, "must evaluate to one of [string null_type] but got int"),
        ("'x'", ExpressionResult::JsonPatch, "must evaluate to list(JSONPatch) but got string"),
        ("1", ExpressionResult::ApplyConfiguration, "must evaluate to Object but got int"),
    ] {
        assert_eq!(compiled(text, result).map(drop), Err(want.to_owned()), "{text}");
    }
}

struct Alice;

impl DecidesAccess for Alice {
    fn decide(&self, question: &AccessQuestion) -> AccessAnswer {
        AccessAnswer { allowed: question.verb == "get", reason: format!("{:?}", question.service_account) }
    }
}

fn evaluated(text: &str, object: &Value) -> Result<Outcome, String> {
    let request = json!({"namespace": "n", "operation": "CREATE"});
    let mut compiler = Compiler::new(true);
    let mut variables = Variables::default();
    for (name, text) in [("n", "object.data.size()"), ("twice", "variables.n * 2"), ("bad", "object.nope.x")]
    {
        variables.push(name, compiler.variable(name, text, ALL));
    }
    let expression = compiler.compile(text, ALL, ExpressionResult::Bool)?;
    let values =
        Values { object: Some(object), request: Some(&request), access: Some(&Alice), ..Values::default() };
    let mut budget = CostBudget::of_policy();
    let outcomes = values.evaluate(&variables, &[Some(&expression)], &mut budget);
    outcomes.expect("a budget").remove(0).expect("an expression")
}

#[test]
fn variables_and_checks_are_evaluated() {
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}});
    let yes = Ok(Outcome::Bool(true));
    for (text, want) in [
        ("variables.twice == 4", yes.clone()),
        ("has(variables.n) && !has(object.metadata.labels)", yes.clone()),
        ("oldObject == null && request.namespace == 'n'", yes.clone()),
        ("authorizer.group('').resource('pods').namespace('n').check('get').allowed()", yes.clone()),
        ("!authorizer.serviceAccount('n', 's').path('/x').check('post').allowed()", yes),
        (
            "variables.bad == 1",
            Err("expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no \
                 such key: nope"
                .to_owned()),
        ),
        (
            "object.data.x == 'y'",
            Err("expression 'object.data.x == 'y'' resulted in error: no such key: x".to_owned()),
        ),
    ] {
        assert_eq!(evaluated(text, &object), want, "{text}");
    }
}

#[test]
fn mutations_are_made() {
    let object = json!({"data": {"k": "v"}});
    let values = Values { object: Some(&object), ..Values::default() };
    let apply = |text: &str| {
        let expression = compiled(text, ExpressionResult::ApplyConfiguration)?;
        values.apply_configuration(&Variables::default(), &expression, &mut CostBudget::of_policy())
    };
    let made = apply("Object{spec: Object.spec{list: [Object.spec.list{k: object.data.k}]}}");
    assert_eq!(made, Ok(json!({"spec": {"list": [{"k": "v"}]}})));
    let error = apply("Object{spec: Object.wrong{}}").expect_err("a wrong name");
    assert!(error.starts_with("type mismatch: unexpected type name \"Object.wrong\""), "{error}");
    let text = "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b~'), value: [1]}]";
    let patch = compiled(text, ExpressionResult::JsonPatch);
    let made = values.json_patch(&Variables::default(), &patch.expect("valid"), &mut CostBudget::of_policy());
    assert_eq!(made, Ok(vec![json!({"op": "add", "path": "/a~1b~0", "value": [1]})]));
}

#[test]
fn device_selectors_read_only_the_device() {
    let check = |text: &str| CelCompiler.check_device_selector(text);
    for text in [
        "device.driver == 'd.example.com'",
        "device.attributes['d.example.com'].model == 'a' && device.allowMultipleAllocations",
        "device.capacity['d.example.com'].memory.compareTo(quantity('8Gi')) >= 0",
        "device.attributes['d.example.com'].fw.isGreaterThan(semver('1.2.3'))",
        "device.attributes['d.example.com'].fast",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    let undeclared = |at: usize, name: &str, text: &str| {
        format!(
            "compilation failed: ERROR: <input>:1:{at}: undeclared reference to '{name}' (in container '')\n | {text}\n | \
             {}^",
            ".".repeat(at - 1)
        )
    };
    for (text, want) in [
        (
            "device.(",
            "compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.('\n | device.(\n | .......^"
                .to_owned(),
        ),
        ("1", "must evaluate to bool or the unknown type, not int".to_owned()),
        ("object.a", undeclared(1, "object", "object.a")),
    ] {
        assert_eq!(check(text), Err(want), "{text}");
    }
}

/// The fields of `variables`, in order.
fn declared(fields: impl IntoIterator<Item = (String, String)>) -> (Compiler, Variables) {
    let (mut compiler, mut variables) = (Compiler::new(true), Variables::default());
    for (name, text) in fields {
        variables.push(&name, compiler.variable(&name, &text, ALL));
    }
    (compiler, variables)
}

/// Variables `v0` to `vN`, each of which uses the one before.
fn chain(length: usize, next: &str) -> (Compiler, Variables) {
    let text = |n: usize| match n.checked_sub(1) {
        None => "1".to_owned(),
        Some(before) => next.replace('@', &format!("variables.v{before}")),
    };
    declared((0..=length).map(|n| (format!("v{n}"), text(n))))
}

fn outcomes(
    (compiler, variables): &(Compiler, Variables),
    texts: &[&str],
    object: &Value,
) -> Vec<Result<Outcome, String>> {
    let expressions: Vec<Expression> =
        texts.iter().map(|text| compiler.compile(text, ALL, ExpressionResult::Bool).expect(text)).collect();
    let expressions: Vec<Option<&Expression>> = expressions.iter().map(Some).collect();
    let values = Values { object: Some(object), ..Values::default() };
    let outcomes = values.evaluate(variables, &expressions, &mut CostBudget::of_policy());
    outcomes.expect("a budget").into_iter().map(|outcome| outcome.expect("an expression")).collect()
}

#[test]
fn depth_of_chained_variables_is_bounded() {
    let yes = Ok(Outcome::Bool(true));
    let short = chain(100, "@ + 1");
    assert_eq!(outcomes(&short, &["variables.v100 == 101"], &Value::Null), std::slice::from_ref(&yes));
    for next in ["@ + 1", "@", "[@].all(x, x == 1) ? 1 : 2", "-(-@) + 0", "[[@]][0][0]"] {
        let long = chain(300, next);
        let [first, second]: [_; 2] =
            outcomes(&long, &["variables.v300 == 1", "variables.v1 > 0"], &Value::Null)
                .try_into()
                .expect("two");
        let error = first.expect_err(next);
        assert!(error.contains("composited variable \"v300\" fails to evaluate"), "{error}");
        assert!(error.contains("nested more than 250 levels deep"), "{error}");
        assert!(error.len() < 1_200, "{} bytes", error.len());
        assert_eq!(second, yes, "{next}");
    }
    let deep = chain(300, "@ + 1");
    // Each expression begins where the one before has ended.
    let steps: Vec<String> = (0..=300).step_by(100).map(|n| format!("variables.v{n} == {}", n + 1)).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(outcomes(&deep, &steps, &Value::Null), vec![yes; 4]);
}

#[test]
fn variables_that_were_too_deep_are_evaluated_less_deep() {
    let nested = format!("variables.v100{} == 161", " + 1".repeat(60));
    let [first, second]: [_; 2] =
        outcomes(&chain(100, "@ + 1"), &[&nested, "variables.v100 == 101"], &Value::Null)
            .try_into()
            .expect("two");
    let error = first.expect_err("too deep");
    assert!(error.contains("nested more than 250 levels deep"), "{error}");
    assert_eq!(second, Ok(Outcome::Bool(true)));

    // Both operands are evaluated if they fail, so the number of evaluations doubles with each variable.
    let (compiler, variables) = chain(300, "@ == 1 || @ == 2 ? 1 : 2");
    let expression = compiler.compile("variables.v300 == 1", ALL, ExpressionResult::Bool).expect("valid");
    let outcome = Values::default().evaluate(&variables, &[Some(&expression)], &mut CostBudget::of_policy());
    assert_eq!(outcome.map(drop), Err(OutOfBudget));
}

#[test]
fn depth_of_computed_values_is_bounded() {
    let nested = chain(600, "dyn([@])");
    let texts: Vec<String> = (0..=600).step_by(50).map(|n| format!("variables.v{n} != 0")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = outcomes(&nested, &texts, &Value::Null);
    assert_eq!(found[3], Ok(Outcome::Bool(true)));
    let error = found[12].as_ref().expect_err("too deep");
    assert!(error.contains("actual cost limit exceeded"), "{error}");
}

#[test]
fn deepest_expression_is_evaluated() {
    let object = json!({"l": [1]});
    let (mut sum, mut loops) = ("1".to_owned(), "true".to_owned());
    (0..240).for_each(|_| sum.push_str(" + 1"));
    (0..20).for_each(|_| loops = format!("object.l.all(x, {loops} || x == 2)"));
    let none = declared([]);
    for text in [format!("{sum} == 241"), loops] {
        assert_eq!(outcomes(&none, &[&text], &object), [Ok(Outcome::Bool(true))], "{text}");
    }
}

#[test]
fn depth_includes_the_fields_of_objects() {
    for text in [
        format!("Object{{spec: object{}}}", ".a".repeat(7_000)),
        format!("Object{{spec: 1{}}}", " + 1".repeat(3_500)),
        format!("[JSONPatch{{op: 'add', value: -(1{})}}]", " + 1".repeat(300)),
    ] {
        let error = compiled(&text, ExpressionResult::ApplyConfiguration).map(drop).expect_err("too deep");
        assert!(error.contains("more than 250 levels"), "{}", error.len());
    }
}

#[test]
fn variables_are_compiled_and_found_in_linear_time() {
    let fields = |n: usize| -> Vec<(String, String)> {
        (0..n).map(|n| (format!("variable{n:060}"), "1".to_owned())).collect()
    };
    assert_linear("compiled variables", 100, fields, |fields| declared(fields.clone()));
    let policy = |n: usize| {
        let all: Vec<String> = (0..100).map(|at| format!("variables.v{:06} == 1", n - 1 - at)).collect();
        let (compiler, variables) = declared((0..n).map(|n| (format!("v{n:06}"), "1".to_owned())));
        let text = format!("object.l.all(x, {})", all.join(" && "));
        let expression = compiler.compile(&text, ALL, ExpressionResult::Bool).expect("valid");
        let object = json!({"l": vec![0; n]});
        (variables, expression, object)
    };
    assert_linear("used variables", 100, policy, |(variables, expression, object)| {
        let values = Values { object: Some(object), ..Values::default() };
        values.evaluate(variables, &[Some(expression)], &mut CostBudget::of_policy()).expect("a budget")
    });
}

#[test]
fn wrong_names_are_listed_up_to_a_limit() {
    let object = json!({"l": vec![0; 500]});
    let text = "Object{spec: Object.spec{l: object.l.map(x, Object.wrong{a: x})}}";
    let expression = compiled(text, ExpressionResult::ApplyConfiguration).expect("valid");
    let values = Values { object: Some(&object), ..Values::default() };
    let made = values.apply_configuration(&Variables::default(), &expression, &mut CostBudget::of_policy());
    assert_eq!(made.expect_err("wrong names").matches("unexpected type name").count(), 16);
}
