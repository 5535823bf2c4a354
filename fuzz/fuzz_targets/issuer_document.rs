//! The target `issuer_document` of `orlop_apiserver::fuzzing` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::check("issuer_document", data));
