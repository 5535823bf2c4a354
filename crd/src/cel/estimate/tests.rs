#![allow(clippy::unwrap_used)]

//! The costs are those of upstream's tests (apiextensions-apiserver `pkg/apiserver/schema/cel/compilation_test.go`).

use std::rc::Rc;

use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::{Decl, largest_cost};
use crate::program::Program;
use crate::schema::Schema;

fn cost(schema: &Value, rule: &str) -> u64 {
    let decl = Decl::of(&Schema::without_rules(schema), false).unwrap();
    largest_cost(&Program::parse(rule).unwrap(), &Rc::new(decl))
}

fn value(ty: &str) -> Value {
    match ty {
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "byte" | "duration" | "date" | "date-time" => json!({"type": "string", "format": ty}),
        "numbers" => list("number"),
        "number map" => map("number"),
        "object" => json!({"type": "object", "required": ["required"],
            "properties": {"required": {"type": "string"}, "optional": {"type": "string"}}}),
        ty => json!({"type": ty}),
    }
}

fn list(item: &str) -> Value {
    json!({"type": "array", "items": value(item)})
}

fn map(item: &str) -> Value {
    json!({"type": "object", "additionalProperties": value(item)})
}

fn limited(mut schema: Value, limit: u64) -> Value {
    let name = match schema["type"].as_str() {
        Some("array") => "maxItems",
        Some("object") => "maxProperties",
        _ => "maxLength",
    };
    schema[name] = limit.into();
    schema
}

