//! Precedence of flags, variables, file and defaults, and the combinations that are refused.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::time::Duration;

use clap::error::ErrorKind;

use super::*;

/// Variables and their values.
type Variables<'a> = &'a [(&'a str, &'a str)];

fn load_with(args: &[&str], variables: Variables<'_>) -> Result<Config, ConfigError> {
    let args = std::iter::once("orlop").chain(args.iter().copied()).map(OsString::from);
    load(args, |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
}

fn refusal(args: &[&str], variables: Variables<'_>) -> ConfigError {
    match load_with(args, variables) {
        Ok(_) => panic!("{args:?} must be refused"),
        Err(error) => error,
    }
}

fn server_of(config: Config) -> ServerConfig {
    let Config::Run(run) = config else { panic!("no process") };
    match run.role {
        Role::Serve(server, ..) | Role::Apiserver(server) => *server,
        Role::Controller(..) | Role::CsiHostpath(_) | Role::Node(..) | Role::Join(..) => panic!("no server"),
    }
}

fn remote_of(config: Config) -> Endpoint {
    let Config::Run(run) = config else { panic!("no process") };
    match run.role {
        Role::Controller(remote, _) => remote,
        Role::Serve(..) | Role::Apiserver(_) | Role::CsiHostpath(_) | Role::Node(..) | Role::Join(..) => {
            panic!("no controller")
        }
    }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let file = file("event-ttl: 3s\n");
    let path = file.path().to_str().unwrap();
    let cases: [(&[&str], Variables<'_>, u64); 5] = [
        (&[], &[], 3600),
        (&["--config", path], &[], 3),
        (&[], &[("ORLOP_CONFIG", path)], 3),
        (&["--config", path], &[("ORLOP_EVENT_TTL", "2s")], 2),
        (&["--config", path, "--event-ttl", "1s"], &[("ORLOP_EVENT_TTL", "2s")], 1),
    ];
    for (flags, variables, want) in cases {
        let args: Vec<&str> = ["serve"].iter().chain(flags).copied().collect();
        let server = server_of(load_with(&args, variables).unwrap());
        assert_eq!(server.api.event_ttl, Duration::from_secs(want), "{flags:?} {variables:?}");
    }
}

#[test]
fn lists_and_booleans_parse_from_every_source() {
    let file = file("controllers: ['*', '-podgc']\nenable-hostpath-provisioner: true\n");
    let path = file.path().to_str().unwrap();
    let loops = |args: &[&str], variables: Variables<'_>| {
        let Config::Run(run) = load_with(args, variables).unwrap() else { panic!("no process") };
        let Role::Serve(_, loops, _) = run.role else { panic!("no loops") };
        (loops.controllers.join(" "), loops.enable_hostpath_provisioner)
    };
    assert_eq!(loops(&["serve"], &[]), ("*".into(), false));
    assert_eq!(loops(&["serve", "--config", path], &[]), ("* -podgc".into(), true));
    assert_eq!(
        loops(&["serve", "--config", path, "--controllers=a,-b", "--enable-hostpath-provisioner=false"], &[]),
        ("a -b".into(), false)
    );
    assert_eq!(loops(&["serve", "--controllers", "-b"], &[]), ("-b".into(), false));
    assert_eq!(
        loops(&["serve"], &[("ORLOP_CONTROLLERS", "a,b"), ("ORLOP_ENABLE_HOSTPATH_PROVISIONER", "t")]),
        ("a b".into(), true)
    );
    assert!(loops(&["serve", "--enable-hostpath-provisioner"], &[]).1, "a bare flag is true");
}

#[test]
fn errors_name_the_wrong_value() {
    let bad = file("event-ttl: soon\n");
    let unknown = file("evnt-ttl: 1s\n");
    let (bad, unknown) = (bad.path().to_str().unwrap(), unknown.path().to_str().unwrap());
    let cases: [(&[&str], Variables<'_>, &[&str]); 12] = [
        (&["serve", "--event-ttl", "soon"], &[], &["--event-ttl", "like 15s"]),
        (&["serve"], &[("ORLOP_EVENT_TTL", "soon")], &["ORLOP_EVENT_TTL", "like 15s"]),
        (&["serve", "--config", bad], &[], &[bad, "event-ttl", "like 15s"]),
        (&["serve", "--config", unknown], &[], &["evnt-ttl", "did you mean `event-ttl`"]),
        (&["serve", "--config", "/nowhere/x.yaml"], &[], &["/nowhere/x.yaml", "cannot be read"]),
        (&["serve", "--request-timeout", "0"], &[], &["--request-timeout"]),
        (&["serve", "--concurrent-gc-syncs", "0"], &[], &["--concurrent-gc-syncs", "at least 1"]),
        (
            &["serve", "--listen", "0.0.0.0:8080", "--tls-cert-file", "c", "--tls-private-key-file", "k"],
            &[],
            &["0.0.0.0:8080", "--client-ca-file", "--token-auth-file"],
        ),
        (&["controller"], &[], &["--server", "--kubeconfig"]),
        (&["controller", "--server", "http://a", "--leader-elect"], &[], &["--leader-elect=false"]),
        (&["controller", "--server", "http://a", "--master", "http://b"], &[], &["--master"]),
        (&["controller", "--kubeconfig", "x", "--token", "y"], &[], &["--kubeconfig", "--token"]),
    ];
    for (args, variables, parts) in cases {
        let error = refusal(args, variables).to_string();
        for part in parts {
            assert!(error.contains(part), "{args:?}: {part} is not in: {error}");
        }
    }
}

#[test]
fn controller_flags_select_the_server() {
    let token = file("abc\n");
    let path = token.path().to_str().unwrap();
    let args = ["controller", "--master", "http://a", "--token-file", path, "--leader-elect=false"];
    match remote_of(load_with(&args, &[]).unwrap()) {
        Endpoint::Url { url, token, ca_file: None, insecure: false } => {
            assert_eq!((url.as_str(), token.as_deref()), ("http://a", Some("abc")));
        }
        Endpoint::Url { .. } | Endpoint::Kubeconfig { .. } | Endpoint::Certificate(_) => {
            panic!("another endpoint")
        }
    }
    for (flags, want) in [(&[][..], None), (&["--master", "http://b"][..], Some("http://b"))] {
        let args = [&["controller", "--kubeconfig", "k"], flags].concat();
        match remote_of(load_with(&args, &[]).unwrap()) {
            Endpoint::Kubeconfig { path, context: None, server } => {
                assert_eq!((path, server.as_deref()), (Some(PathBuf::from("k")), want));
            }
            Endpoint::Url { .. } | Endpoint::Kubeconfig { .. } | Endpoint::Certificate(_) => {
                panic!("another endpoint")
            }
        }
    }
}

#[test]
fn clap_accepts_the_command_line_definition() {
    Cli::command().debug_assert();
}

#[test]
fn help_and_version_are_not_errors() {
    for args in [["serve", "--help"], ["--version", "serve"]] {
        let error = refusal(&args, &[]);
        let ConfigError::Clap(error) = error else { panic!("{error:?}") };
        assert!(matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
    }
}

#[test]
fn joining_needs_a_digest_and_a_token_of_the_right_form() {
    let token = "abcdef.0123456789abcdef";
    let join = |more: &[&str]| {
        let args: Vec<&str> = ["node", "join", "https://10.0.0.1:6443"].iter().chain(more).copied().collect();
        load_with(&args, &[])
    };
    let joined = join(&["--token", token, "--ca-hash", "sha256:a", "--ca-hash", "sha256:b", "--name", "n1"]);
    let Config::Run(run) = joined.unwrap() else { panic!("no process") };
    let Role::Join(options, config) = run.role else { panic!("no join") };
    assert_eq!((options.name.as_str(), config.name.as_str()), ("n1", "n1"));
    assert_eq!((options.ca_hashes.len(), options.token.as_deref()), (2, Some(token)));
    assert_eq!(options.root_dir, config.root_dir);
    for (more, want) in [
        (&["--token", token][..], "--ca-hash"),
        (&["--ca-hash", "sha256:a", "--token", "secret"], "16 lowercase letters"),
        (&["--ca-hash", "sha256:a", "--config", "/x"], "--config"),
        (&["--ca-hash", "sha256:a", "--token", token, "--token-file", "/x"], "cannot be used with"),
    ] {
        let text = join(more).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(want) && !text.contains("secret"), "{more:?}: {text}");
    }
}

#[test]
fn node_directory_is_below_the_data_dir() {
    let here = std::env::current_dir().unwrap();
    let cases: [(&[&str], Variables<'_>, PathBuf); 5] = [
        (&[], &[], "/var/lib/orlop/node".into()),
        (&["--data-dir", "/srv/o"], &[], "/srv/o/node".into()),
        (&["--data-dir", "o"], &[], here.join("o/node")),
        (&[], &[("ORLOP_DATA_DIR", "/srv/o")], "/srv/o/node".into()),
        (&["--data-dir", "/srv/o", "--root-dir", "/mnt/n"], &[], "/mnt/n".into()),
    ];
    for (flags, variables, want) in cases {
        let args = [&["serve", "--node", "--node-name=n"], flags].concat();
        let Config::Run(run) = load_with(&args, variables).unwrap() else { panic!("no process") };
        let Role::Serve(_, _, nodes) = run.role else { panic!("no server") };
        assert_eq!(nodes.machine.unwrap().root_dir, want, "{flags:?} {variables:?}");
    }
}

#[test]
fn insight_command_lines_are_parsed() {
    use crate::insight::{Deed, Verb};

    let server = ["--server", "http://a"];
    let deed = |args: &[&str]| {
        let args: Vec<&str> = args.iter().chain(&server).copied().collect();
        match load_with(&args, &[]) {
            Ok(Config::Tool(Tool(Task::Insight(insight)))) => insight.deed,
            Ok(_) => panic!("{args:?} is no question"),
            Err(error) => panic!("{args:?}: {error}"),
        }
    };
    let verb = |args: &[&str]| match deed(args) {
        Deed::Change(mut change) => {
            let (object, verb) = change.operations.remove(0);
            assert!(change.operations.is_empty(), "{args:?}");
            (object.name, verb)
        }
        _ => panic!("{args:?} changes nothing"),
    };
    assert!(matches!(deed(&["why", "pvc/data", "-n", "ns", "-o", "json"]), Deed::Why { .. }));
    assert!(matches!(deed(&["impact", "node/n"]), Deed::Impact { .. }));
    assert!(matches!(deed(&["history", "pvc/data", "--continue", "x"]), Deed::History { limit: 20, .. }));
    let Deed::Diff { objects, .. } = deed(&["diff", "pvc/data@5..7", "pvc/data@5"]) else {
        panic!("no diff")
    };
    assert!(matches!(&objects[..], [(_, _, Some(_)), (_, _, None)]));
    assert!(matches!(deed(&["record", "-o", "x", "--from", "7"]), Deed::Record { from: Some(_), .. }));
    for (args, wanted) in [
        (&["why", "pvc", "data"][..], &["pvc/data"][..]),
        (&["why", "pvc/data", "pod/web", "-n", "ns"], &["pvc/data", "pod/web"]),
        (&["impact", "pods", "-n", "ns", "web", "api"], &["pods/web", "pods/api"]),
        (&["history", "pvc", "data"], &["pvc/data"]),
        (&["diff", "pvc", "data@5..7", "logs@5"], &["pvc/data", "pvc/logs"]),
        (&["undelete", "pvc", "data@7", "logs"], &["pvc/data", "pvc/logs"]),
        (&["unblock", "pvc/data", "pv/disk", "--yes"], &["pvc/data", "pv/disk"]),
    ] {
        let named = deed(args);
        let got: Vec<String> =
            named.objects().iter().map(|named| format!("{}/{}", named.kind, named.name)).collect();
        assert_eq!(got, wanted, "{args:?}");
    }
    for args in
        [&["get", "pv/a"][..], &["list", "pv", "a"], &["get", "pv", "a", "--as-of", "2026-01-31T12:00:00Z"]]
    {
        let Deed::Get(get) = deed(args) else { panic!("{args:?}") };
        assert_eq!((get.kind.as_str(), get.name.as_deref()), ("pv", Some("a")));
    }
    let claim = Some(("ns".to_owned(), "data".to_owned()));
    for (args, wanted) in [
        (&["undelete", "pv/a"][..], Verb::Undelete { at: None }),
        (&["unblock", "pv/a", "--dry-run"], Verb::Unblock { force: false }),
        (&["unblock", "pv/a", "--force"], Verb::Unblock { force: true }),
        (&["pv", "reclaim", "a", "--keep-data"], Verb::KeepData { claim: None }),
        (&["pv", "reclaim", "pv/a", "--keep-data", "--for", "ns/data", "--yes"], Verb::KeepData { claim }),
        (&["pv", "reclaim", "a", "--scrub"], Verb::Scrub),
        (&["pvc", "recover", "a", "-n", "ns"], Verb::Recover),
        (&["pvc", "transfer", "a", "--to", "b"], Verb::Transfer { namespace: "b".into(), name: None }),
        (&["attachment", "release", "a", "--force"], Verb::Release { force: true }),
    ] {
        assert_eq!(verb(args), ("a".to_owned(), wanted), "{args:?}");
    }
    let cases: [(&[&str], &[&str]); 16] = [
        (&["why", "data"], &["KIND/NAME", "KIND NAME"]),
        (&["why"], &["KIND/NAME"]),
        (&["why", "pvc", "pvc/data"], &["KIND/NAME for each object"]),
        (&["unblock", "pvc/data", "web"], &["KIND/NAME for each object"]),
        (&["history", "pvc", "a", "b", "--continue", "x"], &["--continue", "one object"]),
        (&["diff", "pvc/data"], &["KIND/NAME@REV"]),
        (&["undelete", "pv/a@soon"], &["soon", "neither a revision"]),
        (&["pv", "reclaim", "a"], &["--keep-data", "--scrub"]),
        (&["pv", "reclaim", "a", "--keep-data", "--scrub"], &["--keep-data", "--scrub"]),
        (&["pv", "reclaim", "a", "--scrub", "--for", "ns/data"], &["--for"]),
        (&["pv", "reclaim", "a", "--keep-data", "--for", "data"], &["NAMESPACE/NAME"]),
        (&["pv", "reclaim", "pvc/a", "--keep-data"], &["pvc", "PersistentVolume"]),
        (&["unblock", "pv/a", "--yes", "--dry-run"], &["--yes", "--dry-run"]),
        (&["history", "pv/a", "--limit", "0"], &["--limit"]),
        (&["get", "pv/a", "-l", "a=b"], &["--selector"]),
        (&["why", "pv/a", "--context", "x"], &["--context", "kubeconfig"]),
    ];
    for (args, parts) in cases {
        let args: Vec<&str> = args.iter().chain(&server).copied().collect();
        let error = refusal(&args, &[]).to_string();
        for part in parts {
            assert!(error.contains(part), "{args:?}: {part} is not in: {error}");
        }
    }
}

#[test]
fn insight_commands_select_the_server() {
    let asked = |args: &[&str], variables: Variables<'_>| {
        let args = args.iter().copied().map(OsString::from);
        match load(args, |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        {
            Ok(Config::Tool(Tool(Task::Insight(insight)))) => match insight.server {
                Endpoint::Url { url, .. } => url,
                Endpoint::Kubeconfig { path, context, .. } => format!("{path:?} {context:?}"),
                Endpoint::Certificate(certificate) => certificate.url,
            },
            Ok(_) => panic!("no question"),
            Err(error) => error.to_string(),
        }
    };
    let variable: Variables<'_> = &[("ORLOP_SERVER", "http://v")];
    for (args, variables, wanted) in [
        (&["orlop", "why", "pv/a"][..], &[][..], "http://127.0.0.1:8080"),
        (&["orlop", "why", "pv/a"], variable, "http://v"),
        (&["orlop", "pv", "reclaim", "a", "--scrub"], variable, "http://v"),
        (&["orlop", "why", "pv/a", "--context", "c"], &[], "None Some(\"c\")"),
        (&["/usr/bin/kubectl-orlop", "why", "pv/a"], &[], "None None"),
        (&["kubectl-orlop", "why", "pv/a", "--server", "http://a"], &[], "http://a"),
        (
            &["kubectl-orlop", "why", "pv/a", "--kubeconfig", "f", "--context", "c"],
            &[],
            "Some(\"f\") Some(\"c\")",
        ),
    ] {
        let got = asked(args, variables);
        assert!(got.contains(wanted), "{args:?}: {got}");
    }
}
