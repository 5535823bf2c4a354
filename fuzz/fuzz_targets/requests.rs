//! `orlop_apiserver::fuzzing::requests` with libFuzzer: complete requests, on a paused clock, so that no timer delays a run.
#![no_main]

use tokio::runtime::Builder;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(orlop_apiserver::fuzzing::requests::requests(data));
});
