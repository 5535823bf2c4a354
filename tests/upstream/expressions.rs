//! CEL libraries in definitions and policies (upstream: apiserver `pkg/cel/environment/base.go` lists them). The values
//! of the functions have unit tests in `crd`.

use serde_json::{Value, json};

use super::server;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

fn definition(rule: &Value) -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule],
                    "properties": {
                        "name": {"type": "string", "maxLength": 63},
                        "version": {"type": "string", "maxLength": 20},
                        "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
                        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
                        "open": {"type": "array", "items": {"type": "integer"}},
                    }}},
            }}}],
        },
    })
}

fn policy(expression: &str) -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}]},
            "validations": [{"expression": expression}],
        },
    })
}

/// The texts are those of cel-go 0.26 (`cel/validator.go`, `ext/formatting.go`, `checker/errors.go`), in the form of
/// the recorded answers of kube-apiserver 1.36.2 to definitions with wrong rules. `estimated` is the limit of
/// apiextensions-apiserver `pkg/apis/apiextensions/validation`.
#[tokio::test]
async fn definitions_and_policies_have_the_libraries_of_upstream() {
    let (_plane, http) = server().await;
    let estimated = "estimated rule cost exceeds budget";
    let rows = [
        ("!format.dns1123Label().validate(self.name).hasValue()", Ok(())),
        ("isSemver(self.version, true) && semver(self.version, true).major() < 2", Ok(())),
        ("self.list.all(i, v, i <= v) && self.map.transformList(k, v, v).sum() < 9", Ok(())),
        ("self.?name.optMap(n, n.size()).orValue(0) < 9 && self.list.sort().distinct() == self.list", Ok(())),
        ("'%s-%d'.format([self.name, self.list.size()]) != 'a-0'", Ok(())),
        (
            "'%d'.format([self.name]) == ''",
            Err(
                "<input>:1:18: error during formatting: decimal clause can only be used on integers, was given string",
            ),
        ),
        ("'%s %s'.format([self.name]) == ''", Err("<input>:1:15: index 1 out of range")),
        ("self.name.matches('(')", Err("<input>:1:19: invalid matches argument")),
        ("duration('1d') < duration('2h')", Err("<input>:1:10: invalid duration argument")),
        ("timestamp('today') < timestamp(0)", Err("<input>:1:11: invalid timestamp argument")),
        ("self.name in ['a', 1]", Err("<input>:1:20: expected type 'string' but found 'int'")),
        ("self.list.all(i, i, true)", Err("duplicate variable name: i")),
        ("self.name.reverse() == ''", Err("found no matching overload for 'reverse' applied to 'string.()'")),
        ("cel.bind(x, 1, x == 1)", Err("undeclared reference to 'cel'")),
        ("self.open.distinct().size() == 1", Err(estimated)),
        ("self.open.sort() == self.open", Err(estimated)),
    ];
    let mut wrong = Vec::new();
    for (rule, want) in rows {
        let answer =
            http.post(&format!("{DEFINITIONS}?dryRun=All"), &definition(&json!({"rule": rule}))).await;
        let fits = match want {
            Ok(()) => answer.code == 201,
            Err(text) => answer.code == 422 && answer.text().contains(text),
        };
        if !fits {
            wrong.push(format!("rule {rule}: want {want:?}, got {} {}", answer.code, answer.text()));
        }
    }
    let authorized = "authorizer.group('').resource('pods').subresource('log').namespace('a').name('b')\
                      .fieldSelector('spec.nodeName=n').labelSelector('a=b').check('get')";
    for (expression, want) in [
        (format!("{authorized}.allowed() && {authorized}.reason() == '' && !{authorized}.errored()"), Ok(())),
        ("authorizer.path('/healthz').check('get').allowed()".to_owned(), Ok(())),
        ("semver('1.2.3').isLessThan(semver('2.0.0')) && !format.named('x').hasValue()".to_owned(), Ok(())),
        ("object.data.transformMap(k, v, v.size()).all(k, v, v < 9)".to_owned(), Ok(())),
        (
            "'%b'.format(['a']) == ''".to_owned(),
            Err("only integers and bools can be formatted as binary, was given string"),
        ),
        ("object.data.a.matches('[')".to_owned(), Err("invalid matches argument")),
    ] {
        let answer = http.post(&format!("{POLICIES}?dryRun=All"), &policy(&expression)).await;
        let fits = match want {
            Ok(()) => answer.code == 201,
            Err(text) => answer.code == 422 && answer.text().contains(text),
        };
        if !fits {
            wrong.push(format!("policy {expression}: want {want:?}, got {} {}", answer.code, answer.text()));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
