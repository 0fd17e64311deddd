//! The thread that starts programs: see the parent module for why there must be exactly one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};

use anyhow::{Context, Result};

struct Request {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

/// Lives until the process ends: the sender is a static, so the thread's channel never closes.
static SPAWNER: LazyLock<io::Result<SyncSender<Request>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel::<Request>(16);
    std::thread::Builder::new()
        .name("metal3-lab-spawner".to_owned())
        .spawn(move || serve(&receiver))?;
    Ok(sender)
});

fn serve(receiver: &Receiver<Request>) {
    while let Ok(Request { mut command, reply }) = receiver.recv() {
        // If the caller no longer waits, the child is dropped without being killed; it dies with this process.
        reply.send(command.spawn()).ok();
    }
}

/// Starts `command` from the thread that lives as long as this process.
pub fn spawn(command: Command) -> Result<Child> {
    let sender = SPAWNER
        .as_ref()
        .map_err(|err| anyhow::anyhow!("cannot start the thread that forks: {err}"))?;
    let (reply, answer) = sync_channel(1);
    sender
        .send(Request { command, reply })
        .ok()
        .context("the thread that forks is gone")?;
    Ok(answer.recv().context("the thread that forks is gone")??)
}

/// Where `setpriv` is. Looked up by hand, because a program may be given another `PATH`.
pub fn setpriv() -> Result<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            super::in_path("setpriv").or_else(|| Some("/usr/bin/setpriv".into()).filter(|p: &PathBuf| p.is_file()))
        })
        .as_deref()
        .context(
            "setpriv is not on PATH. The lab starts every program through it, so that none outlives a killed parent. \
             It is part of util-linux (2.33 or newer): apt-get install util-linux",
        )
}
