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
use metal3_scenarios::{ClusterEnv, run};

/// A cluster, and its file in `examples`.
const NAME: &str = "small";
const SMALL: &str = "cluster/small.yaml";

const SERVERS: u16 = 8;
/// Of their hosts, those that may be chosen for the control plane come first.
const CONTROL_PLANE: usize = 4;

/// Runs a scenario on an environment of its own while it lasts. An environment that another scenario has left is used again: it takes a minute
/// until the hosts of a new one are available. That of a scenario that failed is not.
fn in_env(scenario: impl AsyncFnOnce(&ClusterEnv)) {
    static FREE: Mutex<Vec<ClusterEnv>> = Mutex::new(Vec::new());
    let present = FREE.lock().pop();
    run(async {
        let env = match present {
            Some(mut env) => {
                env.renew_workload().await;
                env
            }
            None => start().await,
        };
        scenario(&env).await;
        FREE.lock().push(env);
    });
}

async fn start() -> ClusterEnv {
    let env = ClusterEnv::start("clusters", SERVERS).await;
    env.apply_hosts(CONTROL_PLANE).await;
    env.expect_available(usize::from(SERVERS)).await;
    env
}

/// What the server of a host went through.
async fn server(env: &ClusterEnv, host: &str) -> Machine {
    let ironic = &env.base.ironic;
    let server = ironic.hosts().iter().find(|server| server.name == host).unwrap();
    ironic.machine(server).await.unwrap()
}

/// What the server of a host has booted with.
async fn config_drive(env: &ClusterEnv, host: &str) -> ConfigDrive {
    let deployments = server(env, host).await.deployments;
    deployments.into_iter().last().unwrap().config_drive.unwrap()
}

/// How often an image was written to any server.
async fn deploys(env: &ClusterEnv) -> usize {
    let machines = env.base.ironic.machines().await.unwrap();
    machines.iter().map(|machine| machine.deploys).sum()
}
