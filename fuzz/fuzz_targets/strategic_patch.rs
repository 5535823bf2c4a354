//! `orlop_apiserver::fuzzing::strategic_patch` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::strategic_patch(data));
