//! `orlop_apiserver::fuzzing::yaml_body` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::yaml_body(data));
