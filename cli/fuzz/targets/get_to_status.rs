//! libFuzzer's way into `subjects/get_to_status.rs`.

#![no_main]

#[path = "../subjects/get_to_status.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| subject::run(data));
