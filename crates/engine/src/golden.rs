//! Golden files: what is stored, byte for byte, as files in `tests/golden`.
//!
//! A change of one of them is a change of a stored format. `UPDATE_GOLDEN=1 cargo test -p
//! interlock-engine --lib` rewrites them.

use std::{env, fs, path::Path};

/// Compares what was written with the golden file of this name, or rewrites the file.
#[track_caller]
pub(crate) fn check(name: &str, written: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, written).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written,
        golden,
        "{} differs; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}
