//! From a Cluster to Nodes and back, with everything real except the servers and their kubelets: Cluster API's managers, our
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
use metal3_scenarios::{ClusterEnv, admit, run};

/// A cluster, and its file in `examples`.
const NAME: &str = "small";
const SMALL: &str = "cluster/small.yaml";

const SERVERS: u16 = 8;
/// The hosts for the control plane come first.
const CONTROL_PLANE: usize = 4;

/// Runs a scenario on its own environment. An environment left by another scenario is reused, because the hosts of a new one take
/// a minute to become available. That of a failed scenario is not reused.
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
    // Whatever Cluster API writes goes through our webhooks, as in an installation.
    admit(&env.base.namespace).await;
    env.apply_hosts(CONTROL_PLANE).await;
    env.expect_available(usize::from(SERVERS)).await;
    env
}

/// The history of a host's server.
async fn server(env: &ClusterEnv, host: &str) -> Machine {
    let ironic = &env.base.ironic;
    let server = ironic.hosts().iter().find(|server| server.name == host).unwrap();
    ironic.machine(server).await.unwrap()
}

/// The data that a host's server has booted with.
async fn config_drive(env: &ClusterEnv, host: &str) -> ConfigDrive {
    let deployments = server(env, host).await.deployments;
    deployments.into_iter().last().unwrap().config_drive.unwrap()
}

/// How often an image was written to any server.
async fn deploys(env: &ClusterEnv) -> usize {
    let machines = env.base.ironic.machines().await.unwrap();
    machines.iter().map(|machine| machine.deploys).sum()
}
