//! Writes the first inputs of every fuzz target into `fuzz/corpus/TARGET/`, where cargo-fuzz looks for them.

use std::path::Path;

const TARGETS: &[&str] = &[
    "json_body",
    "yaml_body",
    "protobuf_body",
    "json_patch",
    "merge_patch",
    "strategic_patch",
    "apply",
    "selectors",
    "continue_token",
    "query",
    "accept",
    "requests",
];

fn main() -> std::io::Result<()> {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (at, input) in orlop_apiserver::fuzzing::inputs(target).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:02}")), input)?;
        }
    }
    Ok(())
}
