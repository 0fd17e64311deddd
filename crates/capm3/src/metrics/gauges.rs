//! Gauges computed from the stores at each scrape.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::ResourceExt;
use metal3_api::capi::names::condition::READY;
use metal3_api::condition::ConditionStatus;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim};
use metal3_runtime::metrics::{Kind, Row};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::{Clock, conditions};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::phase::Phase;
use crate::conditions::cut;
use crate::select::{HostRequest, Reserved, Selector, selector, suits};
use crate::stores::{HostBy, PARTS, Stores};
use crate::workload::{Unreachable, Workloads};

/// Counts the objects in the stores. Deleted objects are in no store, so their series disappear.
#[derive(Debug)]
pub(super) struct Gauges {
    pub(super) stores: Stores,
    pub(super) workloads: Workloads,
    /// A replica that is not the leader exposes nothing; otherwise its numbers would be counted twice.
    pub(super) leads: Arc<AtomicBool>,
    pub(super) clock: Clock,
}

/// Label values in order, with their count.
type Counts = BTreeMap<Vec<String>, i64>;

/// One metric.
struct Figure {
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    count: fn(&Gauges) -> Counts,
}

const FIGURES: [Figure; 8] = [
    Figure {
        name: "metal3_machines",
        labels: &["phase"],
        help: "Metal3Machines: without a host (waiting), with one that does not run yet (provisioning), running (provisioned), on their way out (deleting)",
        count: machines,
    },
    Figure {
        name: "metal3_machines_waiting",
        labels: &["reason"],
        help: "Metal3Machines that are not ready and not being deleted, by the reason of their condition Ready",
        count: waiting,
    },
    Figure {
        name: "metal3_machines_waiting_seconds",
        labels: &["reason"],
        help: "For how long the Metal3Machine that has not been ready for the longest time has not been, by the reason of their condition Ready",
        count: waiting_seconds,
    },
    Figure {
        name: "metal3_hosts_free",
        labels: &["namespace", "selector"],
        help: "Hosts that a machine could get now, by the host selectors of the Metal3MachineTemplates of the namespace; without a selector all of them",
        count: free,
    },
    Figure {
        name: "metal3_data_claims",
        labels: &["state"],
        help: "Metal3DataClaims without an index (waiting), with one (answered), on their way out (deleting)",
        count: claims,
    },
    Figure {
        name: "metal3_data",
        labels: &["state"],
        help: "Metal3Datas that are not rendered yet (waiting), rendered (ready), on their way out (deleting)",
        count: datas,
    },
    Figure {
        name: "metal3_workload_clusters",
        labels: &["state"],
        help: "Workload clusters whose Nodes are followed (reachable), being listed (connecting), or not known for lack of a kubeconfig (no_kubeconfig), for one that is bad or may not be read (bad_kubeconfig), or because nobody answers: not yet (starting), not any more, as it is being deleted (leaving), or although it should (unreachable)",
        count: workloads,
    },
    Figure {
        name: "metal3_workload_clusters_slowed",
        labels: &["namespace"],
        help: "Workload clusters whose changes of Nodes were read with pauses in the last minute, because they send more than may be read",
        count: slowed,
    },
];

/// The descriptions of these metrics, for the reference.
pub(super) fn rows() -> Vec<Row> {
    let row = |figure: &Figure| Row {
        name: figure.name.to_owned(),
        kind: Kind::Gauge,
        labels: figure.labels,
        help: figure.help,
        is_upstreams: false,
    };
    FIGURES.iter().map(row).collect()
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        for figure in &FIGURES {
            let family = Family::<Vec<(&'static str, String)>, Gauge>::default();
            for (values, number) in (figure.count)(self) {
                let labels = figure.labels.iter().copied().zip(values).collect();
                family.get_or_create(&labels).set(number);
            }
            let descriptor = encoder.encode_descriptor(figure.name, figure.help, None, family.metric_type())?;
            family.encode(descriptor)?;
        }
        Ok(())
    }
}

