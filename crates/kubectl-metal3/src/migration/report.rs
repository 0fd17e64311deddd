//! What is said to the user.

use clap::ValueEnum;
use serde::Serialize;

use super::change::Direction;

/// What the check has found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Which way.
    pub direction: Direction,
    /// What is in the cluster, one sentence each.
    pub found: Vec<String>,
    /// What has to be put right before.
    pub blockers: Vec<Finding>,
    /// What to know.
    pub notes: Vec<Finding>,
    /// The commands of the change, in their order.
    pub steps: Vec<Step>,
}

/// Something about an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The kind and the name of the object, with its namespace if it has one.
    pub object: String,
    /// What is the matter.
    pub what: String,
    /// What to do about it, or what will happen.
    pub then: String,
}

/// A command of the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What it does.
    pub why: String,
    /// The line for a shell.
    pub command: String,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Output {
    /// The report as it is printed.
    pub fn print(self, report: &Report) -> String {
        match self {
            Self::Json => format!("{:#}\n", serde_json::json!(report)),
            Self::Text => report.text(),
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let run = if self.blockers.is_empty() {
            "RUN"
        } else {
            "RUN, ONCE NOTHING BLOCKS"
        };
        let commands = self
            .steps
            .iter()
            .flat_map(|step| [format!("# {}", step.why), step.command.clone()]);
        let sections = [
            ("FOUND", self.found.clone()),
            ("BLOCKS THE CHANGE", findings(&self.blockers)),
            ("GOOD TO KNOW", findings(&self.notes)),
            (run, commands.collect()),
        ];
        let sections = sections.iter().filter(|(_, lines)| !lines.is_empty());
        let sections = sections.map(|(title, lines)| format!("{title}\n  {}\n\n", lines.join("\n  ")));
        let end = match (self.blockers.len(), self.steps.is_empty()) {
            (0, true) => "Nothing is left to do.\n",
            (0, false) => "Nothing blocks the change. docs/migrate.md says what each step does.\n",
            _ => "Something blocks the change.\n",
        };
        sections.chain([end.to_owned()]).collect()
    }
}

fn findings(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| format!("{}: {} -> {}", finding.object, finding.what, finding.then);
    findings.iter().map(line).collect()
}
