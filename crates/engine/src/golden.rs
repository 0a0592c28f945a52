//! Golden files: what is stored, byte for byte, as files in `tests/golden`.
//!
//! A change of one of them is a change of a stored format. Each line is one value.

use serde::{Serialize, de::DeserializeOwned};
use std::{fs, path::Path};

/// The values of a golden file. Each is read, and must be written as it stands there.
#[track_caller]
pub(crate) fn read<T: DeserializeOwned + Serialize>(name: &str) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let golden = fs::read_to_string(folder.join(name)).unwrap();
    let lines = golden.lines().map(|line| {
        let value: T = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), line, "{name}");
        value
    });
    lines.collect()
}
