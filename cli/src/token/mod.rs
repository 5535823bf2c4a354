//! `orlop token`: creates, lists and deletes bootstrap tokens, which are Secrets in `kube-system`.
//!
//! Upstream: cmd/kubeadm/app/cmd/token.go. Unlike kubeadm, only `create` prints the secret of a token.

mod error;
mod join_command;
mod render;

use std::io::Write as _;
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{DeleteParams, ListParams, PostParams};
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{
    BootstrapToken, NAME_PREFIX, NAMESPACE, SECRET_TYPE, Usage, check_group, is_id,
};
use orlop_client::client::{self, Endpoint, is_not_found};

use self::error::CommandError;
use crate::args::TokenCreateArgs;
use crate::local_admin;

/// The command and its server.
pub(crate) struct Token {
    pub(crate) deed: TokenDeed,
    pub(crate) server: Endpoint,
}

/// The action.
pub(crate) enum TokenDeed {
    /// Create a token.
    Create(Box<TokenCreateArgs>),
    /// List the tokens.
    List,
    /// Delete the tokens with these IDs.
    Delete(Vec<String>),
}

/// Runs the command and returns the exit code.
pub(crate) fn run(token: Token) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let all = || -> Result<String, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandError::Threads)?;
        runtime.block_on(async {
            let server = local_admin::resolve(token.server).await;
            let client = client::connect(server.clone()).await?;
            match token.deed {
                TokenDeed::Create(args) => create(&client, &server, *args).await,
                TokenDeed::List => list(&client).await,
                TokenDeed::Delete(ids) => delete(&client, &ids).await,
            }
        })
    };
    match all() {
        Ok(text) => {
            // A reader that closed the pipe needs no more output.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The token that the flags describe. Pure.
fn wanted(
    args: &TokenCreateArgs,
    mut token: BootstrapToken,
    now: Timestamp,
) -> Result<BootstrapToken, CommandError> {
    let mut usages: Vec<Usage> = args.usages.iter().map(|usage| usage.usage()).collect();
    usages.sort_unstable();
    usages.dedup();
    let groups: Vec<String> = args.groups.iter().filter(|group| !group.is_empty()).cloned().collect();
    for group in &groups {
        check_group(group)?;
    }
    if !groups.is_empty() && !usages.contains(&Usage::Authentication) {
        return Err(CommandError::GroupsWithoutAuthentication);
    }
    let ttl = SignedDuration::try_from(args.ttl).unwrap_or(SignedDuration::MAX);
    token.expiration = match ttl.is_zero() {
        true => None,
        false => Some(now.checked_add(ttl).map_err(|_| CommandError::Ttl)?),
    };
    (token.usages, token.groups, token.description) = (usages, groups, args.description.clone());
    Ok(token)
}

async fn create(client: &Client, server: &Endpoint, args: TokenCreateArgs) -> Result<String, CommandError> {
    let new = match &args.new_token {
        Some(text) => text.parse()?,
        None => BootstrapToken::generate(),
    };
    let token = wanted(&args, new, Timestamp::now())?;
    // Before the token exists: without the command, it would be of no use.
    let join = match args.print_join_command {
        true => Some(join_command::of(client, server, &token).await?),
        false => None,
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let what = || format!("create bootstrap token {}", token.id);
    api.create(&PostParams::default(), &token.to_secret()).await.map_err(CommandError::request(what()))?;
    Ok(join.unwrap_or_else(|| token.credential()) + "\n")
}

async fn list(client: &Client) -> Result<String, CommandError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let selected = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let found = api.list(&selected).await.map_err(CommandError::request("list bootstrap tokens"))?;
    let mut tokens = Vec::new();
    for secret in &found.items {
        match BootstrapToken::read(secret) {
            Ok(token) => tokens.push(token),
            Err(error) => eprintln!("warning: {error}"),
        }
    }
    Ok(render::table(&tokens, Timestamp::now()))
}

/// Deletes as many tokens as possible; the first failure is reported.
async fn delete(client: &Client, ids: &[String]) -> Result<String, CommandError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let mut said = String::new();
    for text in ids {
        // A whole token is accepted as well; its secret is not repeated.
        let id = text.split('.').next().unwrap_or_default();
        if !is_id(id) {
            return Err(CommandError::Id);
        }
        match api.delete(&format!("{NAME_PREFIX}{id}"), &DeleteParams::default()).await {
            Ok(_) => said += &format!("bootstrap token {id} deleted\n"),
            Err(error) if is_not_found(&error) => return Err(CommandError::Missing(id.to_owned())),
            Err(error) => return Err(CommandError::request(format!("delete bootstrap token {id}"))(error)),
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use orlop_client::bootstrap_token::NODE_GROUP;

    use super::*;
    use crate::args::UsageArg;

    fn args(ttl: u64, usages: &[UsageArg], groups: &[&str]) -> TokenCreateArgs {
        TokenCreateArgs {
            new_token: None,
            ttl: Duration::from_secs(ttl),
            usages: usages.to_vec(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            description: "d".to_owned(),
            print_join_command: false,
            remote: crate::args::RemoteArgs::default(),
        }
    }

    #[test]
    fn flags_describe_the_token() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let both = [UsageArg::Authentication, UsageArg::Signing, UsageArg::Signing];
        let of = |args: &TokenCreateArgs| wanted(args, BootstrapToken::generate(), now);
        let token = of(&args(60, &both, &[NODE_GROUP])).unwrap();
        assert_eq!(token.expiration, Some("2026-11-26T12:01:00Z".parse().unwrap()));
        assert_eq!(token.usages, Usage::ALL);
        assert_eq!((token.groups, token.description.as_str()), (vec![NODE_GROUP.to_owned()], "d"));
        assert_eq!(of(&args(0, &both, &[])).unwrap().expiration, None, "it never expires");
        for (args, want) in [
            (args(60, &both, &["system:masters"]), "cannot be the group"),
            (args(60, &[UsageArg::Signing], &[NODE_GROUP]), "--usages"),
            (args(u64::MAX, &both, &[]), "--ttl"),
        ] {
            let why = of(&args).unwrap_err().to_string();
            assert!(why.contains(want), "{why}");
        }
    }
}
