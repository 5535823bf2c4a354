//! Compares the index with a plain scan by the rules of `fit.rs`, over random volumes and claims. Prints its
//! seed.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::functions::{claim, index, volume};
use orlop_client::packed_object::PackedObject;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::modes::ModeSet;
use orlop_volume::object;

const MODES: [&str; 6] = ["RWO", "ROX", "RWO,ROX", "RWO,ROX,RWX", "RWX", "RWOP"];
const SIZES: [&str; 5] = ["1Gi", "2Gi", "1G", "3Gi", "500Mi"];

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

fn a_volume(rng: &mut StdRng, n: usize) -> String {
    let mut line = format!("pv pv-{n} {} {}", pick(rng, &SIZES), pick(rng, &MODES));
    line += pick(rng, &[" Available", " Available", " Available", " Released", " Pending"]);
    line += pick(rng, &["", "", " class=gold"]);
    line += pick(rng, &["", "", "", " mode=Block"]);
    line += pick(rng, &["", "", "", " vac=fast"]);
    line += pick(rng, &["", "", "", " label=x:y"]);
    line += pick(rng, &["", "", "", " terminating"]);
    line += pick(rng, &["", "", "", " ref=ns/c", " ref=ns/c:uid-c", " ref=ns/c:uid-old", " ref=ns/d:uid-d"]);
    line
}

fn a_claim(rng: &mut StdRng) -> String {
    let mut line = format!("pvc ns/c uid-c {} {} Pending", pick(rng, &SIZES), pick(rng, &MODES));
    line += pick(rng, &["", "", " class=gold"]);
    line += pick(rng, &["", "", "", " mode=Block"]);
    line += pick(rng, &["", "", "", " vac=fast"]);
    line += pick(rng, &["", "", r#" selector={"matchLabels":{"x":"y"}}"#]);
    line
}

/// The rules of the search, written literally: fewest modes first, reserved before free, then the smallest, then
/// by name.
fn scan(lines: &[String], wanted: &str, delayed: bool) -> Option<String> {
    let claim = claim(wanted);
    let labels = RequiredLabels::of(&claim);
    let fitting = lines
        .iter()
        .map(|line| volume(line))
        .filter(|volume| fit::search_misfit(volume, &claim, &labels, delayed).is_none());
    fitting
        .min_by_key(|volume| {
            let modes = ModeSet::offered(fit::offered_modes(volume)).len();
            let name = object::name(&volume.metadata).to_owned();
            let ours = object::points_to(volume, &claim);
            (modes, !ours, (!ours).then(|| fit::capacity(volume)), name)
        })
        .map(|volume| object::name(&volume.metadata).to_owned())
}

#[test]
fn index_finds_the_same_volume_as_a_scan() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut found = 0;
    for _ in 0..400 {
        let count = rng.random_range(1..20);
        let lines: Vec<String> = (0..count).map(|n| a_volume(&mut rng, n)).collect();
        let mut index = index(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        // After removing and inserting volumes again, the index is unchanged.
        for n in 0..count / 2 {
            if let Some(volume) = index.remove(&format!("pv-{n}")) {
                index.insert(PackedObject::new(Arc::clone(&volume)), &volume);
            }
        }
        for _ in 0..5 {
            let (wanted, delayed) = (a_claim(&mut rng), rng.random_bool(0.2));
            let have =
                index.find(&claim(&wanted), delayed).map(|volume| object::name(&volume.metadata).to_owned());
            assert_eq!(have, scan(&lines, &wanted, delayed), "seed {seed}\n{wanted}\n{}", lines.join("\n"));
            found += usize::from(have.is_some());
        }
        for n in 0..count {
            index.remove(&format!("pv-{n}"));
        }
        assert!(
            index.find(&claim("pvc ns/c uid-c 0 RWO Pending"), false).is_none(),
            "seed {seed}: not empty"
        );
    }
    assert!(found > 100, "seed {seed}: only {found} searches found something");
}
