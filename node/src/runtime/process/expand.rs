//! Expands `$(NAME)` references in the strings of a container, within the size that a process can receive. Pure
//! (upstream: third_party/forked/golang/expansion, which has no limit).

use std::collections::HashMap;

/// The maximum size of the environment and the arguments of a container. execve accepts 2 MiB with the default stack
/// limit of 8 MiB, and at most 128 KiB per string, so a larger container could not start anyway.
const MAX_BYTES: usize = 2 << 20;
/// The maximum length of a path (PATH_MAX).
const MAX_PATH: usize = 4096;

/// The environment and the arguments of a container exceed [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment and the arguments of the container are larger than 2 MiB")]
pub(super) struct TooLarge;

/// Why a path cannot be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathError {
    /// It refers to variables that do not exist.
    #[error("there is no variable {}", .0.join(", "))]
    Unknown(Vec<String>),
    /// The path, or its template, exceeds [`MAX_PATH`].
    #[error("it is longer than 4096 bytes")]
    TooLong,
}

/// The variables of a container, and how much of [`MAX_BYTES`] is left for more variables and the arguments.
/// A replaced variable counts too, so the limit bounds the work as well as the size.
#[derive(Debug)]
pub(super) struct Environment {
    variables: Vec<(String, String)>,
    by_name: HashMap<String, usize>,
    left: usize,
}

impl Environment {
    /// No variables.
    pub(super) fn new() -> Self {
        Self { variables: Vec::new(), by_name: HashMap::new(), left: MAX_BYTES }
    }

    /// These variables. Of several with one name, the last one counts.
    pub(super) fn of(variables: Vec<(String, String)>) -> Result<Self, TooLarge> {
        let mut env = Self::new();
        for (name, value) in variables {
            env.set(name, value)?;
        }
        Ok(env)
    }

    /// Sets a variable. Ignores a name with `=` and a value with a NUL byte, which cannot be passed to a process.
    pub(super) fn set(&mut self, name: String, value: String) -> Result<(), TooLarge> {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Ok(());
        }
        // The `=` and the NUL byte at the end.
        self.charge(name.len() + value.len() + 2)?;
        match self.by_name.get(&name) {
            Some(&at) => self.variables[at].1 = value,
            None => {
                self.by_name.insert(name.clone(), self.variables.len());
                self.variables.push((name, value));
            }
        }
        Ok(())
    }

    /// Expands the value of a variable.
    pub(super) fn expand(&self, text: &str) -> Result<String, TooLarge> {
        expand(text, self.left, |name| self.get(name)).ok_or(TooLarge)
    }

    /// Expands an argument.
    pub(super) fn argument(&mut self, text: &str) -> Result<String, TooLarge> {
        let argument = self.expand(text)?;
        self.charge(argument.len() + 1)?;
        Ok(argument)
    }

    /// Expands a path. Unlike in other strings, every name must be known.
    pub(super) fn path(&self, text: &str) -> Result<String, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        let mut unknown = Vec::new();
        let path = expand(text, MAX_PATH, |name| {
            let found = self.get(name);
            if found.is_none() {
                unknown.push(name.to_owned());
            }
            found
        });
        match path {
            _ if !unknown.is_empty() => Err(PathError::Unknown(unknown)),
            Some(path) => Ok(path),
            None => Err(PathError::TooLong),
        }
    }

    /// All variables.
    pub(super) fn into_variables(self) -> Vec<(String, String)> {
        self.variables
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|&at| self.variables[at].1.as_str())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.left = self.left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }
}

