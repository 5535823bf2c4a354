//! The hidden mode of the binary, in which it starts itself as a supervisor or as the first process of a
//! container. The order arrives on standard input, so that its secrets are visible nowhere.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use super::launch_spec::LaunchOrder;
use super::{enter, supervise};

/// The first argument of the hidden mode; `-` follows it.
pub const HIDDEN: &str = "container-main";

/// The argument that selects standard input for the order.
const STDIN: &str = "-";

/// Executes an order: `-` is standard input, which is also where the response goes. Call it before any thread is
/// started.
pub fn container_main(spec: &Path) -> ExitCode {
    match obey(spec) {
        Ok(()) => ExitCode::SUCCESS,
        // The sender reads the reason from the pipe.
        Err(_) => ExitCode::from(126),
    }
}

fn obey(spec: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    if spec != Path::new(STDIN) {
        return Err(io::Error::other("the order must come from standard input"));
    }
    io::stdin().lock().read_to_end(&mut text)?;
    let answer: OwnedFd = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let mut answer = UnixStream::from(answer);
    match serde_json::from_slice(&text)? {
        LaunchOrder::Supervise(plan) => {
            let mut agent = answer.try_clone()?;
            let result = supervise::run(*plan, answer);
            if let Err(error) = &result {
                // The agent may have exited.
                let _ = agent.write_all(error.to_string().as_bytes());
            }
            result
        }
        LaunchOrder::Enter(plan) => refused(&mut answer, enter::container(&plan)),
        LaunchOrder::Join(plan) => refused(&mut answer, enter::join(&plan)),
    }
}

/// Writes the error: the call returns only on failure.
fn refused(answer: &mut UnixStream, result: Result<Infallible, String>) -> io::Result<()> {
    let Err(why) = result;
    answer.write_all(why.as_bytes())?;
    Err(io::Error::other(why))
}
