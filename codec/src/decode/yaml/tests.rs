use serde_json::json;

use super::*;

#[test]
fn first_yaml_document_is_decoded() {
    let cases = [
        ("", Value::Null),
        ("# nothing\n---\n", Value::Null),
        ("a: 1\nb: x\n", json!({"a": 1, "b": "x"})),
        (
            "---\n# a class\na: 'true'\nb: true\nc: yes\nd: ~\n",
            json!({"a": "true", "b": true, "c": true, "d": null}),
        ),
        ("a: &x one\nb: *x\n", json!({"a": "one", "b": "one"})),
        ("a: 1\n---\na: 2\n", json!({"a": 1})),
        ("a: 1\n...\nrubbish: [\n", json!({"a": 1})),
        ("a: |\n  --- in text\n  two\n", json!({"a": "--- in text\ntwo\n"})),
        ("{\"a\": [1, 2.5, {\"b\": \"c\"}]}", json!({"a": [1, 2.5, {"b": "c"}]})),
        ("mode: 0644\nf: 1e3\n", json!({"mode": 420, "f": 1000})),
        ("1: a\ntrue: b\n", json!({"1": "a", "true": "b"})),
        ("a: \"5\"\n", json!({"a": "5"})),
    ];
    for (text, want) in cases {
        let document = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(document.value, want, "{text:?}");
        assert_eq!(document.duplicates, Vec::<String>::new(), "{text:?}");
    }
}

#[test]
fn duplicate_keys_are_reported_with_their_line() {
    let document = read(b"a:\n  k: 1\n  k: 2\nb:\n- c: 1\n  c: 2\n").expect("sound but for the keys");
    assert_eq!(document.value, json!({"a": {"k": 2}, "b": [{"c": 2}]}));
    let want = ["line 3: key \"k\" already set in map", "line 6: key \"c\" already set in map"];
    assert_eq!(document.duplicates, want);
}

#[test]
fn yaml_errors_match_go_yaml_text_and_line() {
    let cases = [
        (
            "apiVersion: v1\nkind: ConfigMap\n metadata:\n  name: b\n",
            "yaml: line 3: mapping values are not allowed in this context",
        ),
        (
            "apiVersion: v1\n\tkind: ConfigMap\n",
            "yaml: line 2: found a tab character that violates indentation",
        ),
        ("a:\n\tb: c\n", "yaml: line 2: found character that cannot start any token"),
        ("{nope", "yaml: line 1: did not find expected ',' or '}'"),
        ("a: [1, 2\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("a:\n  b: [1}\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: {b: c}}", "yaml: did not find expected <document start>"),
        ("- a\nb: c\n", "yaml: line 1: did not find expected '-' indicator"),
        ("a: b\n- c\n", "yaml: line 1: did not find expected key"),
        // go-yaml omits the first line in scanner errors.
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("a: @b\n", "yaml: found character that cannot start any token"),
        ("a: \"\\q\"\n", "yaml: found unknown escape character"),
        ("a: 'x\n", "yaml: line 2: found unexpected end of stream"),
        ("a: b\nc", "yaml: line 3: could not find expected ':'"),
        ("a: \u{1}\n", "yaml: control characters are not allowed"),
    ];
    for (text, want) in cases {
        assert_eq!(read(text.as_bytes()).map(|d| d.value), Err(want.to_owned()), "{text:?}");
    }
    assert!(read(b"a: \xff\n").is_err());
}

#[test]
fn nesting_depth_and_alias_expansion_are_limited() {
    for depth in [1, 60] {
        let text = format!("a: {}{}\n", "[".repeat(depth), "]".repeat(depth));
        read(text.as_bytes()).unwrap_or_else(|error| panic!("{depth}: {error}"));
    }
    for depth in [65, 600, 50_000] {
        let text = format!("a: {}{}\n", "[".repeat(depth), "]".repeat(depth));
        let error = read(text.as_bytes()).map(|d| d.value).expect_err("too deep");
        assert!(error.starts_with("yaml: "), "{depth}: {error}");
    }
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for level in 1..30 {
        let items = format!("*a{0}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(read(bomb.as_bytes()).is_err());
}

#[test]
fn aliases_of_long_texts_are_limited() {
    let long = "x".repeat(1 << 20);
    let with_aliases = |count: usize| format!("a: &a {long}\nb: [{}]\n", "*a, ".repeat(count));
    assert!(read(with_aliases(2).as_bytes()).is_ok());
    assert!(read(with_aliases(7).as_bytes()).is_err());
    // The value in the middle is kept once for each anchor around it.
    let nested = |levels: usize, items: usize| {
        let open: String = (0..levels).map(|n| format!("&n{n} [")).collect();
        format!("a: {open}{}{}\n", "1, ".repeat(items), "]".repeat(levels))
    };
    assert!(read(nested(30, 1_000).as_bytes()).is_ok());
    assert!(read(nested(30, 20_000).as_bytes()).is_err());
}

#[test]
fn repeated_values_are_limited_by_the_size_of_the_document() {
    for (case, items, aliases, fits) in [
        ("a small list", 10, 50, true),
        ("a small list, repeated often", 10, 95, true),
        ("a list that is as long as the limit", 400, 3, true),
        ("a list that is repeated too often", 400, 9, false),
        ("a long list that is repeated once", 20_000, 1, true),
        ("a long list that is repeated too often", 20_000, 40, false),
    ] {
        let text = format!("a: &a [{}]\nb: [{}]\n", "0,".repeat(items), "*a, ".repeat(aliases));
        let result = read(text.as_bytes()).map(|_| ());
        assert_eq!(result.is_ok(), fits, "{case}: {result:?}");
        assert!(fits || result.is_err_and(|error| error.contains("repeat too many values")), "{case}");
    }
}

#[test]
fn duplicate_keys_are_limited() {
    let count = |text: &str| read(text.as_bytes()).map(|document| document.duplicates.len());
    assert_eq!(count(&"a: 1\n".repeat(1_000)), Ok(MAX_FINDINGS));
    let long = format!("? {}\n: 1\n", "k".repeat(MAX_FINDINGS_TEXT / 2));
    assert_eq!(count(&long.repeat(6)), Ok(2));
}
