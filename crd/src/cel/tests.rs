use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

fn run(text: &str, own: &Value, schema: &Schema) -> Result<String, String> {
    let program = Program::parse(text)?;
    let input = Input::of_rule(Val::of(own, Some(schema)), None);
    match program.run(&input, &mut Budget::new()) {
        Ok(value) => Ok(super::shown::shown(&value)),
        Err(Failure::Error(why)) => Err(why),
        Err(other) => Err(format!("{other:?}")),
    }
}

fn subject() -> (Value, Schema) {
    let value = json!({
        "n": 3, "ratio": 2, "text": "Hello World", "list": [3, 1, 2], "names": ["a", "b", "a"],
        "map": {"k": "v", "x-y": "z"}, "objects": [{"name": "a", "on": true}, {"name": "b", "on": false}],
        "when": "2026-01-02T03:04:05Z", "span": "1h30m", "port": 80, "dash-ed": 1, "memory": "1Gi",
    });
    let schema = Schema::of(&json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "ratio": {"type": "number"}, "text": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "names": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "objects": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "on": {"type": "boolean"}}}},
        "when": {"type": "string", "format": "date-time"}, "span": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": true}, "dash-ed": {"type": "integer"},
        "memory": {"type": "string"}, "missing": {"type": "string"},
    }}));
    (value, schema)
}

#[test]
fn expressions_return_the_expected_values() {
    let (value, schema) = subject();
    for (text, want) in [
        ("self.n + 2 * 3 - 1", "8"),
        ("self.n / 2 == 1 && self.n % 2 == 1", "true"),
        ("self.ratio / 4.0", "0.5"),
        ("self.ratio == 2", "true"),
        ("-self.n", "-3"),
        ("self.n > 2 ? 'big' : 'small'", "big"),
        ("has(self.missing)", "false"),
        ("has(self.text) && !has(self.missing)", "true"),
        ("!has(self.missing) || self.missing == 'x'", "true"),
        ("self.missing == 'x' || true", "true"),
        ("self.list.all(x, x > 0)", "true"),
        ("self.list.exists(x, x == 2)", "true"),
        ("self.list.exists_one(x, x > 2)", "true"),
        ("self.list.map(x, x * 2) == [6, 2, 4]", "true"),
        ("self.list.filter(x, x > 1).size()", "2"),
        ("self.objects.all(o, o.on || o.name == 'b')", "true"),
        ("self.objects.filter(o, o.on).map(o, o.name) == ['a']", "true"),
        ("self.map.all(k, self.map[k].size() == 1)", "true"),
        ("'k' in self.map && !('q' in self.map)", "true"),
        ("self.map.k + self.map['x-y']", "vz"),
        ("2 in self.list", "true"),
        ("size(self.text)", "11"),
        (
            "self.text.startsWith('Hello') && self.text.endsWith('World') && self.text.contains('lo W')",
            "true",
        ),
        ("self.text.matches('^[A-Z][a-z]+ World$')", "true"),
        ("self.text.lowerAscii().replace('world', 'there')", "hello there"),
        ("self.text.split(' ')[1].substring(1, 3)", "or"),
        ("self.text.indexOf('o')", "4"),
        ("['a', 'b'].join('-')", "a-b"),
        ("self.list.isSorted()", "false"),
        ("self.list.sum() + self.list.min() + self.list.max()", "10"),
        ("self.names.indexOf('b') + self.names.lastIndexOf('a')", "3"),
        ("'abc123'.find('[0-9]+')", "123"),
        ("'a1b22'.findAll('[0-9]+') == ['1', '22']", "true"),
        ("quantity(self.memory).isGreaterThan(quantity('500Mi'))", "true"),
        ("isQuantity('5Gi') && !isQuantity('x')", "true"),
        ("quantity('1k').compareTo(quantity('1000'))", "0"),
        ("url('https://user@example.com:8080/a?x=1').getHost()", "example.com:8080"),
        ("isURL('https://a/b') && !isURL('no')", "true"),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true"),
        ("cidr('10.1.0.0/16').masked().prefixLength()", "16"),
        ("isIP('::1') && ip('127.0.0.1').isLoopback() && ip('1.2.3.4').family() == 4", "true"),
        ("ip.isCanonical('::1')", "true"),
        ("self.when > timestamp('2026-01-01T00:00:00Z')", "true"),
        ("self.when.getFullYear()", "2026"),
        ("self.span == duration('90m') && self.span.getMinutes() == 90", "true"),
        ("type(self.n) == int", "true"),
        ("type(self.port) == int ? self.port > 1 : self.port == 'http'", "true"),
        ("string(self.n) + string(true)", "3true"),
        ("int('42') + int(2.9)", "44"),
        ("self.?missing.orValue('none')", "none"),
        ("self.?text.hasValue()", "true"),
        ("optional.of(1).value()", "1"),
        ("self.map[?'k'].orValue('-')", "v"),
        ("self.__dash__ == 1 || true", "true"),
        ("self.dash__dash__ed", "1"),
        ("sets.contains(self.list, [1, 2]) && sets.intersects([1, 9], self.list)", "true"),
        ("{'a': 1, 'b': 2}.size()", "2"),
        ("dyn(1) == 1.0", "true"),
        ("'\u{e9}a'.charAt(0) == '\u{e9}'", "true"),
    ] {
        assert_eq!(run(text, &value, &schema), Ok(want.to_owned()), "{text}");
    }
}

#[test]
fn failed_expressions_report_the_cause() {
    let (value, schema) = subject();
    for (text, want) in [
        ("self.missing == 'x'", "no such key: missing"),
        ("self.list[9]", "index out of bounds: 9"),
        ("self.map['q']", "no such key: q"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("self.n + 'x'", "no such overload"),
        ("quantity('x')", "quantities must match"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'x'.matches('(')", "error parsing regexp"),
    ] {
        let found = run(text, &value, &schema);
        assert!(found.as_ref().is_err_and(|why| why.contains(want)), "{text}: {found:?}");
    }
}

#[test]
fn invalid_or_oversized_expressions_do_not_compile() {
    for text in ["", "self.", "frob(self)", "a.b", "Message{}", "self.all(x, y > 1)"] {
        assert!(Program::parse(text).is_err(), "{text}");
    }
    for (case, text) in [
        ("1 brackets", format!("{}1{}", "(".repeat(5000), ")".repeat(5000))),
        ("2 long", "1+".repeat(20_000)),
        ("3 many terms", format!("{}1 > 0", "1+".repeat(7000))),
        ("4 many choices", format!("{}true", "true?true:".repeat(1500))),
        ("5 many members", format!("self{}", ".a".repeat(7000))),
        ("6 lists", format!("{}1{}", "[".repeat(33), "]".repeat(33))),
    ] {
        assert!(Program::parse(&text).is_err(), "{case}");
    }
    assert!(Program::parse(&format!("{}true{}", "(".repeat(30), ")".repeat(30))).is_ok());
}

#[test]
fn repeated_replacement_exceeds_the_cost_limit() {
    let (value, schema) = subject();
    let text = "[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, 'xxxxxxxxxxxxxxxx'.replace('x', 'yyyyyyyyyyyyyyyy')\
                .replace('y', 'zzzzzzzzzzzzzzzz').replace('z', 'wwwwwwwwwwwwwwww').replace('w', 'vvvvvvvvvvvvvvvv')\
                .replace('v', 'uuuuuuuuuuuuuuuu')))";
    assert_eq!(run(text, &value, &schema), Err("RuleTooCostly".to_owned()));
}
