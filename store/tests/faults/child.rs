//! The child process to kill: the same test binary, started again.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::load::{Load, Tell, run};

const DIR: &str = "ORLOP_FAULTS_DIR";
const LOAD: &str = "ORLOP_FAULTS_LOAD";
const MARKS: &str = "ORLOP_FAULTS_MARKS";

/// Starts the child. It reports to the file `marks`, or else to its standard output.
pub(crate) fn start(dir: &Path, load: &Load, marks: Option<&Path>) -> Child {
    let Load { seed, session, from, writers, commits } = load;
    let mut command = Command::new(std::env::current_exe().expect("this test runs from a file"));
    command
        .args(["--exact", "child::child", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(LOAD, format!("{seed} {session} {from} {writers} {commits}"))
        .stdout(if marks.is_some() { Stdio::null() } else { Stdio::piped() });
    if let Some(marks) = marks {
        command.env(MARKS, marks);
    }
    command.spawn().expect("this test can be started again")
}

#[test]
#[ignore = "is started, and killed, by other tests"]
fn child() {
    let (Some(dir), Ok(load)) = (std::env::var_os(DIR), std::env::var(LOAD)) else { return };
    let numbers: Vec<u64> = load.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [seed, session, from, writers, commits] = numbers[..] else { panic!("{LOAD}={load}") };
    let load = Load { seed, session, from, writers: writers as usize, commits };
    let file = match std::env::var_os(MARKS) {
        Some(marks) => File::options().write(true).open(marks).expect("marks are taken"),
        None => File::options().write(true).open("/dev/stdout").expect("a listener exists"),
    };
    let tell = Tell::new(file);
    if std::env::var_os(MARKS).is_none() {
        // The test harness has printed the test's name in front of the first line.
        tell.line("");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(run(Path::new(&dir), &load, tell));
}
