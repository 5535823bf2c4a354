//! Limits on credentials and on the attributes of users: the authorizer looks up the bindings of each group for each request.

use crate::UserInfo;

/// Maximum length of a bearer token, bytes. Tokens of identity providers with many groups have some kilobytes.
pub const MAX_TOKEN_BYTES: usize = 32 * 1024;
/// Maximum number of groups.
const MAX_GROUPS: usize = 1000;
/// Maximum number of values of extra attributes.
const MAX_EXTRA: usize = 500;
/// Maximum size of all texts, bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A user with too many attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserTooLarge {
    /// Too many groups.
    #[error("the user has more than {MAX_GROUPS} groups")]
    Groups,
    /// Too many extra attributes.
    #[error("the user has more than {MAX_EXTRA} extra attributes")]
    Extra,
    /// The texts are too long.
    #[error("the name, the groups and the extra attributes of the user are longer than {MAX_BYTES} bytes")]
    Bytes,
}

/// Checks the size of a user.
///
/// # Errors
/// It is too large.
pub fn check(user: &UserInfo) -> Result<(), UserTooLarge> {
    if user.groups.len() > MAX_GROUPS {
        return Err(UserTooLarge::Groups);
    }
    let extra: usize = user.extra.values().map(|values| values.len().max(1)).sum();
    if extra > MAX_EXTRA {
        return Err(UserTooLarge::Extra);
    }
    let groups: usize = user.groups.iter().map(String::len).sum();
    let values = user.extra.iter().flat_map(|(key, values)| values.iter().chain([key]));
    let extra: usize = values.map(String::len).sum();
    if user.username.len() + user.uid.len() + groups + extra > MAX_BYTES {
        return Err(UserTooLarge::Bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_users_are_rejected() {
        let user = |groups: usize, extra: usize, bytes: usize| {
            let mut user = UserInfo::new("u".repeat(bytes), (1..groups).map(|nth| format!("g{nth}")));
            user.extra.insert("k".to_owned(), vec![String::new(); extra]);
            user
        };
        for (case, user, want) in [
            ("1 usual", user(200, 10, 100), Ok(())),
            ("2 the most groups", user(MAX_GROUPS, 1, 1), Ok(())),
            ("3 too many groups", user(MAX_GROUPS + 1, 1, 1), Err(UserTooLarge::Groups)),
            ("4 the most attributes", user(1, MAX_EXTRA, 1), Ok(())),
            ("5 too many attributes", user(1, MAX_EXTRA + 1, 1), Err(UserTooLarge::Extra)),
            ("6 too long", user(1, 1, MAX_BYTES), Err(UserTooLarge::Bytes)),
        ] {
            assert_eq!(check(&user), want, "{case}");
        }
    }
}
