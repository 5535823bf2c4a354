//! The targets, and the maximum cost of their inputs.

use super::cost::Bound;
use super::{bodies, credentials, definitions, patches, requests, texts};

struct Target {
    name: &'static str,
    run: fn(&[u8]),
    bound: Bound,
}

const fn target(name: &'static str, run: fn(&[u8]), bound: Bound) -> Target {
    Target { name, run, bound }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bodies. A list of empty structs has the highest cost for each byte: its items get defaults, and are validated.
const BODY: Bound = Bound {
    micros: 200_000,
    nanos_per_byte: 300_000,
    allocated: 8 * MIB,
    allocated_per_byte: 128 * KIB,
    held: 4 * MIB,
    held_per_byte: 20 * KIB,
};
/// A short document in YAML may expand, with aliases, to as many values as any document may have.
const YAML_BODY: Bound = Bound { micros: 8_000_000, allocated: 256 * MIB, held: 128 * MIB, ..BODY };
/// Patches of a sample. The result is decoded several times.
const PATCH: Bound = Bound {
    micros: 200_000,
    nanos_per_byte: 100_000,
    allocated: 8 * MIB,
    allocated_per_byte: 12 * KIB,
    held: 4 * MIB,
    held_per_byte: 6 * KIB,
};
/// A short JSON patch may copy values until the document has several megabytes.
const JSON_PATCH: Bound = Bound { micros: 5_000_000, allocated: 256 * MIB, held: 128 * MIB, ..PATCH };
/// Documents in YAML, applied several times.
const APPLY: Bound =
    Bound { nanos_per_byte: 300_000, allocated_per_byte: 32 * KIB, held_per_byte: 4 * KIB, ..YAML_BODY };
/// Lists of terms.
const TEXT: Bound = Bound {
    micros: 100_000,
    nanos_per_byte: 40_000,
    allocated: 8 * MIB,
    allocated_per_byte: 3 * KIB,
    held: 2 * MIB,
    held_per_byte: KIB / 2,
};
/// Texts that are read once.
const SHORT_TEXT: Bound = Bound {
    micros: 20_000,
    nanos_per_byte: 5_000,
    allocated: 2 * MIB,
    allocated_per_byte: KIB,
    held: MIB,
    held_per_byte: KIB / 4,
};
/// The search of a row takes a number of steps that is independent of the path.
const JSON_PATH: Bound = Bound { micros: 500_000, allocated: 32 * MIB, held_per_byte: 2 * KIB, ..TEXT };
/// Each input starts a server, and may read the documents of all kinds.
const REQUESTS: Bound = Bound {
    micros: 5_000_000,
    nanos_per_byte: 100_000,
    allocated: 256 * MIB,
    allocated_per_byte: 32 * KIB,
    held: 128 * MIB,
    held_per_byte: 12 * KIB,
};

const TARGETS: &[Target] = &[
    target("json_body", bodies::json_body, BODY),
    target("yaml_body", bodies::yaml_body, YAML_BODY),
    target("protobuf_body", bodies::protobuf_body, BODY),
    target("json_patch", patches::json_patch, JSON_PATCH),
    target("merge_patch", patches::merge_patch, PATCH),
    target("strategic_patch", patches::strategic_patch, PATCH),
    target("apply", patches::apply, APPLY),
    target("selectors", texts::selectors, TEXT),
    target("continue_token", texts::continue_token, SHORT_TEXT),
    target("query", texts::query, SHORT_TEXT),
    target("accept", texts::accept, TEXT),
    target("json_path", definitions::json_path, JSON_PATH),
    target("bearer_token", credentials::bearer_token, TEXT),
    target("issuer_document", credentials::issuer_document, TEXT),
    target("certificate", credentials::certificate, TEXT),
    target("requests", requests::requests, REQUESTS),
];

/// The names of the targets.
pub fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.name)
}

/// Runs a target on an input.
///
/// # Panics
/// The input causes something that no client input may cause, or costs too much.
pub fn check(target: &str, input: &[u8]) {
    let target = named(target);
    target.bound.check(target.name, input, target.run);
}

/// Runs a target on an input, and on a longer input of the same form.
///
/// # Panics
/// See [`check`]; also if the cost grows faster than the length.
#[cfg(test)]
pub(super) fn check_growth(target: &str, short: &[u8], long: &[u8]) {
    let target = named(target);
    target.bound.check_growth(target.name, short, long, target.run);
}

fn named(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a known target")
}
