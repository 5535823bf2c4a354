//! The target `protobuf_body` of `orlop_apiserver::fuzzing` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::check("protobuf_body", data));
