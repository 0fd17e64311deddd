//! The process that owns a lab.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use metal3_lab::lab::{Boots, Lab, LabConfig, Programs};
use rustix::process::{Pid, test_kill_process};

use super::{Interrupt, folder};
use crate::demo::screen::Screen;

/// How often it is looked whether everything still runs.
const LOOK: Duration = Duration::from_millis(500);
/// Between two starts of an operator that ends, as the kubelet's back-off has it at the beginning.
const AGAIN: Duration = Duration::from_secs(5);

/// Starts a lab and holds it until asked to end. An operator that ends is started again, as its Deployment would do it;
/// without its cluster or its Ironic the lab makes no sense and ends.
///
/// It also ends when `owner` does, if there is one.
pub async fn run(
    name: &str,
    servers: u16,
    clusters: Option<Boots>,
    programs: PathBuf,
    owner: Option<Pid>,
) -> Result<()> {
    // Out of the terminal's session: closing the terminal, or an interrupt typed at it, is no wish to end the lab.
    rustix::process::setsid().ok(); // fails for the leader of a group, as which somebody may start this by hand
    let mut interrupt = Interrupt::new()?;
    let screen = Screen::new();
    let programs = tokio::task::spawn_blocking(|| Programs::with_ours(programs)).await;
    let config = LabConfig {
        folder: folder(name)?,
        servers,
        clusters,
        programs: programs.context("the search for programs was cut off")??,
    };
    let say = |text: &str| screen.say(text);
    let Some(lab) = interrupt.or(Box::pin(Lab::start(config, &say))).await.transpose()? else {
        return Ok(());
    };
    screen.say("the lab is up");
    let mut lab = lab;
    let outcome = interrupt.or(Box::pin(watch(&mut lab, &screen, owner))).await;
    screen.say("the lab ends");
    // A second wish: at once. Then the next lab cleans up.
    if let Some(Err(error)) = interrupt.or(Box::pin(lab.stop())).await {
        screen.say(&format!("something is left: {error:#}"));
    }
    match outcome {
        None => Ok(()),
        Some(error) => {
            screen.say(&format!("the lab ended because: {error:#}"));
            Err(error)
        }
    }
}

/// Returns why the lab cannot go on.
async fn watch(lab: &mut Lab, screen: &Screen, owner: Option<Pid>) -> anyhow::Error {
    loop {
        tokio::time::sleep(LOOK).await;
        if owner.is_some_and(|owner| test_kill_process(owner).is_err()) {
            return anyhow::anyhow!("the process that it was started for has ended");
        }
        if let Err(error) = lab.ensure_alive() {
            return error;
        }
        if let Err(error) = lab.operator().process().ensure_alive() {
            screen.say(&format!("{error:#}"));
            tokio::time::sleep(AGAIN).await;
            match lab.restart_operator().await {
                Ok(()) => screen.say("the operator runs again"),
                Err(error) => screen.say(&format!("the operator did not start again: {error:#}")),
            }
        }
    }
}
