//! The names in a kubeconfig: the context, and the cluster and the user that it refers to.

use std::collections::HashSet;

use kube::config::{AuthInfo, Cluster, Kubeconfig};

/// Maximum number of contexts that an error lists.
const LISTED: usize = 10;
/// Maximum length of a name in an error, characters.
const LONGEST: usize = 100;

/// The entries of a context, with their names for errors.
pub(super) struct Selected<'k> {
    pub(super) cluster: (String, &'k Cluster),
    /// `None` for an anonymous user.
    pub(super) user: Option<(String, &'k AuthInfo)>,
}

/// The entries of a context; `None` means the current one.
///
/// # Errors
/// A name is missing, or two entries have the same one.
pub(super) fn select<'k>(config: &'k Kubeconfig, context: Option<&str>) -> Result<Selected<'k>, String> {
    unique("contexts", config.contexts.iter().map(|one| one.name.as_str()))?;
    unique("clusters", config.clusters.iter().map(|one| one.name.as_str()))?;
    unique("users", config.auth_infos.iter().map(|one| one.name.as_str()))?;
    let current = || config.current_context.as_deref().filter(|name| !name.is_empty());
    let Some(wanted) = context.or_else(current) else { return Err(no_current_context(config)) };
    let found = config.contexts.iter().find(|one| one.name == wanted);
    let found = found.ok_or_else(|| {
        format!("it does not contain the context {}; its contexts are: {}", shown(wanted), contexts(config))
    })?;
    let name = shown(&found.name);
    let context = found.context.as_ref().filter(|context| !context.cluster.is_empty());
    let context = context
        .ok_or_else(|| format!("its context {name} has no cluster: set the cluster of the context"))?;
    let cluster = config.clusters.iter().find(|one| one.name == context.cluster).ok_or_else(|| {
        let cluster = shown(&context.cluster);
        format!("its context {name} refers to the cluster {cluster}, which it does not contain: correct the name or add the cluster")
    })?;
    let cluster_name = shown(&cluster.name);
    let entry = cluster.cluster.as_ref().filter(|one| one.server.as_ref().is_some_and(|url| !url.is_empty()));
    let entry = entry.ok_or_else(|| {
        format!("its cluster {cluster_name} has no server: set the server to a URL such as https://host:6443")
    })?;
    let user = match context.user.as_deref().filter(|user| !user.is_empty()) {
        None => None,
        Some(user) => {
            let found = config.auth_infos.iter().find(|one| one.name == user).ok_or_else(|| {
                let user = shown(user);
                format!("its context {name} refers to the user {user}, which it does not contain: correct the name or add the user")
            })?;
            found.auth_info.as_ref().map(|info| (shown(user), info))
        }
    };
    Ok(Selected { cluster: (cluster_name, entry), user })
}

fn no_current_context(config: &Kubeconfig) -> String {
    match config.contexts.is_empty() {
        true => "it contains no contexts: check that the file is a kubeconfig".to_owned(),
        false => format!(
            "it has no current context: run kubectl config use-context NAME; its contexts are: {}",
            contexts(config)
        ),
    }
}

/// The names of the contexts.
fn contexts(config: &Kubeconfig) -> String {
    let names: Vec<String> = config.contexts.iter().take(LISTED).map(|one| shown(&one.name)).collect();
    match config.contexts.len().checked_sub(LISTED) {
        None | Some(0) if names.is_empty() => "none".to_owned(),
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// Checks that no two entries have the same name: it would be unclear which of them counts.
fn unique<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Result<(), String> {
    let mut known = HashSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(format!("two of its {what} have the name {}: remove one of them", shown(name)));
        }
    }
    Ok(())
}

/// A name in quotes.
fn shown(name: &str) -> String {
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((end, _)) => format!("{:?}...", &name[..end]),
    }
}
