//! `docs`: states, runbook, metrics and flags, from the tables next to the code.

use std::fmt::Write as _;
use std::path::PathBuf;

use baremetal_operator::args::Args;
use baremetal_operator::host::budget;
use baremetal_operator::host::plan::EventReason;
use baremetal_operator::reference::{ERRORS, EVENTS, FROM_ANY, MOVES, STATES, StateHelp, WAITS, event_help, wait_help};
use clap::{Arg, CommandFactory as _};

use super::files::Files;
use crate::install::alerts;

/// The generated pages.
pub fn files() -> anyhow::Result<Files> {
    Ok(Files::from([
        (PathBuf::from("docs/states.md"), states()?),
        (PathBuf::from("docs/runbook.md"), runbook()?),
        (PathBuf::from("docs/metrics.md"), metrics()?),
        (PathBuf::from("docs/flags.md"), flags()?),
    ]))
}

fn header(title: &str, source: &str) -> String {
    format!("<!-- Made by `cargo xtask generate` from {source}. -->\n\n# {title}\n\n")
}

/// How people write a state.
fn name(state: &str) -> &str {
    if state.is_empty() { "(none)" } else { state }
}

/// The identifier of a state in a chart.
fn id(state: &str) -> String {
    if state.is_empty() {
        "new".to_owned()
    } else {
        state.replace(' ', "_")
    }
}

fn chart(is_deletion: bool) -> Result<String, std::fmt::Error> {
    let mut text = String::from("```mermaid\nstateDiagram-v2\n");
    let moves = || MOVES.iter().filter(|m| m.is_deletion == is_deletion);
    for StateHelp { state, .. } in STATES {
        let state = state.as_str();
        if moves().any(|m| m.from == state || m.to == state) {
            writeln!(text, "  state \"{}\" as {}", name(state), id(state))?;
        }
    }
    if is_deletion {
        writeln!(text, "  deleting --> [*]: the finalizer is removed")?;
    } else {
        writeln!(text, "  [*] --> new")?;
    }
    for m in moves() {
        writeln!(
            text,
            "  {} --> {}: {}",
            id(m.from),
            id(m.to),
            m.when.replace([':', ';'], ",")
        )?;
    }
    text.push_str("```\n");
    Ok(text)
}

fn states() -> Result<String, std::fmt::Error> {
    let mut text = header("The states of a host", "crates/baremetal-operator/src/reference");
    text.push_str(
        "`status.provisioning.state`, as `kubectl get bmh` shows it. What a host waits for in a state is its condition \
         `Waiting`; the [runbook](runbook.md) has a section for each reason.\n\n## A life\n\n",
    );
    text.push_str(&chart(false)?);
    text.push_str("\n## A deletion\n\n");
    text.push_str(&chart(true)?);
    writeln!(
        text,
        "\nBesides, from {} to `{}`: {}.",
        FROM_ANY.from, FROM_ANY.to, FROM_ANY.when
    )?;
    text.push_str(
        "\nA detached or paused host keeps its state. Deletion, detaching, pause and power are asked before the state.\n",
    );
    for row in STATES {
        let state = row.state.as_str();
        write!(text, "\n## {}\n\n{}\n\n", name(state), row.means)?;
        writeln!(text, "| | |\n|---|---|")?;
        writeln!(text, "| the user sees | {} |", row.sees)?;
        let budget = budget::usual(&row.state).map_or_else(
            || "none: a host may stay here".to_owned(),
            |(_, budget)| {
                format!(
                    "{}; after that the condition `Overdue` is `True`",
                    budget::words(budget)
                )
            },
        );
        writeln!(text, "| budget | {budget} |")?;
        writeln!(text, "| if it does not end | {} |", row.to_do)?;
        let from_any = std::iter::once(&FROM_ANY).filter(|m| m.to != state);
        for m in MOVES.iter().filter(|m| m.from == state).chain(from_any) {
            writeln!(text, "| → {} | {} |", m.to, m.when)?;
        }
    }
    Ok(text)
}

