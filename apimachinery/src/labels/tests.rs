#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use proptest::prelude::*;

use super::*;

const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn parsed_selectors_format_canonically() {
    for (text, shown) in [
        ("", ""),
        ("  ", ""),
        ("app=web", "app=web"),
        (" app = web , tier = front ", "app=web,tier=front"),
        ("b,a", "a,b"),
        ("app==web", "app==web"),
        ("app!=web", "app!=web"),
        ("app=", "app="),
        ("app=,b", "app=,b"),
        ("!app", "!app"),
        ("! app", "!app"),
        ("app in (web,db,web)", "app in (db,web)"),
        ("app in(web)", "app in (web)"),
        ("app notin ()", "app notin ()"),
        ("app in (,web)", "app in (,web)"),
        ("app in (web,)", "app in (,web)"),
        ("app in (a,,b)", "app in (,a,b)"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin", "notin"),
        ("size>9,size<20", "size>9,size<20"),
        ("example.com/a=b", "example.com/a=b"),
        ("a=b\0garbage==", "a=b"),
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), shown, "{text:?}");
    }
}

#[test]
fn invalid_selectors_are_rejected() {
    let long = "x".repeat(64);
    let rows: Vec<(String, String)> = [
        ("app=a=b", "found '=', expected: ',' or 'end of string'"),
        ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("app in a", "unable to parse requirement: found 'a' expected: '('"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("app in (a))", "found ')', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("app!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("app,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("app in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("app notin", "unable to parse requirement: found '' expected: '('"),
        ("app in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("app in (,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=(b", "unable to parse requirement: found '(', expected: identifier"),
        (
            "size>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ]
    .into_iter()
    .map(|(text, error)| (text.to_owned(), error.to_owned()))
    .chain([
        ("app=-x".into(), format!("unable to parse requirement: values[0][app]: Invalid value: \"-x\": {VALUE}")),
        ("app=x;b=y".into(), format!("unable to parse requirement: values[0][app]: Invalid value: \"x;b\": {VALUE}")),
        ("app~x".into(), format!("unable to parse requirement: <nil>: Invalid value: \"app~x\": {NAME}")),
        (
            "size>-x".into(),
            format!("unable to parse requirement: [values[0]: Invalid value: \"-x\": for 'Gt', 'Lt' operators, the value must be an integer, values[0][size]: Invalid value: \"-x\": {VALUE}]"),
        ),
        (
            format!("app={long}"),
            format!("unable to parse requirement: values[0][app]: Invalid value: \"{long}\": must be no more than 63 bytes"),
        ),
    ])
    .collect();
    for (text, error) in rows {
        assert_eq!(Selector::parse(&text), Err(error), "{text:?}");
    }
}

#[test]
fn from_objects() {
    let everything = Selector::from_label_selector(&LabelSelector::default()).unwrap();
    assert!(everything.is_everything() && everything.matches([]));
    assert!(!Selector::nothing().matches([]) && !Selector::nothing().is_everything());
    let expression = |operator: &str, values: &[&str]| LabelSelector {
        match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        }]),
    };
    for (operator, values, expected) in [
        ("In", &["b", "a"] as &[&str], Ok("app=web,tier in (a,b)")),
        ("NotIn", &["a"], Ok("app=web,tier notin (a)")),
        ("Exists", &[], Ok("app=web,tier")),
        ("DoesNotExist", &[], Ok("app=web,!tier")),
        ("In", &[], Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")),
        (
            "Exists",
            &["a"],
            Err("values: Invalid value: [\"a\"]: values set must be empty for exists and does not exist"),
        ),
        ("Gt", &["1"], Err("\"Gt\" is not a valid label selector operator")),
    ] {
        let selector = Selector::from_label_selector(&expression(operator, values)).map(|s| s.to_string());
        assert_eq!(selector, expected.map(str::to_owned).map_err(str::to_owned), "{operator}");
    }
}

/// A requirement in written form, with its expected meaning.
#[derive(Clone, Debug)]
enum Naive {
    OneOf(&'static str, BTreeSet<&'static str>),
    NoneOf(&'static str, BTreeSet<&'static str>),
    Has(&'static str),
    Lacks(&'static str),
    Above(&'static str, i64),
    Below(&'static str, i64),
}

impl Naive {
    fn holds(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let number = |key: &str| labels.get(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Naive::OneOf(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Naive::NoneOf(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Naive::Has(key) => labels.contains_key(key),
            Naive::Lacks(key) => !labels.contains_key(key),
            Naive::Above(key, bound) => number(key).is_some_and(|n| n > *bound),
            Naive::Below(key, bound) => number(key).is_some_and(|n| n < *bound),
        }
    }
}

const KEYS: [&str; 4] = ["a", "b", "in", "example.com/c"];
const VALUES: [&str; 6] = ["", "x", "y", "notin", "3", "12"];

fn written() -> impl Strategy<Value = (String, Naive)> {
    let key = prop::sample::select(KEYS.to_vec());
    let value = prop::sample::select(VALUES.to_vec());
    let list = prop::collection::vec(value.clone(), 1..4);
    (key, value, list, 0..9, 0i64..20).prop_map(|(key, value, list, form, number)| {
        let one = BTreeSet::from([value]);
        let set: BTreeSet<_> = list.iter().copied().collect();
        match form {
            0 => (format!("{key}={value}"), Naive::OneOf(key, one)),
            1 => (format!("{key} == {value}"), Naive::OneOf(key, one)),
            2 => (format!("{key}!={value}"), Naive::NoneOf(key, one)),
            3 => (format!("{key} in ({})", list.join(",")), Naive::OneOf(key, set)),
            4 => (format!("{key} notin ( {} )", list.join(" , ")), Naive::NoneOf(key, set)),
            5 => (key.to_owned(), Naive::Has(key)),
            6 => (format!("!{key}"), Naive::Lacks(key)),
            7 => (format!("{key}>{number}"), Naive::Above(key, number)),
            _ => (format!("{key} < {number}"), Naive::Below(key, number)),
        }
    })
}

proptest! {
    #[test]
    fn matching_agrees_with_a_naive_evaluator(
        requirements in prop::collection::vec(written(), 0..4),
        labels in prop::collection::btree_map(
            prop::sample::select(KEYS.to_vec()), prop::sample::select(VALUES.to_vec()), 0..4),
    ) {
        let text: Vec<&str> = requirements.iter().map(|(text, _)| text.as_str()).collect();
        let selector = Selector::parse(&text.join(",")).unwrap();
        let expected = requirements.iter().all(|(_, naive)| naive.holds(&labels));
        prop_assert_eq!(selector.matches(labels.iter().map(|(key, value)| (*key, *value))), expected, "{}", selector);
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn parsing_never_panics(text in "(\\PC|[ a-c,=!<>()]|in|notin){0,20}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}

#[test]
fn long_selectors_match_in_the_time_of_short_ones() {
    for (case, term) in [("keys", "!k"), ("values", "k!=v"), ("required", "k")] {
        let long = (0..9_000).map(|n| format!("{term}{n}")).collect::<Vec<_>>().join(",");
        let labels = [("a", "b"), ("k", "v")];
        let cost = |text: &str| {
            let selector = Selector::parse(text).unwrap();
            let started = crate::thread_time::ThreadTime::start();
            for _ in 0..20_000 {
                std::hint::black_box(selector.matches(labels));
            }
            started.spent()
        };
        let (short, long) = (cost(&format!("{term}0")), cost(&long));
        assert!(long < short * 50, "{case}: {long:?} instead of {short:?}");
    }
}
