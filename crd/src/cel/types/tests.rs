use std::rc::Rc;

use super::check::check;
use super::*;
use crate::cel::check::parse_text;

fn checked(text: &str, declarations: &Declarations) -> Result<String, Vec<String>> {
    let parsed = parse_text(text)
        .map_err(|issues| issues.into_iter().map(|issue| issue.message).collect::<Vec<_>>())?;
    check(&parsed.expr, declarations, 100_000)
        .map(|ty| ty.declared())
        .map_err(|mistakes| mistakes.listed.into_iter().map(|(_, why)| why).collect())
}

#[test]
fn expressions_have_types() {
    let all = Declarations {
        has_params: true,
        has_authorizer: true,
        has_patch_types: true,
        is_review: false,
        variables: Some(Rc::new(
            [("n".to_owned(), Ty::Int), ("names".to_owned(), Ty::list(Ty::Text))].into_iter().collect(),
        )),
        is_device_selector: false,
        ..Declarations::default()
    };
    for (text, want) in [
        ("object.metadata.name", Ok("dyn")),
        ("object.metadata.name != 'x'", Ok("bool")),
        ("1 + 1", Ok("int")),
        ("has(object.data) ? object.data.size() : 0", Ok("int")),
        ("object.items.all(i, i.x > 1)", Ok("bool")),
        ("[1, 2].map(i, string(i))", Ok("list(string)")),
        ("[]", Ok("list(dyn)")),
        ("variables.n + 1", Ok("int")),
        ("variables.names.filter(n, n.startsWith('a'))", Ok("list(string)")),
        ("request.userInfo.username", Ok("string")),
        ("namespaceObject.metadata.labels['a']", Ok("string")),
        ("params.?data.x.orValue('y')", Ok("dyn")),
        ("authorizer.group('').resource('pods').check('get').allowed()", Ok("bool")),
        ("authorizer.requestResource.check('get').reason()", Ok("string")),
        ("Object{metadata: Object.metadata{labels: {'a': 'b'}}}", Ok("Object")),
        ("[JSONPatch{op: 'add', path: '/a', value: 1}]", Ok("list(JSONPatch)")),
        ("jsonpatch.escapeKey('a/b')", Ok("string")),
        ("nope == 1", Err("undeclared reference to 'nope' (in container '')")),
        ("object.foo()", Err("undeclared reference to 'foo' (in container '')")),
        ("'a' + 1", Err("found no matching overload for '_+_' applied to '(string, int)'")),
        ("'a'.startsWith(1)", Err("found no matching overload for 'startsWith' applied to 'string.(int)'")),
        ("1 && true", Err("expected type 'bool' but found 'int'")),
        ("request.nope", Err("undefined field 'nope'")),
        ("variables.nope", Err("undefined field 'nope'")),
        ("'a'.b", Err("type 'string' does not support field selection")),
        ("[1, 'a']", Err("expected type 'int' but found 'string'")),
        (
            "1.all(x, true)",
            Err(
                "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
            ),
        ),
        ("JSONPatch{op: 1}", Err("expected type of field 'op' is 'string' but provided type is 'int'")),
        ("Pod{}", Err("undeclared reference to 'Pod' (in container '')")),
    ] {
        let want = want.map(str::to_owned).map_err(|why| vec![why.to_owned()]);
        assert_eq!(checked(text, &all), want, "{text}");
    }
}

#[test]
fn only_declared_variables_exist() {
    let none = Declarations::default();
    for name in ["params", "authorizer", "variables", "self"] {
        let want = vec![format!("undeclared reference to '{name}' (in container '')")];
        assert_eq!(checked(&format!("{name}.x == 1"), &none), Err(want), "{name}");
    }
    assert!(checked("Object{}", &none).is_err());
}

/// An expression whose type is twice as large for each part.
fn doubling(parts: usize) -> String {
    let maps: String = (0..parts).map(|_| ".map(a, {a: a})").collect();
    format!("[1]{maps} == []")
}

#[test]
fn types_of_bounded_size_are_accepted() {
    let none = Declarations::default();
    assert_eq!(checked(&doubling(5), &none), Ok("bool".to_owned()));
    let complex = Err(vec!["the types of the expression are too complex".to_owned()]);
    assert_eq!(checked(&doubling(60), &none), complex);
    // The types of the variables are parameters, each of which contains the next one twice.
    let mut nested = "true".to_owned();
    (0..26).rev().for_each(|n| nested.push_str(&format!(" && [v{n}, {{v{0}: v{0}}}].size() > 0", n + 1)));
    (0..27).rev().for_each(|n| nested = format!("[].all(v{n}, {nested})"));
    assert_eq!(checked(&nested, &none), complex);
}

#[test]
fn types_of_variables_have_bounded_depth() {
    let mut fields = std::collections::HashMap::from([("v".to_owned(), Ty::Int)]);
    let mut failed = None;
    for depth in 0..2_000 {
        let with = Declarations { variables: Some(Rc::new(fields.clone())), ..Declarations::default() };
        let parsed = parse_text("[[[[variables.v]]]]").expect("valid");
        match check(&parsed.expr, &with, 100_000) {
            Ok(ty) => drop(fields.insert("v".to_owned(), ty)),
            Err(mistakes) => {
                failed = Some((depth, mistakes.listed));
                break;
            }
        }
    }
    let (depth, mistakes) = failed.expect("too deep");
    assert!(depth < 100, "{depth}");
    assert_eq!(mistakes[0].1, "the types of the expression are too complex");
}

#[test]
fn mistakes_are_listed_up_to_a_limit() {
    for (wrong, count, why) in [
        ("nope", 2_000, "undeclared reference"),
        // Correct types; the literals are not.
        ("duration('x')", 1_000, "invalid duration argument"),
    ] {
        let text = format!("[{}]", vec![wrong; count].join(", "));
        let error = compile(&text, &Declarations::default()).expect_err(wrong);
        let rest = format!("{} more errors were truncated", count - 100);
        assert!(error.ends_with(&rest), "{}", &error[error.len() - 100..]);
        assert_eq!(error.matches(why).count(), 100);
    }
}

#[test]
fn patterns_are_compiled_up_to_a_cost() {
    let wrong = |pattern: &str, count: usize| {
        let all = vec![format!("'a'.matches(r'{pattern}')"); count].join(", ");
        checked(&format!("[{all}]"), &Declarations::default()).err().unwrap_or_default()
    };
    assert_eq!(wrong("[a-z]+", 500), [""; 0]);
    assert_eq!(wrong("*", 1), ["invalid matches argument"]);
    // Each pattern costs 200 and its length.
    assert_eq!(wrong("*", 500).len(), 49);
    // These patterns are not correct, but they are not compiled.
    for costly in [r"(?i)[\x{0}-\x{10FFFF}](", r"(?xi)[\x{0} - \x{10FFFF}](", "((a{900}){900}"] {
        assert_eq!(wrong(costly, 1), [""; 0], "{costly}");
    }
}

#[test]
fn checks_are_linear() {
    let text = |n: usize| format!("[{}1 == 1]", "1 == 1, ".repeat(n));
    let parsed = |n: usize| parse_text(&text(n)).map_err(|_| n).expect("valid").expr;
    orlop_apimachinery::thread_time::assert_linear("calls", 150, parsed, |expr| {
        check(expr, &Declarations::default(), 1_000_000).expect("valid")
    });
}
