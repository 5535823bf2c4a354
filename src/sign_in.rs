//! The link with which the web page signs in, printed when the server starts.

use std::io::{IsTerminal as _, Write as _};

use orlop_apiserver::authentication::PageSignIn;
use orlop_auth::UserInfo;

/// Prints a link for the administrator, or the command that prints one.
pub(crate) fn announce(sign_in: &PageSignIn) {
    let mut out = std::io::stdout();
    let line = line(out.is_terminal(), || Some(sign_in.issue(UserInfo::admin()).ok()?.link));
    // A closed stdout is no reason to stop.
    let _ = writeln!(out, "{line}");
}

/// The line. A link is a credential, so only a terminal gets one. Other outputs may be log files.
fn line(is_terminal: bool, link: impl FnOnce() -> Option<String>) -> String {
    match is_terminal.then(link).flatten() {
        Some(link) => format!("web page (valid once, for 5 minutes): {link}"),
        None => "web page: run `orlop page` to print a link".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_printed_to_a_terminal_only() {
        const LINK: &str = "http://127.0.0.1:1/#code=x";
        for (is_terminal, link, want) in [
            (true, Some(LINK), "web page (valid once, for 5 minutes): http://127.0.0.1:1/#code=x"),
            (true, None, "web page: run `orlop page` to print a link"),
            (false, Some(LINK), "web page: run `orlop page` to print a link"),
        ] {
            assert_eq!(line(is_terminal, || link.map(str::to_owned)), want);
        }
    }
}
