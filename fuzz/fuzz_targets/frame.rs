//! Fuzzes what `checks/frame.rs` promises.
#![no_main]

#[path = "../checks/frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frame::check(bytes));
