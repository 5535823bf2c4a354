#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use super::identities::Identity;
use super::mutate::{Change, Cut, change, changes, cut, cuts};
use super::patches::BETWEEN;
use super::targets::check_growth;
use super::*;

/// The default seed: runs without changes repeat the same tests. Long runs set other seeds.
const SEED: u64 = 20_261_121;

/// A number in the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a target on `cases` inputs. ORLOP_FUZZ_CASES overrides the number of inputs and ORLOP_FUZZ_SEED the seed;
/// both are printed.
fn run<S: Strategy>(target: &str, cases: u32, inputs: &S, try_one: impl Fn(&S::Value)) {
    let cases = number("ORLOP_FUZZ_CASES").map_or(cases, |cases| u32::try_from(cases).unwrap());
    let seed = number("ORLOP_FUZZ_SEED").unwrap_or(SEED);
    println!("{target}: ORLOP_FUZZ_SEED={seed} ORLOP_FUZZ_CASES={cases}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_time: 20_000, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, rng).run(inputs, |input| {
        try_one(&input);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{target}, ORLOP_FUZZ_SEED={seed}: {error}");
    }
}

/// The choices that select and mutate one document.
fn document() -> impl Strategy<Value = (u8, u8, Vec<Change>, Vec<Cut>)> {
    (any::<u8>(), any::<u8>(), changes(), cuts())
}

fn text() -> impl Strategy<Value = (prop::sample::Index, Vec<Cut>)> {
    (any::<prop::sample::Index>(), cuts())
}

/// Runs a target whose inputs are texts.
fn run_texts(target: &str, cases: u32) {
    let seeds = seeds::inputs(target);
    run(target, cases, &text(), |(index, cuts)| {
        let mut input = index.get(&seeds).clone();
        cut(&mut input, cuts);
        check(target, &input);
    });
}

fn changed(kind: u8, changes: &[Change]) -> Value {
    let (kind, _) = choose(&[kind]).unwrap();
    let mut value = whole(kind, &seeds::object(kind));
    change(&mut value, changes);
    value
}

#[test]
fn every_target_accepts_its_seeds() {
    for target in names() {
        let seeds = seeds::inputs(target);
        assert!(!seeds.is_empty() && !worst::inputs(target, worst::LENGTH).is_empty(), "{target}");
        seeds.iter().for_each(|seed| check(target, seed));
    }
}

/// Compares the worst inputs of targets with longer ones, and runs them with mutations. ORLOP_FUZZ_LENGTH overrides the
/// length of the longer ones, up to 100,000 bytes: longer inputs also reveal quadratic work that is cheap for short ones.
fn run_worst(targets: &[&str]) {
    let length = number("ORLOP_FUZZ_LENGTH").map_or(16 << 10, |length| usize::try_from(length).unwrap());
    for target in targets {
        println!("{target}: ORLOP_FUZZ_LENGTH={length}");
        let (short, long) = (worst::inputs(target, length / 8), worst::inputs(target, length));
        for (short, long) in short.iter().zip(&long) {
            check_growth(target, short, long);
        }
        run(&format!("{target}, long"), 20, &text(), |(index, cuts)| {
            let mut input = index.get(&short).clone();
            cut(&mut input, cuts);
            check(target, &input);
        });
    }
}

#[test]
fn worst_json_bodies_cost_linear_time() {
    run_worst(&["json_body"]);
}

#[test]
fn worst_yaml_bodies_cost_linear_time() {
    run_worst(&["yaml_body"]);
}

#[test]
fn worst_protobuf_bodies_cost_linear_time() {
    run_worst(&["protobuf_body"]);
}

#[test]
fn worst_patches_cost_linear_time() {
    run_worst(&["json_patch", "merge_patch", "strategic_patch", "apply"]);
}

#[test]
fn worst_texts_cost_linear_time() {
    run_worst(&["selectors", "continue_token", "query", "accept", "json_path"]);
}

#[test]
fn worst_credentials_cost_linear_time() {
    run_worst(&["bearer_token", "issuer_document", "certificate"]);
}

