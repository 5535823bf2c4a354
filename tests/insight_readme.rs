//! The examples of README.md and docs/explain-and-undo.md, run as written: every command prints the output shown below it. Numbers may
//! differ, and a command that only reads is repeated until its output matches.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};
use crate::harness::wait;

/// A command with its expected output.
struct Example {
    command: String,
    said: Vec<String>,
}

/// The commands of a section: indented lines, where a dollar begins a command. The lines after `<<'EOF'` belong
/// to its command.
fn examples(section: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut lines = section.lines().filter_map(|line| match line {
        "" => Some(""),
        line => line.strip_prefix("    "),
    });
    while let Some(line) = lines.next() {
        if let Some(first) = line.strip_prefix("$ ") {
            let mut command = first.to_owned();
            if first.ends_with("<<'EOF'") {
                for line in lines.by_ref() {
                    command = format!("{command}\n{line}");
                    if line == "EOF" {
                        break;
                    }
                }
            }
            examples.push(Example { command, said: Vec::new() });
        } else if let Some(example) = examples.last_mut() {
            example.said.push(line.to_owned());
        }
    }
    for example in &mut examples {
        while example.said.last().is_some_and(String::is_empty) {
            example.said.pop();
        }
    }
    examples
}

/// The line with every number as 0, single spaces, and without durations.
fn alike(line: &str) -> String {
    let line = line.split(" (after ").next().unwrap_or_default();
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            ' ' if out.ends_with(' ') => {}
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

/// Whether both outputs match; `...` stands for any further lines.
fn is_same(wanted: &[String], got: &[&str]) -> bool {
    let shown = wanted.iter().position(|line| line == "...");
    let got = if shown.is_some() { &got[..got.len().min(shown.unwrap_or_default())] } else { got };
    let wanted = &wanted[..shown.unwrap_or(wanted.len())];
    wanted.len() == got.len() && wanted.iter().zip(got).all(|(wanted, got)| alike(wanted) == alike(got))
}

/// The output of a shell in which `k` and `orlop` are defined as in the documentation.
async fn shell(dir: &Path, url: &str, line: &str) -> String {
    let script = format!(
        "k() {{ kubectl --server {url} \"$@\"; }}\norlop() {{ \"$PROGRAM\" \"$@\" 2>&1; }}\ncd {}\n{line}\n",
        dir.display()
    );
    let mut shell = command("sh", dir);
    shell.args(["-c", &script]).env("PROGRAM", &*ORLOP).env("ORLOP_SERVER", url);
    let run = tokio::task::spawn_blocking(move || shell.output().unwrap());
    let output = wait::in_time(line, run).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn readme_examples_explain_and_restore() {
    run_examples("README.md", 7).await;
}

#[tokio::test]
async fn explain_and_undo_examples_explain_and_restore() {
    run_examples("docs/explain-and-undo.md", 10).await;
}

/// Runs the section "Find out why a claim is Pending" of a document, which has at least this number of commands.
async fn run_examples(page: &str, least: usize) {
    let text = std::fs::read_to_string(format!("{}/{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let section =
        text.split("## Find out why a claim is Pending\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let examples = examples(section.unwrap_or_else(|| panic!("{page} has no such section")));
    assert!(examples.len() >= least, "{page}: {} commands", examples.len());
    let mut plane = Plane::of(Layout::OneProcess).start().await;
    let (url, dir) = (plane.url(), plane.dir().to_owned());
    // The document's revisions, and those of this run.
    let mut revisions: BTreeMap<String, String> = BTreeMap::new();
    for Example { command, said } in &examples {
        let mut line = command.clone();
        for (there, here) in &revisions {
            for mark in ["@", "--as-of "] {
                line = line.replace(&format!("{mark}{there}"), &format!("{mark}{here}"));
            }
        }
        if line.starts_with("orlop lab run") {
            line.push_str(" --pace 0");
        }
        let looks = ["why ", "history ", "diff ", "get "].iter().any(|word| line.contains(word));
        let got = wait::until(&line, async || {
            let got = shell(&dir, &url, &line).await;
            let lines: Vec<&str> = got.lines().collect();
            match is_same(said, &lines) {
                true => Ok(got),
                false if looks => Err(got),
                false => panic!("$ {line}\n{got}\nand not\n{}", said.join("\n")),
            }
        })
        .await;
        for (there, here) in said.iter().zip(got.lines()) {
            let first = |line: &str| line.split(' ').next().map(str::to_owned).unwrap_or_default();
            let (there, here) = (first(there), first(here));
            if !there.is_empty() && there.bytes().all(|byte| byte.is_ascii_digit()) {
                revisions.insert(there, here);
            }
        }
    }
    plane.stop().await;
}
