//! `cargo bench --bench overhead`: see the crate documentation and `-- --help`.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    // Cargo tells a bench its `<target>/tmp` at compile time, wherever the target folder lies.
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    proto_benches::overhead(scratch.parent().unwrap_or(scratch))
}
