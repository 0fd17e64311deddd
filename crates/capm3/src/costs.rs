//! Bounds the number of requests from a new machine to a provisioned host, so that the cost does not grow unnoticed. All
//! controllers run against a minimal API server; the test plays the operator and Cluster API.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::Clock;
use metal3_runtime::controller::Reconcile;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::args::HostChoice;
use crate::data::Metal3Datas;
use crate::data_template::Metal3DataTemplates;
use crate::machine::Metal3Machines;
use crate::sim::{NAMESPACE, Site, limits};
use crate::workload::{Workloads, nodes};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const MACHINES: usize = 10;

struct Provider {
    site: Site,
    /// Requests by verb and kind.
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    machines: Metal3Machines,
    templates: Metal3DataTemplates,
    datas: Metal3Datas,
}

/// A request's verb, its kind, and whether it is for the status.
fn what(method: &str, path: &str) -> String {
    let mut rest = path.split('/').skip_while(|part| *part != NAMESPACE).skip(1);
    let kind = rest.next().unwrap_or_default();
    let status = rest.nth(1).map_or(String::new(), |part| format!("/{part}"));
    format!("{method} {kind}{status}")
}

impl Provider {
    fn new() -> Self {
        let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let log = asked.clone();
        let mut site = Site::new("", move |method, path, _| {
            *log.lock().entry(what(method, path)).or_default() += 1;
            None
        });
        // One second after everything was created.
        site.ctx.clock = Clock::manual("2026-01-01T00:00:01Z".parse().unwrap());
        let ctx = &site.ctx;
        let workloads = Workloads::new(ctx.client.clone(), limits(), CancellationToken::new());
        workloads.connected(&ObjectKey::new(NAMESPACE, "c"), ctx.client.clone(), nodes::nodes());
        let new = Self {
            machines: Metal3Machines::new(ctx.clone(), workloads, false, HostChoice::Stable),
            templates: Metal3DataTemplates::new(ctx.clone()),
            datas: Metal3Datas {
                ctx: ctx.clone(),
                by_host: false,
            },
            site,
            asked,
        };
        new.machines.listen(&Queue::new());
        new.templates.listen(&Queue::new());
        new.datas.listen(&Queue::new());
        new
    }

    /// A cluster ready for machines.
    fn cluster(&self) {
        let stores = &self.site.ctx.stores;
        let cluster = json!({"spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "Metal3Cluster", "name": "c"}},
            "status": {"initialization": {"infrastructureProvisioned": true}}});
        self.site.shows(&stores.clusters, "c", &cluster);
        self.site.shows(&stores.metal3_clusters, "c", &json!({"spec": {}}));
        let mac = json!({"fromHostInterface": "eth0"});
        let template = json!({"spec": {
            "metaData": {"objectNames": [{"key": "name", "object": "machine"}],
                "fromHostInterfaces": [{"key": "mac", "interface": "eth0"}]},
            "networkData": {"links": {"ethernets": [{"id": "eth0", "type": "phy", "macAddress": mac}]}},
        }});
        self.site.shows(&stores.data_templates, "t", &template);
    }

