//! `orlop_apiserver::fuzzing::continue_token` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::continue_token(data));