/// A schema, a rule, its cost, a limit of the schema, and the cost with the limit.
type Case = (Value, &'static str, u64, u64, u64);

#[test]
fn costs_are_those_of_upstream() {
    let all = "self.all(x, true)";
    let cases: Vec<Case> = vec![
        (list("number"), all, 4_718_591, 10, 32),
        (list("string"), all, 3_145_727, 20, 62),
        (list("boolean"), all, 1_887_437, 5, 17),
        (list("numbers"), all, 3_145_727, 100, 302),
        (map("number"), all, 1_348_169, 10, 32),
        (map("string"), all, 1_179_647, 3, 11),
        (map("boolean"), all, 943_718, 100, 302),
        (list("int-or-string"), all, 4_718_591, 10, 32),
        (list("duration"), all, 2_359_295, 5, 17),
        (list("date"), all, 725_936, 15, 47),
        (list("date-time"), all, 428_963, 25, 77),
        (map("int-or-string"), all, 1_348_169, 15, 47),
        (map("object"), all, 428_963, 20, 62),
        (map("number map"), all, 1_179_647, 10, 32),
        (map("numbers"), all, 1_179_647, 25, 77),
        (map("duration"), all, 1_048_577, 5, 17),
        (map("date"), all, 524_288, 10, 32),
        (map("date-time"), all, 349_526, 25, 77),
        (value("string"), "self.contains('test')", 314_574, 10, 5),
        (value("string"), "self.startsWith('test')", 2, 15, 2),
        (value("string"), "self.endsWith('test')", 2, 30, 2),
        (value("string"), r#"size(self + "hello") > size("hello")"#, 314_578, 4, 7),
        (list("number"), "self[1] == 0.0", 2, 5_000, 2),
        (list("string"), "self[1] == self[1]", 314_577, 8, 314_577),
        (value("string"), r#"self.matches("x")"#, 314_574, 50, 22),
        (value("string"), r#""".matches("(((((((((())))))))))[0-9]")"#, 7, 10, 7),
        (value("string"), r#"self.matches("")"#, 1, 100, 1),
        (list("number"), "self[3] == 0.0", 2, 0, 2),
        (map("number"), r#"self["x"] == 0.0"#, 2, 0, 2),
        (value("string"), r#"self == "x""#, 2, 0, 1),
        (value("byte"), r#"self == b"x""#, 2, 0, 1),
        (list("number"), "self.all(x, x == 0.0)", 6_291_454, 3 * 1024 * 2048, 25_165_826),
        (list("int-or-string"), "self[0] == 5", 3, 10, 3),
        (list("boolean"), "self[0] == false", 2, 25, 2),
        (list("numbers"), "self[0][0] == -1.0", 3, 51, 3),
        (list("number map"), "self.all(x, x.y == 25.2)", 6_291_452, 12, 74),
        (list("number map"), "self[0].x > 2.0", 4, 3_000, 4),
        (list("duration"), "self[0].getHours() == 2", 4, 525, 4),
        (list("date"), "self[2].getDayOfMonth() == 13", 4, 42, 4),
        (list("date-time"), "self[2].getMinutes() == 45", 4, 99, 4),
        (value("string"), "self.find('[0-9]+') == ''", 629_147, 10, 11),
        (map("string"), "self.all(x, x.contains(self[x]))", 2_752_507, 10, 72),
    ];
    for (schema, rule, unlimited, limit, limited_cost) in cases {
        assert_eq!(cost(&schema, rule), unlimited, "{rule} in {schema}");
        let schema = limited(schema, limit);
        assert_eq!(cost(&schema, rule), limited_cost, "{rule} in {schema}");
    }
}

#[test]
fn costs_of_nested_loops_are_multiplied() {
    let loops =
        [("self.all(x, self.all(y, true))", 352), ("self.all(x, self.all(y, self.all(z, true)))", 3_552)];
    for (rule, limited_cost) in loops {
        assert!(cost(&list("number"), rule) > 10_000_000, "{rule}");
        assert_eq!(cost(&limited(list("number"), 10), rule), limited_cost, "{rule}");
    }
}

#[test]
fn items_and_texts_are_limited_together() {
    let texts = |limit: Option<u64>| match limit {
        None => list("string"),
        Some(limit) => json!({"type": "array", "maxItems": limit, "items": limited(value("string"), limit)}),
    };
    for (rule, unlimited, limit, limited_cost) in [
        ("self.join(' ') == 'aa bb'", 329_853_068_905, 10, 43),
        ("self.isSorted() == true", 329_854_432_052, 10, 52),
    ] {
        assert_eq!(cost(&texts(None), rule), unlimited, "{rule}");
        assert_eq!(cost(&texts(Some(limit)), rule), limited_cost, "{rule}");
    }
}

/// The costs of upstream's `celcoststability_test.go` and `library/cost_test.go`, and of its rules where these have none.
#[test]
fn costs_of_functions_are_those_of_upstream() {
    let schema = json!({"type": "object", "properties": {"a": value("string"), "b": value("string"),
        "m": value("integer"), "n": value("integer"), "o": {"type": "object", "properties": {"f": value("string")}}}});
    for (rule, want) in [
        ("isQuantity(self.a)", 314_575),
        ("quantity('200M') == quantity('0.2G') && quantity('0.2G') == quantity('200M')", 6),
        ("quantity(self.a).isLessThan(quantity(self.b))", 629_151),
        ("ip('2001:db8:3333:4444:5555:6666:7777:8888') == ip('192.168.0.1')", 7),
        ("ip(self.a) == ip(self.b)", 629_151),
        ("cidr('192.168.0.0/16').ip().family() == 4", 5),
        ("ip.isCanonical('192.168.0.1')", 3),
        ("isCIDR(self.a)", 314_575),
        ("url(self.a) == url(self.b)", 943_723),
        ("self.a.split(',', 2).all(x, true)", 629_155),
        ("self.o.?f.orValue('v') == 'a'", 5),
        ("self.?m.orValue(0) <= self.?n.orValue(0)", 7),
        ("optional.of('a') != optional.of('b')", 1_844_674_407_370_955_266),
        ("type(self) == type(self)", 1_844_674_407_370_955_268),
    ] {
        assert_eq!(cost(&schema, rule), want, "{rule}");
    }
}

#[test]
fn partial_metadata_of_a_root_is_replaced() {
    let schema = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties":
        {"name": {"type": "string", "maxLength": 5}}}, "kind": {"type": "string", "maxLength": 5}}});
    let decl = Rc::new(Decl::of(&Schema::without_rules(&schema), true).unwrap());
    for (rule, want) in [("self.metadata.name.contains('x')", 314_576), ("self.kind.contains('x')", 314_575)]
    {
        assert_eq!(largest_cost(&Program::parse(rule).unwrap(), &decl), want, "{rule}");
    }
}

/// The inner list counts as many items as `x.s` has bytes.
#[test]
fn size_of_a_list_is_that_of_the_last_member_read_in_the_body() {
    let item =
        json!({"type": "object", "properties": {"l": list("integer"), "s": limited(value("string"), 5)}});
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "array", "maxItems": 2, "items": item}}});
    assert_eq!(cost(&schema, "self.a.all(x, x.l.all(y, x.s == 'b'))"), 255);
    // A variable with a longer path shares no array.
    let schema = json!({"type": "object", "properties": {"o": schema}});
    assert!(cost(&schema, "self.o.a.all(x, x.l.all(y, x.s == 'b'))") > 10_000_000);
}

