//! `orlop_apiserver::fuzzing::protobuf_body` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_apiserver::fuzzing::protobuf_body(data));
