//! Fuzzes what `checks/modern.rs` promises.
#![no_main]

#[path = "../checks/modern.rs"]
mod modern;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| modern::check(bytes));
