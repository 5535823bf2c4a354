//! The cost of expressions on the worst inputs: each ends with a value or at the cost limit.

use orlop_apimachinery::thread_time::{ThreadTime, assert_linear};
use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

/// Maximum processor time, seconds: a debug build takes about one; without a limit, each of these takes minutes.
const SECONDS: f64 = 20.0;

fn run(text: &str, own: &Value, schema: &Schema) -> Result<String, Failure> {
    let program = Program::parse(text).map_err(Failure::Error)?;
    let input = Input::of_rule(Val::of(own, Some(schema)), None);
    program.run(&input, &mut Budget::new()).map(|value| super::shown::shown(&value))
}

fn assert_costs(text: &str, own: &Value, schema: &Value, want: Result<&str, Failure>) {
    let schema = Schema::of(schema);
    let started = ThreadTime::start();
    assert_eq!(run(text, own, &schema), want.map(str::to_owned), "{text}");
    let spent = started.spent().as_secs_f64();
    assert!(spent < SECONDS, "{text}: {spent} s");
}

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[test]
fn lists_of_different_lengths_are_not_copied() {
    let own = json!({"big": vec![0; 100_000], "lists": vec![json!([]); 100_000]});
    assert_costs("self.big in self.lists", &own, &open(), Ok("false"));
    assert_costs("self.lists.indexOf(self.big)", &own, &open(), Ok("-1"));
    assert_costs("self.lists[99999].size()", &own, &open(), Ok("0"));
}

#[test]
fn comparisons_of_the_same_value_are_paid_each_time() {
    let own = json!({"texts": vec!["x".repeat(10_000); 100]});
    let text = "sets.contains([self.texts], [self.texts, self.texts, self.texts])";
    assert_costs(text, &own, &open(), Ok("true"));
    let text = "sets.contains(self.texts, self.texts)";
    assert_costs(text, &own, &open(), Ok("true"));
    let mut different = vec![format!("{}y", "x".repeat(10_000)); 100];
    different.extend(vec![format!("{}z", "x".repeat(10_000)); 100]);
    let own = json!({"a": &different[..100], "b": &different[100..]});
    assert_costs("sets.intersects(self.a, self.b)", &own, &open(), Err(Failure::RuleTooCostly));
}

#[test]
fn sets_are_compared_in_linear_time() {
    let list = |ty: &str| {
        json!({"type": "array", "x-kubernetes-list-type": ty, "x-kubernetes-list-map-keys": ["k"],
        "items": {"x-kubernetes-preserve-unknown-fields": true}})
    };
    let set = json!({"type": "object", "properties": {"a": list("set"), "b": list("set")}});
    let map = json!({"type": "object", "properties": {"a": list("map"), "b": list("map")}});
    let (set, map) = (Schema::of(&set), Schema::of(&map));
    let sets = |n: usize| {
        let b: Vec<usize> = (0..n).rev().collect();
        json!({"a": (0..n).collect::<Vec<_>>(), "b": b})
    };
    assert_linear("reversed sets", 2_000, sets, |own| {
        assert_eq!(run("self.a == self.b", own, &set), Ok("true".to_owned()));
    });
    let item = |k: usize| json!({"k": k.to_string(), "v": {"list": [k, 1.5, null]}});
    let own = json!({"a": (0..5_000).map(item).collect::<Vec<_>>(), "b": (0..5_000).rev().map(item).collect::<Vec<_>>()});
    assert_eq!(run("self.a == self.b", &own, &map), Ok("true".to_owned()));
    let own = json!({"a": [1, 2, 2], "b": [2, 1, 3]});
    assert_eq!(run("self.a == self.b", &own, &set), Ok("false".to_owned()));
    let own = json!({"a": [1, 2.0, "x", true, null, {"p": 1}], "b": [{"p": 1.0}, null, true, "x", 2, 1.0]});
    assert_eq!(run("self.a == self.b", &own, &set), Ok("true".to_owned()), "numbers of different types");
}