#[test]
fn mutated_credentials_never_panic() {
    for target in ["bearer_token", "issuer_document", "certificate"] {
        run_texts(target, 500);
    }
}

#[test]
fn worst_requests_cost_linear_time() {
    run_worst(&["requests"]);
}

#[test]
fn mutated_json_bodies_stay_within_limits() {
    run("json_body", 400, &document(), |(kind, validation, changes, cuts)| {
        let mut body = changed(*kind, changes).to_string().into_bytes();
        cut(&mut body, cuts);
        check("json_body", &[&[*kind, *validation], body.as_slice()].concat());
    });
}

#[test]
fn mutated_yaml_bodies_stay_within_limits() {
    run("yaml_body", 300, &document(), |(kind, validation, changes, cuts)| {
        let value = changed(*kind, changes);
        // Half of the inputs are in block style, half in the flow style that JSON and YAML share.
        let mut body = match changes.len() % 2 {
            0 => serde_saphyr::to_string(&value).unwrap().into_bytes(),
            _ => value.to_string().into_bytes(),
        };
        if cuts.is_empty() {
            is_read_as_yaml(&value, &body);
        }
        cut(&mut body, cuts);
        check("yaml_body", &[&[*kind, *validation], body.as_slice()].concat());
    });
}

/// Checks that YAML in either style decodes to the document it encodes: clients apply JSON as YAML.
fn is_read_as_yaml(value: &Value, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    match orlop_codec::decode::read_yaml(body) {
        Ok((read, _)) => assert_eq!(with_floats(read), with_floats(value.clone()), "{text}"),
        Err(why) => {
            let is_too_deep =
                ["too deep or too large", "recursion limit exceeded"].iter().any(|&deep| why.contains(deep));
            assert!(is_too_deep, "{why}: {text}");
        }
    }
}

/// Numbers as floats, because YAML does not distinguish 1.0 from 1.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(with_floats).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, with_floats(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other,
    }
}

#[test]
fn mutated_protobuf_bodies_stay_within_limits() {
    let bodies = seeds::inputs("protobuf_body");
    run("protobuf_body", 600, &text(), |(index, cuts)| {
        let mut body = index.get(&bodies).clone();
        let head = 2 + 4;
        let mut rest = body.split_off(head);
        cut(&mut rest, cuts);
        body.extend(rest);
        check("protobuf_body", &body);
    });
}

#[test]
fn mutated_json_patches_stay_within_limits() {
    let made = (any::<u8>(), prop::sample::select(seeds::PATCHES[0]), changes(), cuts());
    run("json_patch", 400, &made, |(kind, patch, changes, cuts)| {
        let mut patch: Value = serde_json::from_str(patch).unwrap();
        change(&mut patch, changes);
        let mut patch = patch.to_string().into_bytes();
        cut(&mut patch, cuts);
        check("json_patch", &[&[*kind], patch.as_slice()].concat());
    });
}

/// Runs merge or strategic patches: the mutated object itself, and mutations of the seed patches.
fn run_merges(target: &str, which: usize) {
    let pods = choice("", "pods");
    let whole = (any::<u8>(), changes(), cuts()).prop_map(|(kind, changes, cuts)| {
        let mut patch = changed(kind, &changes).to_string().into_bytes();
        cut(&mut patch, &cuts);
        Bytes::from([&[kind], patch.as_slice()].concat())
    });
    let written = (prop::sample::select(seeds::PATCHES[which]), changes(), cuts()).prop_map(
        move |(patch, changes, cuts)| {
            let mut patch: Value = serde_json::from_str(patch).unwrap();
            change(&mut patch, &changes);
            let mut patch = patch.to_string().into_bytes();
            cut(&mut patch, &cuts);
            Bytes::from([&[pods], patch.as_slice()].concat())
        },
    );
    run(target, 400, &prop_oneof![whole, written], |input| check(target, input));
}

#[test]
fn mutated_merge_patches_stay_within_limits() {
    run_merges("merge_patch", 1);
}

