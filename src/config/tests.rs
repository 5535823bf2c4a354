//! Which of flag, variable, file and default wins, and which combinations are refused.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::time::Duration;

use super::*;

/// Variables and what they hold.
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
        Role::Serve(server, _) | Role::Apiserver(server) => *server,
        Role::Controller(..) | Role::CsiHostpath(_) => panic!("no server"),
    }
}

fn remote_of(config: Config) -> Endpoint {
    let Config::Run(run) = config else { panic!("no process") };
    match run.role {
        Role::Controller(remote, _) => remote,
        Role::Serve(..) | Role::Apiserver(_) | Role::CsiHostpath(_) => panic!("no controller"),
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
fn lists_and_booleans_come_from_everywhere() {
    let file = file("controllers: ['*', '-podgc']\nenable-hostpath-provisioner: true\n");
    let path = file.path().to_str().unwrap();
    let loops = |args: &[&str], variables: Variables<'_>| {
        let Config::Run(run) = load_with(args, variables).unwrap() else { panic!("no process") };
        let Role::Serve(_, loops) = run.role else { panic!("no loops") };
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
fn what_is_wrong_is_named() {
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
            &["serve", "--listen", "0.0.0.0:8080"],
            &[],
            &["0.0.0.0:8080", "--tls-cert-file", "--token-auth-file"],
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
fn a_controller_finds_its_server() {
    let token = file("abc\n");
    let path = token.path().to_str().unwrap();
    let args = ["controller", "--master", "http://a", "--token-file", path, "--leader-elect=false"];
    match remote_of(load_with(&args, &[]).unwrap()) {
        Endpoint::Url { url, token, ca_file: None, insecure: false } => {
            assert_eq!((url.as_str(), token.as_deref()), ("http://a", Some("abc")));
        }
        Endpoint::Url { .. } | Endpoint::Kubeconfig { .. } => panic!("another endpoint"),
    }
    for (flags, want) in [(&[][..], None), (&["--master", "http://b"][..], Some("http://b"))] {
        let args = [&["controller", "--kubeconfig", "k"], flags].concat();
        match remote_of(load_with(&args, &[]).unwrap()) {
            Endpoint::Kubeconfig { path, context: None, server } => {
                assert_eq!((path, server.as_deref()), (Some(PathBuf::from("k")), want));
            }
            Endpoint::Url { .. } | Endpoint::Kubeconfig { .. } => panic!("another endpoint"),
        }
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_is_no_error() {
    for args in [["serve", "--help"], ["--version", "serve"]] {
        let error = refusal(&args, &[]);
        let ConfigError::Clap(error) = error else { panic!("{error:?}") };
        assert!(matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion));
    }
}
