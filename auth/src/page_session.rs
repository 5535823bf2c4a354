//! Sign-in of the web page: one-time codes, and the sessions that they begin.
//!
//! A browser can present a client certificate only after an import. Therefore a client with credentials requests a code, and the page
//! exchanges it for the token of a session of the same user. Codes and sessions exist only in memory, as digests. A restart ends all of
//! them, so another program that later listens on the same port receives no valid token.
//!
//! A code and its session end no later than the credentials that requested the code. [`PageSessions`] knows when these expire. The caller
//! checks at each request whether they have become invalid earlier.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::constant_time::{digest, is_same_digest};

/// The beginning of a session's token. The server passes such a token to no other authenticator.
pub const TOKEN_PREFIX: &str = "orlop-page.";
/// Maximum validity of a code.
pub const CODE_VALIDITY: SignedDuration = SignedDuration::from_mins(5);
/// Maximum validity of a session.
pub const SESSION_VALIDITY: SignedDuration = SignedDuration::from_hours(12);
/// Maximum number of codes and of sessions; a new one replaces the oldest.
const MAX_CODES: usize = 8;
const MAX_SESSIONS: usize = 64;
/// Maximum number of wrong codes in [`ATTEMPTS_TIME`] that are answered as unknown; clients with further ones are asked to wait.
const MAX_ATTEMPTS: u32 = 10;
const ATTEMPTS_TIME: SignedDuration = SignedDuration::from_mins(1);

/// The reason that a code is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The code is unknown, used or expired.
    #[error("the code is unknown, used or expired")]
    Unknown,
    /// There were too many wrong codes.
    #[error("too many wrong codes")]
    TooManyAttempts,
}

/// The digest of a secret that identifies a user until a time.
struct Grant<U> {
    digest: [u8; 32],
    user: U,
    /// When the credentials of the user expire; `None` for never.
    end: Option<Timestamp>,
    /// The end of the grant; not after `end`.
    until: Timestamp,
}

struct State<U> {
    codes: Vec<Grant<U>>,
    sessions: Vec<Grant<U>>,
    /// The number of wrong codes after `since`.
    attempts: u32,
    since: Timestamp,
}

/// The codes and the sessions of a server. `U` describes a user and its credentials.
pub struct PageSessions<U>(Mutex<State<U>>);

impl<U> Default for PageSessions<U> {
    fn default() -> Self {
        let (codes, sessions, since) = (Vec::new(), Vec::new(), Timestamp::default());
        PageSessions(Mutex::new(State { codes, sessions, attempts: 0, since }))
    }
}

impl<U> std::fmt::Debug for PageSessions<U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageSessions")
    }
}

impl<U: Clone> PageSessions<U> {
    /// Accepts a code once, for a session of this user, whose credentials expire at `end`. Returns when the code expires.
    pub fn add_code(&self, code: &str, user: U, end: Option<Timestamp>, now: Timestamp) -> Timestamp {
        add(&mut self.0.lock().codes, code, (user, end), now, CODE_VALIDITY, MAX_CODES)
    }

    /// Uses a code: `token` becomes the token of a session of its user. Returns the user, and when the session expires.
    ///
    /// # Errors
    /// The code is not valid, or there were too many wrong ones.
    pub fn exchange(&self, code: &str, token: &str, now: Timestamp) -> Result<(U, Timestamp), ExchangeError> {
        let state = &mut *self.0.lock();
        // A valid code is accepted after any number of wrong ones: a guess cannot succeed, and other processes of the machine
        // must not be able to prevent a sign-in.
        let Some(at) = position(&mut state.codes, code, now) else {
            // The clock may step back.
            if now.duration_since(state.since).abs() >= ATTEMPTS_TIME {
                (state.attempts, state.since) = (0, now);
            }
            if state.attempts >= MAX_ATTEMPTS {
                return Err(ExchangeError::TooManyAttempts);
            }
            state.attempts += 1;
            return Err(ExchangeError::Unknown);
        };
        let Grant { user, end, .. } = state.codes.remove(at);
        let granted = (user.clone(), end);
        let until = add(&mut state.sessions, token, granted, now, SESSION_VALIDITY, MAX_SESSIONS);
        Ok((user, until))
    }

    /// The user of a session, and when the session expires.
    pub fn user_of(&self, token: &str, now: Timestamp) -> Option<(U, Timestamp)> {
        let sessions = &mut self.0.lock().sessions;
        position(sessions, token, now).map(|at| (sessions[at].user.clone(), sessions[at].until))
    }

    /// Ends a session.
    pub fn end(&self, token: &str, now: Timestamp) {
        let sessions = &mut self.0.lock().sessions;
        if let Some(at) = position(sessions, token, now) {
            sessions.remove(at);
        }
    }
}

fn add<U>(
    grants: &mut Vec<Grant<U>>,
    secret: &str,
    (user, end): (U, Option<Timestamp>),
    now: Timestamp,
    validity: SignedDuration,
    most: usize,
) -> Timestamp {
    let longest = now.saturating_add(validity).unwrap_or(Timestamp::MAX);
    let until = end.map_or(longest, |end| end.min(longest));
    grants.retain(|grant| now < grant.until);
    if grants.len() >= most {
        grants.remove(0);
    }
    grants.push(Grant { digest: digest(secret.as_bytes()), user, end, until });
    until
}

