//! Runs a scenario: prints each sentence, writes, and waits for the levels. If a level is not reached, the scenario
//! stops and reports the expected and the actual state.
//!
//! The sentences are also published as Events of the ConfigMap `lab`, for all clients of the API.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use orlop_cli::args::values;
use orlop_cli::volumes::{self, CompareError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, LAB};
use crate::output::say;
use crate::step::{
    CLAIMS, Level, NODES, PODS, Scenario, Step, VOLUMES, Verb, What, Write, gone, has_taint, see,
};

/// The label of the objects that a scenario created.
const LABEL: &str = "lab.orlop.dev/scenario";
/// Period of the checks of a level.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout of the driver's list of volumes.
const DRIVER_PATIENCE: Duration = Duration::from_secs(5);
/// The width of the terminal.
const COLUMNS: usize = 80;
/// Maximum length of a printed object, in characters.
const SHOWN_MAX: usize = 2000;

/// When the next step starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepPace {
    /// After this many seconds.
    Seconds(u64),
    /// When the user presses Enter.
    Step,
}

/// Why a scenario failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlayError {
    #[error("this server is not a lab: it has no ConfigMap default/lab; start one with `orlop lab`")]
    NoLab,
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("expected within {within} s: {words}\nactual state of {path}:\n{there}")]
    Expected { words: &'static str, within: u64, path: String, there: String },
    #[error("expected: {what} is rejected with {code}\nactual: {there}")]
    NotRefused { what: String, code: u16, there: String },
    #[error("{words}: {path} has no field {pointer}")]
    NothingToKeep { words: &'static str, pointer: &'static str, path: String },
    #[error("the driver of this lab cannot be called: {0}")]
    Driver(String),
    #[error(transparent)]
    Audit(#[from] CompareError),
}

/// Runs a scenario in a lab, after deleting the objects of an earlier run. `url` is the server in the printed
/// commands.
pub(crate) async fn play(
    api: &Api,
    url: &str,
    scenario: &Scenario,
    pace: StepPace,
    patience: Duration,
) -> Result<(), PlayError> {
    let lab = api.get(LAB).await?.ok_or(PlayError::NoLab)?;
    let mut player = Player { api, url, scenario: scenario.name, lab, patience, kept: BTreeMap::new() };
    player.clear().await?;
    player.tell("Begins", "Normal", scenario.about).await?;
    say(&wrapped(&format!("{}: {}", scenario.name, scenario.about), 0));
    for (number, step) in (1..).zip(&scenario.steps) {
        say(&format!("\n{}", wrapped(&format!("{number}. {}", step.say), 3)));
        player.tell("Says", "Normal", step.say).await?;
        if let Err(error) = player.step(step).await {
            // The first error is returned; an error while publishing it adds nothing.
            let _ = player.tell("Failed", "Warning", &error.to_string()).await;
            return Err(error);
        }
        wait(pace, number == scenario.steps.len()).await;
    }
    player.tell("Ends", "Normal", "The scenario is complete.").await?;
    say(&format!("\nEnd of {}. docs/learn/{}.md explains it.", scenario.name, scenario.name));
    Ok(())
}

async fn wait(pace: StepPace, is_last: bool) {
    match pace {
        StepPace::Seconds(_) if is_last => {}
        StepPace::Seconds(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        StepPace::Step => {
            say(if is_last { "   Press Enter to finish." } else { "   Press Enter to continue." });
            // Continues at the end of the input.
            let line = || std::io::stdin().read_line(&mut String::new());
            let _ = tokio::task::spawn_blocking(line).await;
        }
    }
}

struct Player<'a> {
    api: &'a Api,
    url: &'a str,
    scenario: &'static str,
    /// The ConfigMap.
    lab: Value,
    /// Timeout of a level.
    patience: Duration,
    kept: BTreeMap<&'static str, String>,
}

impl Player<'_> {
    /// Resets the lab: all nodes run, the driver has no faults, and the objects of an earlier run are deleted.
    async fn clear(&self) -> Result<(), PlayError> {
        self.api.patch(LAB, &json!({"data": {"silent": "", "faults": "[]"}})).await?;
        let heard = see(LAB, "the lab has reset its faults", crate::scenarios::heard);
        self.come(&heard).await?;
        for node in self.api.list(NODES).await? {
            if has_taint(&node, crate::scenarios::OUT_OF_SERVICE) {
                let path = format!("{NODES}/{}", name_of(&node));
                self.api.patch(&path, &json!({"spec": {"taints": null}})).await?;
            }
        }
        for collection in [PODS, CLAIMS, VOLUMES] {
            let old = self.api.list(&format!("{collection}?labelSelector={LABEL}={}", self.scenario)).await?;
            for object in &old {
                self.api.delete(&format!("{collection}/{}", name_of(object)), true).await?;
            }
            for object in &old {
                let left = gone(
                    format!("{collection}/{}", name_of(object)),
                    "the objects of an earlier run are deleted",
                );
                self.come(&left).await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), PlayError> {
        for write in &step.does {
            self.write(write).await?;
        }
        for level in &step.until {
            let began = Instant::now();
            let object = self.come(level).await?;
            if let Some((word, pointer)) = level.keep {
                let found = object.pointer(pointer).and_then(Value::as_str);
                let nothing =
                    || PlayError::NothingToKeep { words: level.words, pointer, path: self.path_of(level) };
                let value = found.ok_or_else(nothing)?.to_owned();
                self.kept.insert(word, value);
            }
            say(&seen(level.words, began.elapsed()));
        }
        for command in &step.look {
            say(&format!("   look: {}", placed(command, self.url)));
        }
        Ok(())
    }

    /// Replaces the placeholders with the values of earlier levels.
    fn fill(&self, text: &str) -> String {
        let fill =
            |text: String, (word, value): (&&str, &String)| text.replace(&format!("{{{word}}}"), value);
        self.kept.iter().fold(text.to_owned(), fill)
    }

    async fn write(&self, write: &Write) -> Result<(), PlayError> {
        let path = self.fill(&write.path);
        let mut body: Value = serde_json::from_str(&self.fill(&write.body.to_string())).unwrap_or_default();
        let (verb, shown) = match write.verb {
            Verb::Create => {
                body["metadata"]["labels"][LABEL] = json!(self.scenario);
                ("create", format!("{path}/{}", name_of(&body)))
            }
            Verb::Patch => ("change", path.clone()),
            Verb::Delete => ("delete", path.clone()),
        };
        let what = format!("{verb} {}", short(&shown));
        let done = match write.verb {
            Verb::Create => self.api.create(&path, &body).await.map(drop),
            Verb::Patch => self.api.patch(&path, &body).await.map(drop),
            Verb::Delete => self.api.delete(&path, false).await,
        };
        match (done, write.refused) {
            (Ok(()), None) => say(&format!("   {what}")),
            (Err(error), Some(code)) if error.code() == Some(code) => {
                say(&format!("   {what}"));
                say(&wrapped(&format!("   rejected: {}", error.said()), 6));
            }
            (Err(error), _) => return Err(error.into()),
            (Ok(()), Some(code)) => {
                return Err(PlayError::NotRefused { what, code, there: "the server accepts it".to_owned() });
            }
        }
        Ok(())
    }

    fn path_of(&self, level: &Level) -> String {
        match &level.what {
            What::Object { path, .. } | What::Gone { path } => self.fill(path),
            What::Audit => "the driver".to_owned(),
        }
    }

    /// Waits for a level. Returns the object that reached it.
    async fn come(&self, level: &Level) -> Result<Value, PlayError> {
        let path = self.path_of(level);
        let until = Instant::now() + self.patience;
        loop {
            let there = match &level.what {
                What::Object { holds, .. } => match self.api.get(&path).await? {
                    Some(object) if holds(&object) => return Ok(object),
                    Some(object) => shown(&object),
                    None => "nothing".to_owned(),
                },
                What::Gone { .. } => match self.api.get(&path).await? {
                    None => return Ok(Value::Null),
                    Some(object) => shown(&object),
                },
                What::Audit => match self.audit().await? {
                    (_, false) => return Ok(Value::Null),
                    (table, true) => table,
                },
            };
            if Instant::now() >= until {
                let within = self.patience.as_secs();
                return Err(PlayError::Expected { words: level.words, within, path, there });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn audit(&self) -> Result<(String, bool), PlayError> {
        let said = self.lab["data"]["driver"].as_str().unwrap_or_default();
        let at = values::csi_endpoint(said).map_err(PlayError::Driver)?;
        Ok(volumes::compared(self.api.client(), &at, DRIVER_PATIENCE).await?)
    }

    /// Publishes an Event of the ConfigMap.
    async fn tell(&self, reason: &str, type_: &str, note: &str) -> Result<(), ApiError> {
        let note: String = note.chars().take(1000).collect();
        let about = &self.lab["metadata"];
        let event = json!({"metadata": {"generateName": "lab-", "namespace": "default"}, "type": type_,
            "eventTime": format!("{:.6}", Timestamp::now()), "reason": reason, "action": self.scenario, "note": note,
            "reportingController": "orlop.dev/lab", "reportingInstance": "lab",
            "regarding": {"kind": "ConfigMap", "apiVersion": "v1", "namespace": "default", "name": "lab", "uid": about["uid"]}});
        self.api.create("/apis/events.k8s.io/v1/namespaces/default/events", &event).await.map(drop)
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Shortens a path to the resource and the name.
fn short(path: &str) -> String {
    let words: Vec<&str> = path.split('/').collect();
    words[words.len().saturating_sub(2)..].join("/")
}

/// Formats a reached level, with its duration if it is noticeable.
fn seen(words: &str, after: Duration) -> String {
    let time = match after.as_millis() {
        0..100 => String::new(),
        _ => format!(" (after {:.1} s)", after.as_secs_f32()),
    };
    wrapped(&format!("   observed: {words}{time}"), 5)
}

/// A command with the server of this lab, to be copied.
fn placed(command: &str, url: &str) -> String {
    match command.strip_prefix("kubectl ") {
        Some(rest) => format!("kubectl --server {url} {rest}"),
        None => format!("{command} --server {url}"),
    }
}

/// Wraps text at 80 columns; lines after the first are indented by `hang`. Spaces before the first word are
/// preserved.
fn wrapped(text: &str, hang: usize) -> String {
    let rest = text.trim_start();
    let indent = text.len() - rest.len();
    let mut out = " ".repeat(indent);
    let mut column = indent;
    for (index, word) in rest.split_whitespace().enumerate() {
        let wide = word.chars().count();
        if index > 0 && column + 1 + wide > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            column = hang;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += wide;
    }
    out
}

/// Formats an object without its managed fields.
fn shown(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    let text = format!("{object:#}");
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    text.chars().take(SHOWN_MAX).chain(" ...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn story_output_is_formatted() {
        assert_eq!(short("/api/v1/namespaces/default/pods/p"), "pods/p");
        assert_eq!(short("x"), "x");
        assert_eq!(seen("it is", Duration::from_millis(99)), "   observed: it is");
        assert_eq!(seen("it is", Duration::from_millis(1240)), "   observed: it is (after 1.2 s)");
        assert_eq!(placed("kubectl get pv", "http://u"), "kubectl --server http://u get pv");
        assert_eq!(placed("orlop why pv/a", "http://u"), "orlop why pv/a --server http://u");
        let text = wrapped(&format!("1. {}", "word ".repeat(30)), 3);
        assert_eq!(text.split_whitespace().count(), 31, "{text}");
        assert!(text.lines().all(|line| line.len() <= COLUMNS && line.len() > 60), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("   word")), "{text}");
        let long = json!({"metadata": {"managedFields": [1], "name": "n"}, "data": "x".repeat(5000)});
        let text = shown(&long);
        assert!(text.ends_with(" ...") && text.chars().count() == SHOWN_MAX + 4, "{}", text.len());
        assert_eq!(shown(&json!({"metadata": {"managedFields": [1]}})), "{\n  \"metadata\": {}\n}");
    }
}