    /// A machine, and a host that matches it.
    fn machine(&self, number: usize, has_data: bool) {
        let stores = &self.site.ctx.stores;
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
        let name = format!("m{number}");
        let text = k8s_openapi::ByteString(b"#cloud-config\n# secret-of-b\n".to_vec());
        let bootstrap = json!({"data": {"value": text}});
        for (name, secret) in [("b", bootstrap), ("bmc", json!({}))] {
            self.site.server.make::<Secret>(&format!("{name}{number}"), &secret);
        }
        let owner = json!({"metadata": {"labels": labels}, "spec": {"clusterName": "c",
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name},
            "bootstrap": {"dataSecretName": format!("b{number}")}}});
        self.site.shows(&stores.machines, &name, &owner);
        let owner = json!([{"apiVersion": CAPI, "kind": "Machine", "name": name, "uid": "o", "controller": true}]);
        let mut ours = json!({"metadata": {"labels": labels, "ownerReferences": owner},
            "spec": {"image": {"url": "http://i", "checksum": "abc", "checksumType": "sha256", "diskFormat": "raw"}}});
        if has_data {
            ours["spec"]["dataTemplate"] = json!({"name": "t"});
        }
        self.site.shows(&stores.metal3_machines, &name, &ours);
        let host = json!({
            "spec": {"online": false, "bootMACAddress": "52:54:00:00:00:01",
                "bmc": {"address": "ipmi://a", "credentialsName": format!("bmc{number}")}},
            "status": {"errorMessage": "", "poweredOn": false, "provisioning": {"state": "available", "ID": ""},
                "hardware": {"hostname": "h", "nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]}},
        });
        self.site.shows(&stores.hosts, &format!("h{number}"), &host);
    }

    /// Plays the operator: the host reaches this state with the requested settings.
    fn operate(&self, state: &str) {
        for host in self.site.server.all::<Value>("baremetalhosts") {
            if host["spec"]["image"].is_object() && host["status"]["provisioning"]["state"] != state {
                let name = host["metadata"]["name"].as_str().unwrap();
                let status = json!({"status": {"provisioning": {"state": state}}});
                let (_, now) = self
                    .site
                    .server
                    .ask("PATCH", &format!("baremetalhosts/{name}/status"), status);
                self.site.ctx.stores.hosts.created(serde_json::from_value(now).unwrap());
            }
        }
    }

    fn requests(&self) -> usize {
        self.asked.lock().values().sum::<usize>() + self.site.told().len()
    }

    /// Runs all controllers until they send no more requests.
    async fn settle(&self) {
        loop {
            let before = self.requests();
            for key in self.machines.all() {
                self.machines.reconcile(&key).await.unwrap();
            }
            for key in self.templates.all() {
                self.templates.reconcile(&key).await.unwrap();
            }
            for key in self.datas.all() {
                self.datas.reconcile(&key).await.unwrap();
            }
            if self.requests() == before {
                return;
            }
        }
    }

    /// Requests per machine by kind, without those shared by all machines.
    fn each(&self) -> Vec<(String, usize)> {
        let asked = self.asked.lock();
        let each = asked.iter().filter(|(_, count)| **count >= MACHINES);
        each.map(|(what, count)| {
            assert_eq!(count % MACHINES, 0, "{what}");
            (what.clone(), count / MACHINES)
        })
        .collect()
    }

    async fn provision(&self, has_data: bool) {
        self.cluster();
        for number in 0..MACHINES {
            self.machine(number, has_data);
        }
        self.settle().await;
    }

    fn all_are_provisioned(&self) -> bool {
        let machines = self.site.server.all::<Metal3Machine>("metal3machines");
        let is_provisioned = |machine: &Metal3Machine| {
            let status = machine.status.as_ref();
            status.is_some_and(|status| status.initialization.provisioned == Some(true))
        };
        machines.len() == MACHINES && machines.iter().all(is_provisioned)
    }
}

fn expected(list: &[(&str, usize)]) -> Vec<(String, usize)> {
    let mut all: Vec<_> = list.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
    all.sort();
    all
}

/// The requests for a machine with metadata and network data.
const WITH_DATA: [(&str, usize); 10] = [
    ("PATCH metal3machines", 2),      // the choice of host, the provider ID
    ("PUT metal3machines/status", 3), // claimed, host configured, provisioned
    ("PATCH baremetalhosts", 2),      // the claim, the image and data
    ("PATCH secrets", 1),             // the label of the BMC Secret
    ("GET secrets", 1),               // the bootstrap data
    ("POST secrets", 2),              // the rendered data
    ("POST metal3dataclaims", 1),
    ("PUT metal3dataclaims/status", 1),
    ("POST metal3datas", 1),
    ("PUT metal3datas/status", 1),
];

#[tokio::test]
async fn a_machine_with_data_costs_fifteen_requests() {
    let provider = Provider::new();
    provider.provision(true).await;
    provider.operate("provisioned");
    provider.settle().await;
    assert!(provider.all_are_provisioned());
    assert_eq!(provider.each(), expected(&WITH_DATA));
    // Two events for each machine; the template's finalizer and list.
    let sum: usize = WITH_DATA.iter().map(|(_, count)| count).sum();
    assert!(provider.requests() <= MACHINES * (sum + 2) + 4, "{:?}", provider.asked);
}

#[tokio::test]
async fn a_machine_without_data_costs_eight() {
    let provider = Provider::new();
    provider.provision(false).await;
    provider.operate("provisioned");
    provider.settle().await;
    assert!(provider.all_are_provisioned());
    let without = [
        ("PATCH metal3machines", 2),
        ("PUT metal3machines/status", 2),
        ("PATCH baremetalhosts", 2),
        ("PATCH secrets", 1),
        ("GET secrets", 1),
    ];
    assert_eq!(provider.each(), expected(&without));
}

#[tokio::test]
async fn a_host_that_takes_its_time_costs_no_more() {
    let provider = Provider::new();
    provider.provision(true).await;
    let before: usize = provider.requests();
    provider.operate("provisioning");
    provider.settle().await;
    provider.site.ctx.clock.advance(Duration::from_secs(60));
    provider.settle().await;
    let told = provider.site.server.all::<Metal3Machine>("metal3machines");
    for machine in &told {
        let status = machine.status.clone().unwrap_or_default();
        let ready = metal3_runtime::conditions::get(&status.conditions, "Ready").unwrap();
        assert!(
            ready.message.ends_with("it is provisioning"),
            "{}: {}",
            machine.name_any(),
            ready.message
        );
    }
    assert_eq!(provider.requests(), before);
    provider.operate("provisioned");
    provider.settle().await;
    assert!(provider.all_are_provisioned());
    assert_eq!(provider.each(), expected(&WITH_DATA));
    // Events for the claim and for the provisioned machine.
    assert_eq!(provider.site.told().len(), 2 * MACHINES);
}
