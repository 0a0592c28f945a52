//! Fuzzes what `checks/workflow_file.rs` promises.
#![no_main]

#[path = "../checks/workflow_file.rs"]
mod workflow_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| workflow_file::check(bytes));