/// The position of a secret that is still valid. Compares it with all entries, so that the time does not depend on the position.
fn position<U>(grants: &mut Vec<Grant<U>>, secret: &str, now: Timestamp) -> Option<usize> {
    grants.retain(|grant| now < grant.until);
    let wanted = digest(secret.as_bytes());
    let mut found = None;
    for (at, grant) in grants.iter().enumerate() {
        if is_same_digest(&grant.digest, &wanted) {
            found = Some(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::UserInfo;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn user(name: &str) -> UserInfo {
        UserInfo::new(name, [])
    }

    #[test]
    fn code_begins_one_session_in_time() {
        for (case, code, used_before, second, want) in [
            ("1 valid", "code", false, 299, Ok(())),
            ("2 expired", "code", false, 300, Err(ExchangeError::Unknown)),
            ("3 used", "code", true, 10, Err(ExchangeError::Unknown)),
            ("4 another", "cod", false, 10, Err(ExchangeError::Unknown)),
            ("5 empty", "", false, 10, Err(ExchangeError::Unknown)),
        ] {
            let sessions = PageSessions::default();
            assert_eq!(sessions.add_code("code", user("ann"), None, at(0)), at(300));
            if used_before {
                sessions.exchange("code", "first", at(1)).unwrap();
            }
            let got = sessions.exchange(code, "token", at(second));
            assert_eq!(got.as_ref().map(|_| ()).map_err(|error| *error), want, "{case}");
            if let Ok((name, until)) = got {
                assert_eq!((name, until), (user("ann"), at(second + 12 * 3600)), "{case}");
            }
            assert_eq!(sessions.user_of("token", at(second)).is_some(), want.is_ok(), "{case}");
        }
    }

    #[test]
    fn session_ends_after_its_time() {
        let sessions = PageSessions::default();
        sessions.add_code("code", user("ann"), None, at(0));
        sessions.exchange("code", "token", at(0)).unwrap();
        for (second, token, want) in
            [(0, "token", true), (0, "code", false), (43_199, "token", true), (43_200, "token", false)]
        {
            let found = sessions.user_of(token, at(second));
            assert_eq!(found, want.then(|| (user("ann"), at(43_200))), "{token} {second}");
        }
    }

    #[test]
    fn codes_and_sessions_end_with_the_credentials() {
        // case, when the credentials expire, when the code is exchanged, when the code expires, when the session expires
        for (case, end, second, code_until, want) in [
            ("1 credentials without an end", None, 10, 300, Some(10 + 43_200)),
            ("2 longer credentials", Some(50_000), 10, 300, Some(10 + 43_200)),
            ("3 shorter than a session", Some(600), 10, 300, Some(600)),
            ("4 shorter than a code", Some(60), 59, 60, Some(60)),
            ("5 expired before the exchange", Some(60), 60, 60, None),
        ] {
            let sessions = PageSessions::default();
            assert_eq!(sessions.add_code("code", user("ann"), end.map(at), at(0)), at(code_until), "{case}");
            let got = sessions.exchange("code", "token", at(second)).ok().map(|(_, until)| until);
            assert_eq!(got, want.map(at), "{case}");
            let Some(until) = want else { continue };
            for (second, is_valid) in [(until - 1, true), (until, false)] {
                let found = sessions.user_of("token", at(second));
                assert_eq!(found.is_some(), is_valid, "{case}: {second}");
            }
        }
    }

    #[test]
    fn ended_session_is_unknown() {
        let sessions = PageSessions::default();
        sessions.add_code("code", user("ann"), None, at(0));
        sessions.exchange("code", "token", at(0)).unwrap();
        sessions.end("another", at(1));
        assert!(sessions.user_of("token", at(1)).is_some());
        sessions.end("token", at(1));
        assert_eq!(sessions.user_of("token", at(1)), None);
    }

    #[test]
    fn wrong_codes_are_limited() {
        let sessions = PageSessions::default();
        sessions.add_code("code", user("ann"), None, at(0));
        for _ in 0..MAX_ATTEMPTS {
            assert_eq!(sessions.exchange("guess", "t", at(1)), Err(ExchangeError::Unknown));
        }
        assert_eq!(sessions.exchange("guess", "t", at(60)), Err(ExchangeError::TooManyAttempts));
        assert!(sessions.exchange("code", "t", at(60)).is_ok(), "a valid code");
        for second in [61, -3600] {
            let sooner_or_later = sessions.exchange("guess", "t", at(second));
            assert_eq!(sooner_or_later, Err(ExchangeError::Unknown), "{second}");
        }
    }

    #[test]
    fn number_of_codes_and_sessions_is_bounded() {
        let sessions = PageSessions::default();
        for number in 0..=MAX_CODES {
            sessions.add_code(&format!("code {number}"), user("ann"), None, at(0));
        }
        assert_eq!(sessions.exchange("code 0", "t", at(1)), Err(ExchangeError::Unknown), "the oldest");
        assert!(sessions.exchange("code 1", "t", at(1)).is_ok());
        for number in 0..MAX_SESSIONS {
            sessions.add_code("code", user("ann"), None, at(1));
            sessions.exchange("code", &format!("token {number}"), at(1)).unwrap();
        }
        assert_eq!(sessions.user_of("t", at(2)), None, "the oldest");
        assert!(sessions.user_of("token 0", at(2)).is_some());
    }
}
