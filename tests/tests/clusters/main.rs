//! From a Cluster to Nodes and back, with everything real but the servers and their kubelets: Cluster API's managers, our
//! three programs, Ironic.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod class;
mod remediation;
mod rollouts;

use parking_lot::Mutex;

use metal3_lab::ironic::{ConfigDrive, Machine};
use metal3_scenarios::{ClusterSite, run};

/// A cluster, and its file in `examples`.
const NAME: &str = "small";
const SMALL: &str = "cluster/small.yaml";

const SERVERS: u16 = 8;
/// Of their hosts, those that may be chosen for the control plane come first.
const CONTROL_PLANE: usize = 4;

/// Runs a scenario on a site of its own while it lasts. A site that another scenario has left is used again: it takes a minute
/// until the hosts of a new one are available. That of a scenario that failed is not.
fn on_site(scenario: impl AsyncFnOnce(&ClusterSite)) {
    static FREE: Mutex<Vec<ClusterSite>> = Mutex::new(Vec::new());
    let present = FREE.lock().pop();
    run(async {
        let site = match present {
            Some(mut site) => {
                site.renew_workload().await;
                site
            }
            None => start().await,
        };
        scenario(&site).await;
        FREE.lock().push(site);
    });
}

async fn start() -> ClusterSite {
    let site = ClusterSite::start("clusters", SERVERS).await;
    site.apply_hosts(CONTROL_PLANE).await;
    site.expect_available(usize::from(SERVERS)).await;
    site
}

/// What the server of a host went through.
async fn server(site: &ClusterSite, host: &str) -> Machine {
    let ironic = &site.site.ironic;
    let server = ironic.hosts().iter().find(|server| server.name == host).unwrap();
    ironic.machine(server).await.unwrap()
}

/// What the server of a host has booted with.
async fn config_drive(site: &ClusterSite, host: &str) -> ConfigDrive {
    let deployments = server(site, host).await.deployments;
    deployments.into_iter().last().unwrap().config_drive.unwrap()
}

/// How often an image was written to any server.
async fn deploys(site: &ClusterSite) -> usize {
    let machines = site.site.ironic.machines().await.unwrap();
    machines.iter().map(|machine| machine.deploys).sum()
}