/// Counts by one label. Values in `all` are exposed even if their count is zero.
fn tally(all: &[&'static str], found: impl IntoIterator<Item = &'static str>) -> Counts {
    let mut counts: Counts = all.iter().map(|word| (vec![(*word).to_owned()], 0)).collect();
    for word in found {
        *counts.entry(vec![word.to_owned()]).or_default() += 1;
    }
    counts
}

fn machines(gauges: &Gauges) -> Counts {
    let machines = gauges.stores.metal3_machines.objects();
    let phases = Phase::ALL.map(Phase::as_str);
    tally(&phases, machines.iter().map(|machine| Phase::of(machine).as_str()))
}

/// Limits on labels: anyone who can write statuses or templates can invent texts.
const LONGEST_LABEL: usize = 128;
/// There are fewer reasons than this.
const MOST_REASONS: usize = 64;
/// Maximum number of host selectors counted per namespace; each one costs a search of the namespace's free hosts.
const MOST_SELECTORS: usize = 32;
/// Stands for the values left out.
const OTHER: &str = "other";

/// How many machines are not ready, and for how many seconds one of them at most.
#[derive(Default)]
struct NotReady {
    machines: i64,
    seconds: i64,
}

fn not_ready(gauges: &Gauges) -> BTreeMap<Vec<String>, NotReady> {
    let mut found = BTreeMap::<Vec<String>, NotReady>::new();
    let now = gauges.clock.now();
    for machine in gauges.stores.metal3_machines.objects() {
        let ready = machine.status.as_ref();
        let ready = ready.and_then(|status| conditions::get(&status.conditions, READY));
        let waits = ready.filter(|ready| ready.status == ConditionStatus::False);
        if let Some(ready) = waits.filter(|_| Phase::of(&machine) != Phase::Deleting) {
            let mut reason = ready.reason.clone();
            cut(&mut reason, LONGEST_LABEL);
            let is_known = found.len() < MOST_REASONS || found.contains_key(std::slice::from_ref(&reason));
            let reason = if is_known { reason } else { OTHER.to_owned() };
            let of_reason = found.entry(vec![reason]).or_default();
            of_reason.machines += 1;
            let seconds = now.duration_since(ready.last_transition_time.0).as_secs();
            of_reason.seconds = of_reason.seconds.max(seconds);
        }
    }
    found
}

fn waiting(gauges: &Gauges) -> Counts {
    let found = not_ready(gauges).into_iter();
    found.map(|(reason, of_reason)| (reason, of_reason.machines)).collect()
}

fn waiting_seconds(gauges: &Gauges) -> Counts {
    let found = not_ready(gauges).into_iter();
    found.map(|(reason, of_reason)| (reason, of_reason.seconds)).collect()
}

/// One series per distinct selector: templates that differ in other fields share one.
fn free(gauges: &Gauges) -> Counts {
    let stores = &gauges.stores;
    let namespaces: BTreeSet<String> = stores.hosts.all().into_iter().map(|host| host.namespace).collect();
    let everything = namespaces.into_iter().map(|namespace| (namespace, Selector::default()));
    let of_templates = stores.templates.objects().into_iter().filter_map(|template| {
        let selector = selector::parse(template.spec.template.spec.host_selector.as_ref());
        // The affected machines report an invalid selector.
        Some((template.namespace().unwrap_or_default(), selector.ok()?))
    });
    let mut counts = Counts::new();
    let mut selectors: HashMap<String, usize> = HashMap::new();
    for (namespace, selector) in everything.chain(of_templates) {
        let mut text = selector.to_string();
        cut(&mut text, LONGEST_LABEL);
        let labels = vec![namespace.clone(), text];
        if !counts.contains_key(&labels) {
            let number = selectors.entry(namespace.clone()).or_default();
            *number += 1;
            if *number > MOST_SELECTORS {
                continue;
            }
        }
        counts
            .entry(labels)
            .or_insert_with(|| free_with(stores, namespace, selector));
    }
    counts
}

fn free_with(stores: &Stores, namespace: String, selector: Selector) -> i64 {
    let exact = selector.exact().next();
    let parts = (0..PARTS).flat_map(|part| stores.hosts.find(&HostBy::free(&namespace, exact, part)));
    let hosts: Vec<_> = parts.collect();
    let request = HostRequest {
        machine: ObjectKey::new(namespace, ""),
        uid: String::new(),
        selector,
        failure_domain: String::new(),
        is_domain_strict: false,
        reuse: None,
    };
    let free = hosts.iter().filter(|host| suits(&request, host, &Reserved::default()));
    i64::try_from(free.count()).unwrap_or(i64::MAX)
}

fn claims(gauges: &Gauges) -> Counts {
    let state = |claim: &Metal3DataClaim| {
        let status = claim.status.as_ref();
        if claim.metadata.deletion_timestamp.is_some() {
            "deleting"
        } else if status.is_some_and(|status| !status.rendered_data.name.is_empty()) {
            "answered"
        } else {
            "waiting"
        }
    };
    let claims = gauges.stores.data_claims.objects();
    tally(
        &["waiting", "answered", "deleting"],
        claims.iter().map(|claim| state(claim)),
    )
}

fn datas(gauges: &Gauges) -> Counts {
    let state = |data: &Metal3Data| {
        let is_ready = data.status.as_ref().and_then(|status| status.ready) == Some(true);
        match (data.metadata.deletion_timestamp.is_some(), is_ready) {
            (true, _) => "deleting",
            (false, true) => "ready",
            (false, false) => "waiting",
        }
    };
    let datas = gauges.stores.datas.objects();
    tally(&["waiting", "ready", "deleting"], datas.iter().map(|data| state(data)))
}

fn slowed(gauges: &Gauges) -> Counts {
    let mut counts = Counts::new();
    for namespace in gauges.workloads.slowed() {
        *counts.entry(vec![namespace]).or_default() += 1;
    }
    counts
}

fn workloads(gauges: &Gauges) -> Counts {
    let state = |(cluster, answer): &(ObjectKey, Result<(), Unreachable>)| match answer {
        Ok(()) => "reachable",
        Err(Unreachable::Connecting(_)) => "connecting",
        Err(Unreachable::NoKubeconfig(_)) => "no_kubeconfig",
        Err(Unreachable::Forbidden(_) | Unreachable::BadKubeconfig { .. }) => "bad_kubeconfig",
        Err(Unreachable::TooMany(_) | Unreachable::Exceeds { .. } | Unreachable::Silent { .. })
            if is_leaving(gauges, cluster) =>
        {
            "leaving"
        }
        Err(Unreachable::Silent { .. }) if is_starting(gauges, cluster) => "starting",
        Err(Unreachable::TooMany(_) | Unreachable::Exceeds { .. } | Unreachable::Silent { .. }) => "unreachable",
    };
    let states = [
        "reachable",
        "connecting",
        "no_kubeconfig",
        "bad_kubeconfig",
        "starting",
        "leaving",
        "unreachable",
    ];
    tally(&states, gauges.workloads.answers().iter().map(state))
}

/// Whether a cluster is being deleted: its control plane goes before its object.
fn is_leaving(gauges: &Gauges, cluster: &ObjectKey) -> bool {
    let cluster = gauges.stores.clusters.get(cluster);
    cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some())
}

/// Whether a cluster's control plane has not taken requests yet: its kubeconfig is there before its first server.
fn is_starting(gauges: &Gauges, cluster: &ObjectKey) -> bool {
    let cluster = gauges.stores.clusters.get(cluster);
    cluster.is_some_and(|cluster| !cluster.status.initialization.control_plane_initialized)
}
