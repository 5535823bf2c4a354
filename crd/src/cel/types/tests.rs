use super::check::check;
use super::*;
use crate::cel::check::parse_text;

fn checked(text: &str, declarations: &Declarations) -> Result<String, Vec<String>> {
    let parsed = parse_text(text)
        .map_err(|issues| issues.into_iter().map(|issue| issue.message).collect::<Vec<_>>())?;
    check(&parsed.expr, declarations)
        .map(|ty| ty.declared())
        .map_err(|mistakes| mistakes.into_iter().map(|(_, why)| why).collect())
}

#[test]
fn expressions_have_types() {
    let all = Declarations {
        has_params: true,
        has_authorizer: true,
        has_patch_types: true,
        is_review: false,
        variables: Some(vec![("n".to_owned(), Ty::Int), ("names".to_owned(), Ty::list(Ty::Text))]),
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
