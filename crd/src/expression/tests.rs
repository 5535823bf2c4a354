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
