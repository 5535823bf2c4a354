//! `orlop_apiserver::fuzzing::accept` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::accept(data));
