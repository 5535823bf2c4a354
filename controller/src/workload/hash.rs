//! Short hashes that names are made of: FNV with 32 bits, in letters that spell no words. Pure functions.
//!
//! The hash of a StatefulSet's revision is upstream's: FNV-1 of the revision's JSON. Upstream hashes the pod template of a
//! Deployment in a form that only Go can print; ours is FNV-1a of its JSON. Both are stable, and nobody may compute either of
//! them from outside: ReplicaSets are told apart by their templates, never by their names.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use orlop_client::api::Json as _;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
/// Without vowels and what looks alike. Upstream: apimachinery util/rand.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn fnv1(parts: &[&[u8]]) -> u32 {
    parts.iter().copied().flatten().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
}

fn fnv1a(parts: &[&[u8]]) -> u32 {
    parts.iter().copied().flatten().fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

fn letters(hash: u32) -> String {
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    hash.to_string().bytes().map(letter).collect()
}

/// Hash of a Deployment's pod template. `collisions` leads to another one when the name was taken.
pub fn of_template(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let json = template.encode().expect("API types have string keys, so they can be JSON");
    let count = collisions.map(|count| u64::from(count.unsigned_abs()).to_le_bytes());
    letters(fnv1a(&[&json, count.as_ref().map_or(&[], |bytes| &bytes[..])]))
}

/// Hash of a revision's JSON.
pub fn of_revision(data: &str, collisions: i32) -> String {
    letters(fnv1(&[data.as_bytes(), collisions.to_string().as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // From the FNV reference.
        assert_eq!((fnv1(&[]), fnv1a(&[])), (0x811c_9dc5, 0x811c_9dc5));
        assert_eq!((fnv1(&[b"a"]), fnv1a(&[b"a"])), (0x050c_5d7e, 0xe40c_292c));
        assert_eq!((fnv1(&[b"foo", b"bar"]), fnv1a(&[b"foobar"])), (0x31f0_b262, 0xbf9c_f968));
        assert_eq!(letters(1_234_567_890), "56789bcdf4");
        assert_eq!(letters(0), "4");
    }

    #[test]
    fn a_collision_leads_to_another_name() {
        let template = PodTemplateSpec::default();
        assert_eq!(of_template(&template, None), of_template(&template, None));
        assert_ne!(of_template(&template, None), of_template(&template, Some(1)));
        assert_ne!(of_revision("{}", 0), of_revision("{}", 1));
    }
}