#[test]
fn strings_are_not_copied_when_they_are_selected() {
    let own = json!({"t": "x".repeat(1_000_000), "l": vec![0; 100_000]});
    assert_costs("self.l.all(x, has(self.t))", &own, &open(), Ok("true"));
    let own = json!({"t": "eHh4".repeat(250_000), "l": vec![0; 100_000]});
    let bytes = json!({"type": "object", "properties": {"t": {"type": "string", "format": "byte"},
        "l": {"type": "array", "items": {"type": "integer"}}}});
    assert_costs("self.l.all(x, has(self.t))", &own, &bytes, Err(Failure::RuleTooCostly));
    let own = json!({"t": ["eHh4".repeat(250_000)], "l": vec![0; 100_000]});
    let bytes = json!({"type": "object", "properties": {
        "t": {"type": "array", "items": {"type": "string", "format": "byte"}},
        "l": {"type": "array", "items": {"type": "integer"}}}});
    assert_costs("self.l.all(x, self.t.all(y, true))", &own, &bytes, Err(Failure::RuleTooCostly));
    let name = "n".repeat(15_000);
    let own = json!({"l": vec![0; 100_000]});
    assert_costs(&format!("self.l.all({name}, true)"), &own, &open(), Ok("true"));
    assert_costs(&format!("self.l.all(x, !has(self.{name}))"), &own, &open(), Err(Failure::RuleTooCostly));
}

#[test]
fn keys_are_not_copied_when_a_member_is_missing() {
    let members: serde_json::Map<String, Value> = (0..20_000).map(|n| (n.to_string(), json!(0))).collect();
    let own = json!({"m": members, "l": vec![0; 20_000]});
    assert_costs(
        "self.l.all(x, self.m.nope == 1)",
        &own,
        &open(),
        Err(Failure::Error("no such key: nope".to_owned())),
    );
}

#[test]
fn queries_of_urls_are_paid() {
    let query: Vec<String> = (0..9_000).map(|n| format!("{n}=")).collect();
    let own = json!({"u": format!("https://a/?{}", query.join("&")), "l": vec![0; 10_000]});
    assert_costs("url(self.u).getQuery().size()", &own, &open(), Ok("9000"));
    let text = "[url(self.u)].all(u, self.l.all(x, u.getQuery().size() > 0))";
    assert_costs(text, &own, &open(), Err(Failure::RuleTooCostly));
}

#[test]
fn members_of_map_literals_are_paid() {
    let entries: Vec<String> = (0..2_000).map(|n| format!("{n}:0")).collect();
    let map = format!("{{{}}}", entries.join(","));
    let own = json!({"l": vec![0; 100]});
    assert_costs(&format!("{map}.exists(k, k == 1999)"), &own, &open(), Ok("true"));
    assert_costs(
        &format!("self.l.all(x, {map}.exists(k, true))"),
        &own,
        &open(),
        Err(Failure::RuleTooCostly),
    );
    let text = format!("[{map}].all(m, m == m)");
    assert_costs(&text, &own, &open(), Err(Failure::RuleTooCostly));
}

#[test]
fn memory_of_computed_values_is_paid() {
    let own = json!({"t": "x".repeat(1_000_000), "l": vec![""; 100_000]});
    for text in ["self.t.split('').size()", "self.t.findAll('').size()", "self.l.join(self.t).size()"] {
        assert_costs(text, &own, &open(), Err(Failure::RuleTooCostly));
    }
    let own = json!({"t": "a b c", "l": ["a", "b"]});
    assert_costs("self.t.split(' ').join('') + self.l.join('-')", &own, &open(), Ok("abca-b"));
    // Each literal contains the value of the one before a hundred times.
    let mut text = "a == a".to_owned();
    for _ in 0..12 {
        text = format!("[[{}a]].all(a, {text})", "a,".repeat(99));
    }
    let text = format!("[0].all(a, {text})");
    assert_costs(&text, &own, &open(), Err(Failure::RuleTooCostly));
}

#[test]
fn repetitions_in_patterns_are_paid() {
    let own = json!({"t": "ab".repeat(200_000), "l": vec!["ab"; 2_000]});
    assert_costs("self.t.matches('[ab]*a[ab]{900}c')", &own, &open(), Err(Failure::RuleTooCostly));
    assert_costs("self.t.findAll('.*[^a-z]|[a-z]').size()", &own, &open(), Err(Failure::RuleTooCostly));
    assert_costs("self.l.all(x, x.matches('^[a-z]+$'))", &own, &open(), Ok("true"));
    let text = r"self.l.all(x, x.matches('(?i)' + string(self.l.size()) + '\\pL'))";
    assert_costs(text, &own, &open(), Ok("false"));
    let own = json!({"p": r"\pL".repeat(1_000)});
    assert_costs("!''.matches('(?i)' + self.p)", &own, &open(), Err(Failure::RuleTooCostly));
}
