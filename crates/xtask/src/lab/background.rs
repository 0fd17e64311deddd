//! Starts and ends labs that others own.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use metal3_lab::instance::{self, Claim};
use metal3_lab::lab::{Access, Boots, Programs};
use metal3_lab::nodes;

use super::{DEFAULT_NAME, Interrupt, ensure_down, folder, programs, with_progress};
use crate::demo::objects::{self, NAMESPACE};
use crate::demo::screen::Screen;

const LOG: &str = "supervisor.log";
/// How long a lab may take to start; nothing is built any more by then.
const UP: Duration = Duration::from_secs(240);
/// How long a lab may take to end in good order.
const DOWN: Duration = Duration::from_secs(60);

/// `lab up`.
pub async fn up(name: &str, count: u16) -> Result<ExitCode> {
    ensure_down(name)?;
    let screen = Screen::new();
    let mut interrupt = Interrupt::new()?;
    let Some(programs) = interrupt.or(programs(&folder(name)?, None)).await.transpose()? else {
        return Ok(ExitCode::from(130));
    };
    let size = Size {
        servers: count,
        clusters: None,
        outlives_us: true,
    };
    let Some(access) = start(name, size, &programs, &screen, &mut interrupt).await? else {
        return Ok(ExitCode::from(130));
    };
    screen.heading(&format!("Lab {name} is up with {count} simulated servers"));
    let hosts = folder(name)?.join("hosts.yaml");
    fs::write(&hosts, objects::manifest(usize::from(count), &access)?)
        .with_context(|| format!("cannot write {}", hosts.display()))?;
    screen.print(&hints(&access, name, Next::Apply(&hosts)));
    Ok(ExitCode::SUCCESS)
}

/// What a lab is to have.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Simulated servers.
    pub servers: u16,
    /// Whether clusters can be made of them, and what boots then.
    pub clusters: Option<Boots>,
    /// Whether the lab stays when this process ends, however it ends.
    pub outlives_us: bool,
}

/// Starts a lab in the background and returns when it is up, or nothing if interrupted, with the lab ended.
pub async fn start(
    name: &str,
    size: Size,
    programs: &Programs,
    screen: &Screen,
    interrupt: &mut Interrupt,
) -> Result<Option<Access>> {
    let folder = folder(name)?;
    let log = folder.join(LOG);
    let mut child = spawn(name, size, programs, &log)?;
    let waiting = with_progress(
        screen,
        "starting Kubernetes and Ironic",
        wait(&mut child, &folder, screen),
    );
    let access = interrupt.or(waiting).await.transpose()?;
    if access.is_none() {
        stop(name)?;
        child.wait().ok(); // it is ours until we end; by now it has ended
    }
    Ok(access)
}

fn name_of(boots: Boots) -> &'static str {
    match boots {
        Boots::Played => "played",
        Boots::Really => "really",
    }
}

/// What boots, by its name on a command line.
pub fn boots(name: &str) -> Result<Boots, String> {
    let found = [Boots::Played, Boots::Really]
        .into_iter()
        .find(|boots| name_of(*boots) == name);
    found.ok_or_else(|| format!("neither played nor really: {name}"))
}

fn spawn(name: &str, size: Size, programs: &Programs, log: &Path) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("cannot open {}", log.display()))?;
    let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
    command
        .args(["lab", "supervise", "--name", name, "--hosts"])
        .arg(size.servers.to_string())
        .arg("--programs")
        .arg(&programs.folder)
        .args(size.clusters.map(|boots| format!("--clusters={}", name_of(boots))))
        .args((!size.outlives_us).then(|| format!("--owner={}", std::process::id())))
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("cannot share the log between two streams")?)
        .stderr(output);
    command.spawn().context("cannot start the lab's supervisor")
}

/// Passes on what the supervisor says, until the lab is up.
async fn wait(child: &mut Child, folder: &Path, screen: &Screen) -> Result<Access> {
    let log = folder.join(LOG);
    let start = Instant::now();
    let mut passed = 0;
    loop {
        let access = Access::read(folder)?.filter(|access| access.process == child.id());
        let ended = child.try_wait().context("cannot ask for the supervisor")?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        text.get(passed..complete)
            .unwrap_or_default()
            .lines()
            .for_each(|line| screen.print(line));
        passed = complete;
        if let Some(status) = ended {
            bail!("the lab did not start ({status}); see {}", log.display());
        }
        if let Some(access) = access {
            return Ok(access);
        }
        if start.elapsed() > UP {
            instance::stop_owner(folder, DOWN)?;
            bail!("the lab did not start in {} s; see {}", UP.as_secs(), log.display());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `lab down`.
pub fn down(name: &str) -> Result<()> {
    if stop(name)? {
        println!("lab {name} has ended");
    } else {
        println!("no lab {name} runs");
    }
    Ok(())
}

/// Ends a lab if it runs, and removes its folder. Returns whether it ran.
pub fn stop(name: &str) -> Result<bool> {
    let folder = folder(name)?;
    if !folder.exists() {
        return Ok(false);
    }
    let did_run = end(name)?;
    // Hold the folder while it is removed, so that no other lab starts in it.
    let claim = Claim::take(&folder)?;
    fs::remove_dir_all(claim.folder()).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(did_run)
}

/// Ends a lab if it runs; its folder stays. Returns whether it ran.
pub fn end(name: &str) -> Result<bool> {
    let did_run = instance::stop_owner(&folder(name)?, DOWN)?;
    // One that was killed could not.
    nodes::clean_up()?;
    Ok(did_run)
}

/// What a person may do next.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// There are hosts; this is one of them.
    Look(&'a str),
    /// There are none yet; this file has some.
    Apply(&'a Path),
}

/// How to reach a lab, and what to try there. Paths are as short as they can be from where the person is.
pub fn hints(access: &Access, name: &str, next: Next<'_>) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let short = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    let option = if name == DEFAULT_NAME {
        String::new()
    } else {
        format!(" --name {name}")
    };
    let kubectl = format!("{} -n {NAMESPACE}", short(&access.kubectl));
    let curl = short(&access.curl_config);
    let ironic = &access.ironic_url;
    let nodes = format!("curl -K {curl} '{ironic}/v1/nodes?fields=name,provision_state,power_state'");
    let commands = match next {
        Next::Look(host) => [
            format!("{kubectl} get baremetalhosts"),
            format!(r#"{kubectl} patch baremetalhost {host} --type=merge -p '{{"spec":{{"online":false}}}}'"#),
            nodes,
        ],
        Next::Apply(file) => [
            format!("{kubectl} apply -f {}", short(file)),
            format!("{kubectl} get baremetalhosts --watch"),
            nodes,
        ],
    };
    format!(
        "\
Kubernetes  {kubernetes}, with KUBECONFIG={kubeconfig}
Ironic      {ironic}, user, password and CA are in {curl} (for curl -K)
Operator    its log is {operator}, its metrics are at {metrics}

Try
  {commands}

End it with
  cargo xtask lab down{option}",
        kubernetes = access.kubernetes_url,
        kubeconfig = short(&access.kubeconfig),
        operator = short(&access.operator_log),
        metrics = access.metrics_url,
        commands = commands.join("\n  "),
    )
}
