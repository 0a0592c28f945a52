//! Fuzzes what `checks/guard.rs` promises.
#![no_main]

#[path = "../checks/guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| guard::check(bytes));
