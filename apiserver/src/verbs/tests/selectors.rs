//! Selectors of lists and watches, compared with a naive implementation.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::rig::{CONFIG_MAPS, Rig, text};

type Labels = BTreeMap<String, String>;

type Holds = Box<dyn Fn(&Labels) -> bool>;

/// A requirement: its text and its meaning.
struct Term {
    text: String,
    holds: Holds,
}

const KEYS: [&str; 3] = ["a", "b", "x.y/c"];
const VALUES: [&str; 4] = ["1", "2", "v", ""];

fn term(random: &mut StdRng) -> Term {
    let key = KEYS[random.random_range(0..KEYS.len())];
    let value = VALUES[random.random_range(0..VALUES.len())];
    let other = VALUES[random.random_range(0..3)];
    let number = random.random_range(0..3i64);
    let is =
        move |labels: &Labels, wanted: &[&str]| labels.get(key).is_some_and(|v| wanted.contains(&v.as_str()));
    let count = move |labels: &Labels| labels.get(key).and_then(|v| v.parse::<i64>().ok());
    let (text, holds): (String, Holds) = match random.random_range(0..9) {
        0 => (format!("{key}={value}"), Box::new(move |l| is(l, &[value]))),
        1 => (format!("{key} == {value}"), Box::new(move |l| is(l, &[value]))),
        2 => (format!("{key}!={value}"), Box::new(move |l| !is(l, &[value]))),
        3 => (format!("{key} in ({other},{value})"), Box::new(move |l| is(l, &[other, value]))),
        4 => (format!("{key} notin ({other})"), Box::new(move |l| !is(l, &[other]))),
        5 => (key.to_owned(), Box::new(move |l| l.contains_key(key))),
        6 => (format!("!{key}"), Box::new(move |l| !l.contains_key(key))),
        7 => (format!("{key}>{number}"), Box::new(move |l| count(l).is_some_and(|n| n > number))),
        _ => (format!("{key}<{number}"), Box::new(move |l| count(l).is_some_and(|n| n < number))),
    };
    Term { text, holds }
}

fn labels(random: &mut StdRng) -> Labels {
    let mut labels = Labels::new();
    for key in KEYS {
        if random.random_bool(0.6) {
            labels.insert(key.to_owned(), VALUES[random.random_range(0..VALUES.len())].to_owned());
        }
    }
    labels
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn label_selectors_match_like_a_naive_implementation() {
    let seed: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let rig = Rig::new().await;
    let mut objects = Vec::new();
    for n in 0..40 {
        let name = format!("c{n:02}");
        let labels = labels(&mut random);
        rig.config_map(&name, json!(labels)).await;
        objects.push((name, labels));
    }
    for _ in 0..200 {
        let terms: Vec<Term> = (0..random.random_range(1..4)).map(|_| term(&mut random)).collect();
        let text = terms.iter().map(|term| term.text.as_str()).collect::<Vec<_>>().join(",");
        let want: Vec<&str> = objects
            .iter()
            .filter(|(_, labels)| terms.iter().all(|term| (term.holds)(labels)))
            .map(|(name, _)| name.as_str())
            .collect();
        let target = format!("{CONFIG_MAPS}?labelSelector={}", encoded(&text));
        assert_eq!(rig.get(&target).await.expect(200).names(), want, "{text} (seed {seed})");
        let page = rig.get(&format!("{target}&limit=3")).await.expect(200);
        assert_eq!(page.names(), want[..want.len().min(3)], "{text} (seed {seed})");
        let more = page.json()["metadata"].get("continue").is_some();
        assert_eq!(more, want.len() > 3, "{text} (seed {seed})");
    }
}

/// The events of a watch with a selector add up to the list with that selector.
#[tokio::test(start_paused = true)]
async fn watch_events_add_up_to_the_list() {
    let seed: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..10 {
        let rig = Rig::new().await;
        let selector = encoded(&term(&mut random).text);
        let mut watch =
            rig.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&labelSelector={selector}")).await;
        for _ in 0..60 {
            let name = format!("c{}", random.random_range(0..6));
            let target = format!("{CONFIG_MAPS}/{name}");
            match random.random_range(0..4) {
                0 => drop(rig.delete(&target, json!(null)).await),
                1 => {
                    let body = json!({"metadata": {"name": name, "labels": labels(&mut random)}});
                    drop(rig.post(CONFIG_MAPS, body).await);
                }
                _ => {
                    let body = json!({"metadata": {"name": name, "labels": labels(&mut random)}});
                    drop(rig.put(&target, &body).await);
                }
            }
        }
        let mut watched = BTreeMap::new();
        // The watch ends by its timeout, long after the last event.
        while let Some(event) = watch.next().await {
            let name = text(&event, "/object/metadata/name");
            match event["type"].as_str().unwrap() {
                "DELETED" => assert!(watched.remove(&name).is_some(), "{name} was never there (seed {seed})"),
                "ADDED" => {
                    assert!(watched.insert(name, event["object"].clone()).is_none(), "twice (seed {seed})")
                }
                _ => assert!(watched.insert(name, event["object"].clone()).is_some(), "never (seed {seed})"),
            }
        }
        let list = rig.get(&format!("{CONFIG_MAPS}?labelSelector={selector}")).await.expect(200);
        assert_eq!(watched.keys().cloned().collect::<Vec<_>>(), list.names(), "{selector} (seed {seed})");
        for item in list.json()["items"].as_array().unwrap() {
            let seen = &watched[&text(item, "/metadata/name")];
            assert_eq!(item["metadata"], seen["metadata"], "{selector} (seed {seed})");
        }
    }
}
