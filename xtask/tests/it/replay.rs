//! Each stored input goes through the check that the fuzzer of its name makes.

use crate::{frame, guard, modern, workflow_file};
use std::{fs, path::Path};

/// Seeds are there from the start; regressions come with the first finding.
#[track_caller]
fn replay(target: &str, check: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let mut inputs = Vec::new();
    for folder in ["seeds", "regressions"] {
        let Ok(entries) = fs::read_dir(fuzz.join(folder).join(target)) else {
            continue;
        };
        inputs.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert!(!inputs.is_empty(), "fuzz/seeds/{target} is empty");
    for input in inputs {
        // A panic comes after the name of the file that caused it.
        eprintln!("{}", input.display());
        check(&fs::read(input).unwrap());
    }
}

#[test]
fn frames_that_were_found_hold_now() {
    replay("frame", frame::check);
}

#[test]
fn guards_that_were_found_hold_now() {
    replay("guard", guard::check);
}

#[test]
fn parameters_that_were_found_hold_now() {
    replay("modern", modern::check);
}

#[test]
fn workflow_files_that_were_found_hold_now() {
    replay("workflow_file", workflow_file::check);
}
