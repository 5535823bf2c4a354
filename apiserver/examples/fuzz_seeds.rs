//! Writes the first inputs of every fuzz target into `fuzz/corpus/TARGET/`, where cargo-fuzz looks for them.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in orlop_apiserver::fuzzing::names() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (at, input) in orlop_apiserver::fuzzing::inputs(target).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:02}")), input)?;
        }
    }
    Ok(())
}