fn runbook() -> anyhow::Result<String> {
    let mut text = header(
        "Runbook",
        "crates/baremetal-operator/src/reference and crates/xtask/src/install/alerts.rs",
    );
    text.push_str(
        "`kubectl get bmh NAME -o jsonpath='{.status.conditions[?(@.type==\"Waiting\")]}'` says what a host waits for, since \
         when, and for which object. `kubectl events --for bmh/NAME --types=Warning` lists what went wrong.\n",
    );
    text.push_str(&alerts::sections()?);
    text.push_str(
        "\n## What a host waits for\n\nThe reasons of the condition `Waiting`. Its transition time follows the reason, so that it \
         tells since when the host waits for *this*. Every wait is reported, except a lock of the node that lasts less than five \
         seconds. The message ends with what triggers the next pass and when that comes at the latest.\n",
    );
    for reason in WAITS {
        let help = wait_help(*reason);
        write!(
            text,
            "\n### {}\n\nThe host waits for {}.\n\n",
            reason.as_str(),
            help.waits_for
        )?;
        writeln!(
            text,
            "- What to do: {}\n- Looked at again {}.",
            help.to_do,
            help.next_check()
        )?;
    }
    text.push_str(
        "\n### NotWaiting\n\nThe host has what its specification asks for, or it is for somebody else to act.\n\n\
         ## Overdue\n\nThe condition `Overdue` is on hosts in a state that is only on the way to another, or that are serviced or \
         change their disc: `False` with the time until which that should be over, `True` after that.\n\n### BudgetExceeded\n\nThe host is in its state, is serviced (`servicing`), or changes its disc (`changing disc`) for longer \
         than it should take. An event told so once, and `metal3_hosts_overdue` counts the host.\n\n\
         - What to do: look at the reason of `Waiting` and at the section of the [state](states.md). While a host is serviced or its disc is \
         changed, its server is off: [companions.md](companions.md#change-settings-or-firmware-of-a-host-in-use) says how to end that. A budget that does not \
         fit the hardware is changed with `--state-budgets`.\n\n## Errors\n\n\
         `status.errorType` with `errorMessage` and `errorCount`: how many errors the host has met since its last success. Each \
         failed attempt is one, and each thing that the specification or a Secret is refused for; that is not tried again until \
         it is changed, and not counted again. The *n*-th failure in a row waits between 2^(n−1) and 2^n \
         minutes (`--retry-base-seconds` sets the unit), at most some eight hours; the message of `Waiting` has the time.\n",
    );
    for help in ERRORS {
        write!(
            text,
            "\n### {}\n\n{}\n\n- What to do: {}\n",
            help.name, help.means, help.to_do
        )?;
    }
    text.push_str(CONDITIONS);
    text.push_str(COMPANIONS);
    text.push_str("\n## Events\n\n| reason | type | when |\n|---|---|---|\n");
    for reason in EVENTS {
        let kind = if EventReason::is_warning(*reason) {
            "Warning"
        } else {
            "Normal"
        };
        writeln!(
            text,
            "| `{}` | {kind} | {} |",
            reason.as_str(),
            event_help(*reason).when
        )?;
    }
    Ok(text)
}

const COMPANIONS: &str = "
## Objects beside a host

`kubectl get hfs,hfc,dataimage,ppimg,bmcevent,hostupdatepolicy -o wide` shows what firmware objects, discs, ramdisks and subscriptions wait for.
`metal3_companions` counts them, and HostClaims, HostDeployPolicies and BareMetalSwitches, by kind and state. The alert
`Metal3CompanionsFailing` fires for what is `invalid` or `failed`, and `Metal3HostClaimsWaiting` when HostClaims have been waiting for an hour.

