//! Short hashes for names: 32-bit FNV, in an alphabet that forms no words. Pure functions.
//!
//! The hash of a StatefulSet's revision equals upstream's: FNV-1 of the revision's JSON. Upstream hashes the
//! pod template of a Deployment in a format that only Go can print; orlop uses FNV-1a of its JSON. Both are
//! stable, and no client may recompute them: ReplicaSets are distinguished by their templates, never by their
//! names.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use orlop_client::api::Json as _;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
/// The alphabet, without vowels and characters that look alike. Upstream: apimachinery util/rand.
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

/// The hash of a Deployment's pod template. `collisions` changes the hash after a name collision.
pub fn of_template(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let json = template.encode().expect("API types have string keys, so they can be JSON");
    let count = collisions.map(|count| u64::from(count.unsigned_abs()).to_le_bytes());
    letters(fnv1a(&[&json, count.as_ref().map_or(&[], |bytes| &bytes[..])]))
}

/// The hash of a revision's JSON.
pub fn of_revision(data: &str, collisions: i32) -> String {
    letters(fnv1(&[data.as_bytes(), collisions.to_string().as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_fnv_reference_values() {
        // Values from the FNV reference.
        assert_eq!((fnv1(&[]), fnv1a(&[])), (0x811c_9dc5, 0x811c_9dc5));
        assert_eq!((fnv1(&[b"a"]), fnv1a(&[b"a"])), (0x050c_5d7e, 0xe40c_292c));
        assert_eq!((fnv1(&[b"foo", b"bar"]), fnv1a(&[b"foobar"])), (0x31f0_b262, 0xbf9c_f968));
        assert_eq!(letters(1_234_567_890), "56789bcdf4");
        assert_eq!(letters(0), "4");
    }

    #[test]
    fn collision_count_changes_the_hash() {
        let template = PodTemplateSpec::default();
        assert_eq!(of_template(&template, None), of_template(&template, None));
        assert_ne!(of_template(&template, None), of_template(&template, Some(1)));
        assert_ne!(of_revision("{}", 0), of_revision("{}", 1));
    }
}
