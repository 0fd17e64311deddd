//! The runbook's sections about the alerts of the chart: the rules themselves stand in `charts/metal3/alerts.yaml`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The rules, as Prometheus reads them.
const RULES: &str = include_str!("../../../../charts/metal3/alerts.yaml");

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

/// A rule, as far as the runbook tells it.
#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    lasts: Option<String>,
    labels: Labels,
}

#[derive(Deserialize)]
struct Labels {
    severity: String,
}

/// What a person reads of an alert.
struct Help {
    alert: &'static str,
    /// What it means.
    means: &'static str,
    /// What to do, one step each.
    to_do: &'static [&'static str],
}

const HELP: [Help; 18] = [
    Help {
        alert: "Metal3HostsOverdue",
        means: "Hosts are in a state that is only on the way to another, are serviced, or change their disc, for longer than that \
                should take.",
        to_do: &[
            "`kubectl events -A --types=Warning | grep Overdue` names the hosts.",
            "Of each, look at the condition `Waiting`, and here at the section of its reason. [BudgetExceeded](#budgetexceeded) says \
             how to end it, and how to change the budget.",
            "Many at once have a common cause: Ironic, its network to the BMCs, or the server of the images.",
        ],
    },
    Help {
        alert: "Metal3HostErrors",
        means: "More than three failures of one type within half an hour.",
        to_do: &[
            "`kubectl get bmh -A` shows the type of each host's error, and `status.errorMessage` has Ironic's words.",
            "The sections of [Errors](#errors) say what to do about each type. Each host tries again by itself.",
            "Failures of many hosts have a common cause: credentials that were changed, a switch, Ironic's ramdisk, the server of \
             the images.",
        ],
    },
    Help {
        alert: "Metal3HostsFailing",
        means: "Hosts have failed, and no attempt since then has succeeded.",
        to_do: &[
            "`kubectl get bmh -A` shows which, with the type of the error. `status.errorMessage` says why, and `status.errorCount` how \
             often in a row.",
            "The sections of [Errors](#errors) say what to do about each type. After a mend, editing the specification or the Secret \
             tries again at once.",
            "A host that shall not be used any more can be [detached](#detached), or deleted.",
        ],
    },
    Help {
        alert: "Metal3HostsNeedMending",
        means: "Hosts wait for what no time and no further attempt brings: somebody has to change an object, or look at the server.",
        to_do: &[
            "The label `reason` names the section below that says what to do: [what a host waits for](#what-a-host-waits-for).",
            "The condition `Waiting` of each host names the object and the field (`kubectl get bmh -A -o yaml`).",
        ],
    },
    Help {
        alert: "Metal3LeftBehind",
        means: "A DataImage or a BMCEventSubscription is gone, and its disc is still in the server's drive, or the BMC still sends \
                its events. Nobody looks after it any more.",
        to_do: &[
            "`kubectl events -A --types=Warning | grep -E 'LeftInDrive|LeftOnBMC'` says which.",
            "Eject the disc, or delete the subscription, at the BMC ([what a host reports](conditions.md#errors)).",
        ],
    },
    Help {
        alert: "Metal3CompanionsFailing",
        means: "Objects beside a host cannot be used as they are (`invalid`), or what they ask for failed (`failed`).",
        to_do: &[
            "`kubectl get hfs,hfc,dataimage,ppimg,bmcevent,hostupdatepolicy -A -o wide` shows why.",
            "[What you see, and what to do about it](companions.md#what-is-wrong-and-what-to-do).",
        ],
    },
    Help {
        alert: "Metal3HostClaimsWaiting",
        means: "No host fits a claim, or the one that it has is not what the claim asks for yet. The value is the age of the oldest wait.",
        to_do: &[
            "`kubectl get hostclaims -A -o yaml` shows the conditions of each, with how many hosts do not fit for which reason.",
            "Add hosts, or labels to them; or have a HostDeployPolicy permit the claim's namespace \
             ([conditions of HostClaims](conditions.md#hostclaims)).",
        ],
    },
    Help {
        alert: "Metal3IronicDown",
        means: "Ironic does not answer, refuses the operator's credentials, or fails. Servers run on; nothing is done with any host.",
        to_do: &[
            "The operator's log and the condition `Waiting` of a host at work have the cause: [IronicUnreachable](#ironicunreachable), \
             [IronicUnauthorized](#ironicunauthorized), [IronicFailing](#ironicfailing) or [IronicNotReady](#ironicnotready).",
            "Is Ironic's pod ready, and is there room on its volume? Does its certificate still count?",
            "Nothing has to be done on the hosts: they go on when Ironic does.",
        ],
    },
    Help {
        alert: "Metal3IronicExposed",
        means: "Whoever controls Ironic controls every server. The label `way` says how it stands open: called by http (`plain_text`), \
                with any certificate accepted (`any_certificate`), without credentials (`no_credentials`), or Ironic answers \
                whoever asks (`answers_anybody`).",
        to_do: &[
            "`plain_text`: give `IRONIC_ENDPOINT` an `https` URL. `any_certificate`: unset `IRONIC_INSECURE`, and name the CA by \
             the Secret `ironic-cacert`. `no_credentials`: make the Secret `ironic-credentials`.",
            "`answers_anybody`: switch on authentication in Ironic (`auth_strategy`), and until then let nobody else reach its port.",
            "[Security](security.md#ironic) says how it is found out.",
        ],
    },
    Help {
        alert: "Metal3MachinesWaiting",
        means: "A Metal3Machine has not been ready for an hour, for the reason that the label names. The value is the age of the oldest.",
        to_do: &[
            "`kubectl get metal3machines -A -o wide` shows the message of each.",
            "[What machines report](conditions-of-machines.md#metal3machine) has a row for each reason.",
        ],
    },
    Help {
        alert: "Metal3WorkloadClusterUnreachable",
        means: "The API server of a workload cluster cannot be reached. Its machines run on. Provider IDs of new ones and labels are not \
                written to its Nodes, and remediation learns nothing of them.",
        to_do: &[
            "`kubectl get metal3machines -A -o wide` shows whose machines say so, and the provider's log the cause.",
            "Try it with the cluster's kubeconfig (`clusterctl get kubeconfig NAME`). Is the control plane up, does the address of \
             `spec.controlPlaneEndpoint` lead to it, and may the provider's pod reach it?",
        ],
    },
    Help {
        alert: "Metal3PoolExhausted",
        means: "Claims of addresses wait, and so do their machines.",
        to_do: &[
            "`kubectl get ippools.ipam.metal3.io -n NAMESPACE -o wide` shows what is used, free and reserved.",
            "Add a range to `spec.pools`. Claims that wait are served at once, the oldest first ([IP addresses](ipam.md#what-to-look-at)).",
            "Or delete claims that nobody needs. Addresses of machines that are gone have been released already.",
        ],
    },
    Help {
        alert: "Metal3WebhooksFailing",
        means: "A webhook or conversion broke down within itself. What was to be written was refused, or came out unconverted.",
        to_do: &[
            "The log of the program's pods has the cause, with the kind and the name of the object.",
            "Are the definitions of the version of the program? `kubectl metal3 check-migration` says so.",
            "If they are, it is a fault of the program: report it with the object.",
        ],
    },
    Help {
        alert: "Metal3Panics",
        means: "A controller broke down while it worked on an object. It tries that object again; others go on.",
        to_do: &[
            "The log of the program's pods has the place in the code, and the object.",
            "It is a fault of the program: report it with the object.",
        ],
    },
    Help {
        alert: "Metal3StorageMigrationStuck",
        means: "Objects are stored in a former version for hours, and are not rewritten. Before that, a release that does not serve the \
                version any more must not be installed.",
        to_do: &[
            "The provider's log and the events of the CustomResourceDefinition name the objects, and why they cannot be written.",
            "Mend or delete them; they are tried again by themselves ([migrating](migrate.md)).",
        ],
    },
    Help {
        alert: "Metal3NoLeader",
        means: "Pods of the program run, and none of them leads. Servers run on; nothing is done with them.",
        to_do: &[
            "Who leads? `kubectl get leases -A | grep -E 'metal3|capm3'`. A pod that runs and does not lead waits for the holder's lease, or \
             for the API server to answer; its log says for which.",
            "May its account write the lease (`config/rbac`)?",
        ],
    },
    Help {
        alert: "Metal3NoMetrics",
        means: "No pod of the program runs, or Prometheus cannot read its metrics.",
        to_do: &[
            "Do pods run? `kubectl get pods -A -l app.kubernetes.io/part-of=metal3`; why not, say `kubectl describe` and the log.",
            "If they do, look at Prometheus' targets: it must reach port 8443, and may `get` the URL `/metrics`, which the \
             ClusterRole `*-metrics-reader` permits ([installing](install.md#monitoring)).",
        ],
    },
    Help {
        alert: "Metal3KindsMissing",
        means: "The program waits until kinds that it works on are installed, or may be listed.",
        to_do: &[
            "`kubectl get --raw '/api/v1/namespaces/NAMESPACE/pods/POD:9440/proxy/readyz?verbose'` names them in the line `kinds`, and so does \
             the log.",
            "Install what brings them: Cluster API 1.11 or newer for the provider and the IPAM, our definitions for all \
             ([installing](install.md)). Or give the account the rights of `config/rbac`.",
            "A program that is not needed is switched off: `provider.enabled=false`, `ipam.enabled=false`.",
        ],
    },
];