- What to do: [what you see, and what to do about it](companions.md#what-is-wrong-and-what-to-do).
";

const CONDITIONS: &str = "
## Other conditions

`Ready`, `AvailableForProvisioning`, `Provisioned`, `Progressing`, `Manageable` and `Healthy` have upstream's meaning.

| condition | reason | meaning, and what to do |
|---|---|---|
| `Ready` | `Error` | see `status.errorType` |
| `Ready` | `Servicing` | settings or firmware of a host in use are changed |
| `Ready`, `Progressing` | `Detached` | the annotation `baremetalhost.metal3.io/detached` keeps the host out of Ironic |
| `Manageable` | `NotManaged` | `spec.bmc` is empty |
| `Manageable` | `RegistrationFailed` | see [registration error](#registration-error) |
| `Manageable` | `PowerFailure` | Ironic does not reach the BMC any more; it goes on by itself when the BMC is back |
| `AnnotationsValid` | any | ours, there only while an annotation has a value that cannot be used: `False`, with the key and the mistake |
| `Rebooted` | any | ours, there while a host with `spec.disablePowerOff` has reboot annotations: for which of them it was restarted |
| `PortsComplete` | `AddressTaken` | ours, there only while another node in Ironic has a port with the MAC address of a NIC of this host: `False`, with both names |
| `PortsComplete` | `TooManyNICs` | ours, there only while this host has more than 128 NICs, or as many ports of earlier ones: `False`. The host goes on; correct its HardwareData, or have it inspected again by its ramdisk |
| `PortsComplete` | `ChangeRefused` | ours, there only while Ironic refuses to create, change or remove a port of this host: `False`, with Ironic's words. The host goes on; mend the cause, and have it inspected again, or edit it an hour later where a port is to be created or enabled |
| `Healthy` | `Warning`, `CriticalError` | the BMC says that a part fails: look at its own log |
| `Healthy` | `Unknown` | Ironic is too old to tell, or has not asked yet |
";

fn metrics() -> Result<String, std::fmt::Error> {
    let mut text = header("Metrics", "what the programs register");
    text.push_str(
        "Labels are bounded: states, reasons, operations, codes, and the few pools and host selectors that there are. The \
         labels `namespace` and `host` of the baremetal-operator are empty, and so absent for Prometheus, unless \
         `--per-host-metrics` is set. Replicas that do not lead say nothing of objects.\n\n",
    );
    let operator = baremetal_operator::metrics::rows();
    let (upstreams, ours): (Vec<_>, Vec<_>) = operator.into_iter().partition(|row| row.is_upstreams);
    for (title, rows) in [
        ("baremetal-operator", ours),
        ("baremetal-operator, by upstream's names", upstreams),
        (
            "cluster-api-provider-metal3",
            cluster_api_provider_metal3::metrics::rows(),
        ),
        ("ip-address-manager", ip_address_manager::metrics::rows()),
        (
            "Of the migration of stored versions by cluster-api-provider-metal3",
            metal3_runtime::migration::rows(),
        ),
        ("Of the webhooks of every program", metal3_runtime::webhook::rows()),
        (
            "Of every process, by the names of controller-runtime and client-go",
            metal3_runtime::metrics::upstream_rows(),
        ),
    ] {
        write!(text, "## {title}\n\n| name | type | labels | |\n|---|---|---|---|\n")?;
        for row in rows {
            let labels: Vec<_> = row.labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                row.name,
                row.kind.as_str(),
                labels.join(" "),
                row.help
            )?;
        }
        text.push('\n');
    }
    text.push_str(
        "## Of every process\n\n| name | type | labels | |\n|---|---|---|---|\n\
         | `metal3_reconcile_seconds` | histogram | `controller` `outcome` | Duration of passes by their outcome |\n\
         | `metal3_leader` | gauge | | 1 while this replica leads |\n\
         | `metal3_kinds_missing` | gauge | | 1 while this replica waits for kinds that are not served or may not be listed |\n\
         | `metal3_build_info` | info | `component` `version` | The program that is running |\n\
         | `process_resident_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds`, `process_start_time_seconds` | \
         | | As Prometheus' client libraries have them |\n",
    );
    Ok(text)
}

fn flags() -> Result<String, std::fmt::Error> {
    let mut text = header("Flags and variables", "the flags themselves");
    text.push_str(
        "One dash or two; a flag wins over its variable. A variable that is set but empty counts as not set.\n",
    );
    for command in [
        Args::command(),
        ip_address_manager::args::Args::command(),
        cluster_api_provider_metal3::args::Args::command(),
    ] {
        write!(
            text,
            "\n## {}\n\n| flag | variable | default | |\n|---|---|---|---|\n",
            command.get_name()
        )?;
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(long) = arg.get_long().filter(|long| *long != "help" && *long != "version") else {
                continue;
            };
            let env = arg
                .get_env()
                .map_or_else(String::new, |env| format!("`{}`", env.to_string_lossy()));
            writeln!(text, "| `--{long}` | {env} | {} | {} |", default(arg), help(arg))?;
        }
    }
    Ok(text)
}

fn default(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    let text = values.join(",");
    if text.is_empty() { text } else { format!("`{text}`") }
}

fn help(arg: &Arg) -> String {
    let text = arg.get_long_help().or_else(|| arg.get_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let text = text.replace('\n', " ").replace('|', "\\|");
    // Outside of code it would be HTML.
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(number, part)| {
        if number % 2 == 0 {
            part.replace('<', "\\<")
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join("`")
}
