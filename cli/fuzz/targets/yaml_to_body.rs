//! libFuzzer's way into `subjects/yaml_to_body.rs`.

#![no_main]

#[path = "../subjects/yaml_to_body.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| subject::run(data));
