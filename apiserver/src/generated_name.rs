//! Names that the server generates (upstream: apiserver pkg/storage/names).

use rand::Rng;

/// The characters of generated names: no vowels, and none that are easily confused.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of generated characters.
const SUFFIX: usize = 5;
/// The maximum length of the part before them.
const BASE_MAX: usize = 58;

/// A random name that begins with `base`, which is cut after 58 characters.
pub(crate) fn generated_name(base: &str) -> String {
    let mut name: String = base.chars().take(BASE_MAX).collect();
    let mut random = rand::rng();
    for _ in 0..SUFFIX {
        name.push(char::from(ALPHABET[random.random_range(0..ALPHABET.len())]));
    }
    name
}