/// Replaces `$(NAME)` by the result of `value`; `$$` is one `$`. Unknown names and malformed references stay
/// unchanged. Returns `None` when the result is larger than `max_bytes`.
fn expand<'a>(
    text: &str,
    max_bytes: usize,
    mut value: impl FnMut(&str) -> Option<&'a str>,
) -> Option<String> {
    let mut out = String::new();
    let mut push = |part: &str| {
        out.push_str(part);
        out.len() <= max_bytes
    };
    let mut rest = text;
    // Without a `)` in the rest, no later reference is complete either: the rest is searched for one only once.
    let mut may_refer = true;
    while let Some(at) = rest.find('$') {
        push(&rest[..at]).then_some(())?;
        let tail = &rest[at + 1..];
        let inner = tail.strip_prefix('(').filter(|_| may_refer);
        let reference = inner.and_then(|inner| inner.split_once(')'));
        may_refer &= inner.is_none() || reference.is_some();
        let (fits, after) = match (tail.strip_prefix('$'), reference) {
            (Some(after), _) => (push("$"), after),
            (None, Some((name, after))) => match value(name) {
                Some(found) => (push(found), after),
                None => (push("$(") && push(name) && push(")"), after),
            },
            (None, None) => (push("$"), tail),
        };
        fits.then_some(())?;
        rest = after;
    }
    push(rest).then_some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, Instant};

    use super::*;

    fn set(env: &mut Environment, name: &str, value: &str) -> Result<(), TooLarge> {
        env.set(name.to_owned(), value.to_owned())
    }

    #[test]
    fn references_expand_like_upstream() {
        let value = |name: &str| match name {
            "VAR_A" => Some("A"),
            "VAR_B" => Some("B"),
            "VAR_REF" => Some("$(VAR_A)"),
            "VAR_EMPTY" => Some(""),
            _ => None,
        };
        for (text, want) in [
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("$(VAR_A)$(VAR_B)", "AB"),
            ("$(VAR_REF)", "$(VAR_A)"),
            ("x$(VAR_EMPTY)y", "xy"),
            ("$(VAR_C)", "$(VAR_C)"),
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("$VAR_A", "$VAR_A"),
            ("$(VAR_A", "$(VAR_A"),
            ("$", "$"),
            ("a$", "a$"),
            ("$$", "$"),
            ("$()", "$()"),
            ("$(((VAR_A)))", "$(((VAR_A)))"),
            ("f:$(VAR_A):$$:ü", "f:A:$:ü"),
            ("", ""),
        ] {
            assert_eq!(expand(text, 100, value).as_deref(), Some(want), "{text:?}");
        }
    }

    #[test]
    fn unknown_names_in_a_path_are_an_error() {
        let mut env = Environment::new();
        set(&mut env, "A", "1").unwrap();
        set(&mut env, "A", "2").unwrap();
        assert_eq!(env.path("$(A)/x"), Ok("2/x".to_owned()));
        assert_eq!(env.path("$(B)/$(C)").unwrap_err().to_string(), "there is no variable B, C");
    }

    #[test]
    fn paths_are_bounded() {
        let mut env = Environment::new();
        set(&mut env, "A", &"a".repeat(1024)).unwrap();
        assert_eq!(env.path("$(A)$(A)$(A)$(A)").map(|path| path.len()), Ok(4096));
        assert_eq!(env.path("$(A)$(A)$(A)$(A)/"), Err(PathError::TooLong));
        assert_eq!(env.path(&"a".repeat(4097)), Err(PathError::TooLong));
        assert_eq!(env.path(&"$(B)".repeat(2000)), Err(PathError::TooLong));
    }

    #[test]
    fn repeated_doubling_stops_at_the_limit() {
        let mut env = Environment::new();
        set(&mut env, "A0", "0123456789").unwrap();
        let outcome = (1..=35).find_map(|at| {
            let text = format!("$(A{0})$(A{0})", at - 1);
            let value = env.expand(&text).and_then(|value| env.set(format!("A{at}"), value));
            value.err().map(|error| (at, error))
        });
        // 10 * 2^17 bytes are A17, and all variables before it are as large.
        assert_eq!(outcome, Some((17, TooLarge)));
    }

    #[test]
    fn arguments_share_the_limit_of_the_environment() {
        let mut env = Environment::of(vec![("X".to_owned(), "x".repeat(1 << 20))]).unwrap();
        assert_eq!(env.argument("$(X)$(X)"), Err(TooLarge));
        assert_eq!(env.argument("$(X)"), Err(TooLarge), "the variable needs a name and two more bytes");
        assert_eq!(env.argument("$$(X)"), Ok("$(X)".to_owned()));
        let rest = (1 << 20) - "X=\0".len() - "$(X)\0".len() - 1;
        assert!(env.argument(&"x".repeat(rest)).is_ok());
        assert_eq!(env.argument(""), Err(TooLarge));
    }

    #[test]
    fn cost_of_an_environment_is_linear() {
        // Quadratic work takes minutes with inputs of this size.
        let begun = Instant::now();
        let mut env = Environment::new();
        for at in 0..80_000 {
            let value = env.expand(&format!("$(N{})", at / 2)).unwrap();
            env.set(format!("N{at}"), value[..value.len().min(8)].to_owned()).unwrap();
        }
        assert_eq!(env.into_variables().len(), 80_000);
        let open = "$(".repeat(800_000);
        assert_eq!(expand(&open, MAX_BYTES, |_| None).as_deref(), Some(open.as_str()));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
