//! The target `bearer_token` of `orlop_apiserver::fuzzing` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::check("bearer_token", data));
