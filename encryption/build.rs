//! Generates Rust code from the protobuf file without protoc: protox parses the file, and tonic's builder generates the code.

use std::error::Error;

/// Messages with a decrypted seed. They do not implement `Debug`, so that no log line can contain one.
const SECRET: [&str; 2] = [".v2.DecryptResponse", ".v2.EncryptRequest"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["kms.proto"], ["proto"])?;
    // Sorted annotations: the same object always has the same bytes.
    tonic_prost_build::configure().skip_debug(SECRET).btree_map(".").compile_fds(files)?;
    Ok(())
}
