//! Configuration of the commands that explain, rewind and repair: parses objects, revisions and times, and
//! selects the server.

use orlop_client::client::Endpoint;

use super::caller::Caller;
use super::error::{ConfigError, wrong};
use super::remote::remote;
use crate::args::{
    AttachmentCommand, ChangeArgs, DiffArgs, GetArgs, HistoryArgs, PvCommand, PvcCommand, RecordArgs,
    RemoteArgs, UnblockArgs, UndeleteArgs, WhereArgs, WhyArgs,
};
use crate::insight::names::{self, Named};
use crate::insight::{Change, Deed, Get, Insight, Verb};

/// Commands whose flags belong to their subcommands.
pub(super) const VERBS_BELOW: [&str; 5] = ["pv", "pvc", "attachment", "token", "kubeconfig"];

const CLAIMS: (&str, &str, &[&str]) =
    ("persistentvolumeclaims", "PersistentVolumeClaim", &["pvc", "persistentvolumeclaim"]);
const VOLUMES: (&str, &str, &[&str]) = ("persistentvolumes", "PersistentVolume", &["pv", "persistentvolume"]);
const ATTACHMENTS: (&str, &str, &[&str]) = (
    "volumeattachments.storage.k8s.io",
    "VolumeAttachment",
    &["attachment", "attachments", "va", "volumeattachment", "volumeattachments"],
);

/// The default address of `orlop serve`. These commands are usually run on the same machine.
const HERE: &str = "http://127.0.0.1:8080";

type Done = Result<Insight, ConfigError>;

pub(super) fn why(args: WhyArgs, caller: Caller) -> Done {
    let objects = names::several(&args.objects, names::object)?;
    asked(Deed::Why { objects, output: args.output }, args.server, caller)
}

pub(super) fn impact(args: WhyArgs, caller: Caller) -> Done {
    let objects = names::several(&args.objects, names::object)?;
    asked(Deed::Impact { objects, output: args.output }, args.server, caller)
}

pub(super) fn history(args: HistoryArgs, caller: Caller) -> Done {
    let HistoryArgs { objects, limit, token, output, server } = args;
    let objects = names::several(&objects, names::object)?;
    if token.is_some() && objects.len() > 1 {
        return Err(wrong("--continue continues the history of one object: specify one object"));
    }
    asked(Deed::History { objects, limit, token, output }, server, caller)
}

pub(super) fn diff(args: DiffArgs, caller: Caller) -> Done {
    let objects = names::several(&args.objects, names::object_between)?;
    asked(Deed::Diff { objects, output: args.output }, args.server, caller)
}

pub(super) fn get(args: GetArgs, caller: Caller) -> Done {
    let GetArgs { what, as_of, all_namespaces, selector, output, server } = args;
    let (kind, name) = names::some_or_one(&what)?;
    if name.is_some() && selector.is_some() {
        return Err(wrong("specify a name or --selector, not both"));
    }
    let as_of = as_of.as_deref().map(names::point).transpose()?;
    asked(Deed::Get(Get { kind, name, as_of, all_namespaces, selector, output }), server, caller)
}

pub(super) fn record(args: RecordArgs, caller: Caller) -> Done {
    let RecordArgs { output: file, from, context, remote } = args;
    let from = from.as_deref().map(names::point).transpose()?;
    asked(Deed::Record { file, from }, WhereArgs { namespace: None, context, remote }, caller)
}

pub(super) fn undelete(args: UndeleteArgs, caller: Caller) -> Done {
    let named = names::several(&args.objects, names::object_at)?;
    let operations = named.into_iter().map(|(object, at)| (object, Verb::Undelete { at })).collect();
    change(operations, args.change, caller)
}

pub(super) fn unblock(args: UnblockArgs, caller: Caller) -> Done {
    let objects = names::several(&args.objects, names::object)?;
    let operations =
        objects.into_iter().map(|object| (object, Verb::Unblock { force: args.force })).collect();
    change(operations, args.change, caller)
}

pub(super) fn pv(command: PvCommand, caller: Caller) -> Done {
    let PvCommand::Reclaim(args) = command;
    let claim = args.claim.as_deref().map(names::claim).transpose()?;
    let verb = if args.scrub { Verb::Scrub } else { Verb::KeepData { claim } };
    change(vec![(of_kind(&args.name, VOLUMES)?, verb)], args.change, caller)
}

pub(super) fn pvc(command: PvcCommand, caller: Caller) -> Done {
    match command {
        PvcCommand::Recover(args) => {
            change(vec![(of_kind(&args.name, CLAIMS)?, Verb::Recover)], args.change, caller)
        }
        PvcCommand::Transfer(args) => {
            let verb = Verb::Transfer { namespace: args.to, name: args.new_name };
            change(vec![(of_kind(&args.name, CLAIMS)?, verb)], args.change, caller)
        }
    }
}

pub(super) fn attachment(command: AttachmentCommand, caller: Caller) -> Done {
    let AttachmentCommand::Release(args) = command;
    let release = Verb::Release { force: args.force };
    change(vec![(of_kind(&args.name, ATTACHMENTS)?, release)], args.change, caller)
}

fn of_kind(
    text: &str,
    (resource, wanted, known_as): (&'static str, &'static str, &[&str]),
) -> Result<Named, ConfigError> {
    Ok(names::of_kind(text, resource, wanted, known_as)?)
}

fn change(operations: Vec<(Named, Verb)>, args: ChangeArgs, caller: Caller) -> Done {
    let ChangeArgs { dry_run, yes, output, server } = args;
    asked(Deed::Change(Change { operations, dry_run, yes, output }), server, caller)
}

fn asked(deed: Deed, place: WhereArgs, caller: Caller) -> Done {
    let WhereArgs { namespace, context, remote: args } = place;
    let server = server(args, context, caller)?;
    Ok(Insight { deed, namespace, server })
}

/// A context belongs to a kubeconfig, so `--context` implies a kubeconfig. Without any flag, the server is the
/// one on this machine.
pub(super) fn server(
    mut args: RemoteArgs,
    named: Option<String>,
    caller: Caller,
) -> Result<Endpoint, ConfigError> {
    let Some(named) = named else {
        let is_unsaid = args.server.is_none() && args.master.is_none() && args.kubeconfig.is_none();
        if is_unsaid && caller == Caller::Itself {
            args.server = Some(HERE.to_owned());
        }
        return remote(args, caller);
    };
    match remote(args, Caller::Kubectl)? {
        Endpoint::Kubeconfig { path, server, .. } => {
            Ok(Endpoint::Kubeconfig { path, context: Some(named), server })
        }
        Endpoint::Url { .. } | Endpoint::Certificate(_) => {
            Err(wrong("--context selects a context of a kubeconfig: it cannot be used with --server alone"))
        }
    }
}