fn rules() -> Result<Vec<Rule>> {
    let file: File = serde_saphyr::from_str(RULES).context("charts/metal3/alerts.yaml")?;
    Ok(file.groups.into_iter().flat_map(|group| group.rules).collect())
}

/// The sections, in the order of the rules.
pub fn sections() -> Result<String> {
    let mut text = String::from(
        "\n## Alerts\n\nThe rules of the chart (`monitoring.rules=true`). Each names its section here as `runbook_url`.\n",
    );
    for rule in rules()? {
        let help = HELP.iter().find(|help| help.alert == rule.alert);
        let help = help.with_context(|| format!("{} has no text in crates/xtask/src/install/alerts.rs", rule.alert))?;
        let lasts = rule.lasts.map_or_else(String::new, |lasts| format!(" for {lasts}"));
        write!(
            text,
            "\n### {}\n\n{} Severity `{}`; it fires when this holds{lasts}:\n\n```promql\n{}\n```\n\n",
            rule.alert, help.means, rule.labels.severity, rule.expr,
        )?;
        for (number, step) in (1..).zip(help.to_do) {
            writeln!(text, "{number}. {step}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alert_leads_to_its_section_and_each_section_has_an_alert() {
        let sections = sections().unwrap();
        let headings = sections.lines().filter_map(|line| line.strip_prefix("### "));
        // As GitHub and mdBook make anchors of headings.
        let sections: Vec<_> = headings
            .map(|heading| {
                format!(
                    "https://github.com/metal3-rs/metal3/blob/main/docs/runbook.md#{}",
                    heading.to_lowercase()
                )
            })
            .collect();
        let led = RULES
            .lines()
            .filter_map(|line| line.trim().strip_prefix("runbook_url: "));
        assert_eq!(led.collect::<Vec<_>>(), sections);
        assert_eq!(sections.len(), HELP.len());
        assert!(HELP.iter().all(|help| !help.to_do.is_empty()));
    }
}