#[test]
fn presence_test_costs_nothing_itself() {
    assert_eq!(cost(&map("number"), "has(self.x)"), 1);
}

#[test]
fn concatenation_of_a_text_of_unknown_length_costs_the_most() {
    let schema = json!({"type": "object", "properties": {"min": {"type": "integer"}}});
    assert!(cost(&schema, "'min (' + string(self.min) + ')' != ''") > 1_000_000_000_000);
}

#[test]
fn deepest_expression_fits_in_half_of_the_stack_of_a_thread() {
    for rule in [format!("self == {}1", "1 + ".repeat(240)), format!("self{} == []", ".map(x, x)".repeat(80))]
    {
        let program = Program::parse(&rule).unwrap();
        let estimate = move || {
            let decl = Decl::of(&Schema::without_rules(&list("string")), false).unwrap();
            largest_cost(&program, &Rc::new(decl))
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(estimate).unwrap().join().unwrap();
    }
}

#[test]
fn estimate_is_linear_in_the_expression() {
    let input = |n: usize| {
        let rule = format!("self.all(x, {})", vec!["x.size() > 2"; n].join(" && "));
        let decl = Decl::of(&Schema::without_rules(&list("string")), false).unwrap();
        (Program::parse(&rule).unwrap(), Rc::new(decl))
    };
    assert_linear("estimating an expression", 100, input, |(rule, decl)| largest_cost(rule, decl));
}

/// cel-go `ext/comprehensions_test.go` and `ext/lists_test.go`: the largest costs there.
#[test]
fn costs_of_the_libraries_are_those_of_upstream() {
    let any = json!({"type": "string"});
    for (rule, want) in [
        ("[1, 2, 3, 4].all(i, v, i < 5 && v > 0)", 39),
        ("{1: 1, 2: 2, 3: 3}.all(i, v, i < 5 && v > 0)", 52),
        ("[].transformList(i, v, v) == []", 31),
        ("[1].transformList(i, v, i) == [0]", 45),
        ("[3, 2, 1].transformList(i, v, v > i, v) == [3, 2]", 80),
        ("[].transformMap(k, v, v + 1) == {}", 71),
        ("{1: 2}.transformMap(k, v, v + 1) == {1: 3}", 97),
        ("{1: 2, 3: 4, 5: 6}.transformMap(k, v, k % 3 == 0, v + 1) == {3: 5}", 116),
        ("{1: 2}.transformMapEntry(k, v, {v: k}) == {2: 1}", 126),
        ("lists.range(4) == [0, 1, 2, 3]", 26),
        ("lists.range(4 / 2) == [0, 1]", u64::MAX),
        ("[[1, 2], 3].flatten(1) == [1, 2, 3]", 44),
        ("[[1, 2], 3].flatten(2) == [1, 2, 3]", 46),
        ("[[1], 2, 3].flatten() == [1, 2, 3]", 45),
        ("[1, 2, 3].distinct() == [1, 2, 3]", 50),
        ("[1, 2, 3].slice(1, 3) == [2, 3]", 34),
        ("[3, 2, 1].reverse() == [1, 2, 3]", 35),
        ("[2, 3, 1].sort() == [1, 2, 3]", 50),
        ("[{'x':4}, {'x':3}].sortBy(m, m['x']) == [{'x':3}, {'x':4}]", 211),
    ] {
        assert_eq!(cost(&any, rule), want, "{rule}");
    }
}