#[test]
fn mutated_strategic_patches_stay_within_limits() {
    run_merges("strategic_patch", 2);
}

#[test]
fn repeated_apply_changes_nothing() {
    let whole = (document(), changes()).prop_map(|((kind, force, first, cuts), second)| {
        let config = |changes: &[Change]| {
            let mut value = changed(kind, &[]);
            value["metadata"].as_object_mut().unwrap().remove("managedFields");
            change(&mut value, changes);
            value.to_string().into_bytes()
        };
        let mut first = config(&first);
        cut(&mut first, &cuts);
        Bytes::from([&[kind, force], first.as_slice(), BETWEEN, &config(&second)].concat())
    });
    run("apply", 150, &whole, |input| check("apply", input));
    run_texts("apply", 150);
}

#[test]
fn mutated_selectors_never_panic() {
    run_texts("selectors", 1500);
}

#[test]
fn mutated_continue_tokens_round_trip() {
    run_texts("continue_token", 500);
    // The content of the token, before encoding.
    let seeds: Vec<Vec<u8>> = [
        r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/default/it\u0000"}"#,
        r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a/../b"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    run("continue_token, inside", 500, &text(), |(index, cuts)| {
        use base64::Engine as _;
        let mut inside = index.get(&seeds).clone();
        cut(&mut inside, cuts);
        check("continue_token", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(inside).as_bytes());
    });
}

#[test]
fn mutated_queries_return_client_errors() {
    run_texts("query", 1000);
}

#[test]
fn mutated_paths_of_columns_never_panic() {
    run_texts("json_path", 300);
}

#[test]
fn mutated_accept_headers_never_panic() {
    run_texts("accept", 1000);
}

#[test]
fn every_identity_is_authenticated() {
    let name = |name: &str| name.to_owned();
    let want = [
        (Identity::Anonymous, name(""), false),
        (Identity::Certificate, name("limited"), false),
        (Identity::Account, name("system:serviceaccount:default:limited"), true),
        (Identity::Node, name("system:node:limited"), false),
        (Identity::Administrator, name("administrator"), true),
    ];
    assert_eq!(super::requests::users(), want);
}

/// Sends whole requests; a body is a mutated object in one of its formats, or a patch.
#[test]
fn mutated_requests_get_allowed_responses() {
    run_texts("requests", 30);
    let made = (document(), prop::sample::select(METHODS), prop::sample::select(QUERIES), any::<bool>());
    run("requests, made", 50, &made, |((kind, form, changes, cuts), method, query, is_item)| {
        let (chosen, _) = choose(&[*kind]).unwrap();
        let names = chosen.names();
        let root = if names.group.is_empty() { "/api/v1" } else { &format!("/apis/{}", names.api_version()) };
        let namespace = match chosen.scope() {
            crate::registry::Scope::Cluster => "",
            crate::registry::Scope::Namespaced => "/namespaces/default",
        };
        let item = if *is_item { "/it" } else { "" };
        let mut body = changed(*kind, changes).to_string().into_bytes();
        cut(&mut body, cuts);
        let content_type = TYPES[usize::from(*form) % TYPES.len()];
        let target = format!("{root}{namespace}/{}{item}?{query}", names.plural);
        let head = format!("{method} {target}\ncontent-type: {content_type}\n\n");
        let get = format!("\n%%\nGET {target}\naccept: {}\n\n", seeds::ACCEPTS[usize::from(*form) % 3]);
        let input = [head.as_bytes(), &body, get.as_bytes()].concat();
        check("requests", &input);
    });
}

const METHODS: &[&str] = &["POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "GET"];
const QUERIES: &[&str] = &[
    "",
    "fieldManager=a&force=1",
    "dryRun=All",
    "fieldValidation=Strict",
    "fieldManager=a",
    "limit=2",
    "watch=1&timeoutSeconds=1&resourceVersion=1",
    "resourceVersion=99",
    "labelSelector=a%3Db&pretty=1",
];
const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/vnd.kubernetes.protobuf",
];
