//! A Cluster API cluster on real hosts: `examples/cluster/small.yaml` becomes Machines, hosts and Nodes, is scaled up by a
//! worker, and is deleted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::lab::Access;
use metal3_lab::workload;
use serde_json::json;

use super::journey::{Journey, Seen};
use super::objects::{NAMESPACE, client, entries, logs, namespace};
use super::screen::Screen;
use super::{Args, columns, machines, rack, timing};

/// The cluster, from the root of the repository, and its name.
const FILE: &str = "examples/cluster/small.yaml";
const NAME: &str = "small";
/// The last heading.
const TIMES: &str = "How long the hosts took: Ironic's time and ours (medians over hosts)";
/// How many servers [`rack::FOR_CLUSTERS`] has.
pub const SERVERS: u16 = 4;

/// The demo itself, on a lab that runs.
pub async fn tell(args: &Args, screen: &Screen, access: &Access) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let client = client(&access.kubeconfig).await?;
    let entries = entries(rack::FOR_CLUSTERS, usize::from(SERVERS), access)?;

    screen.heading(&format!(
        "2  {} hosts from {}, and a cluster for them from {FILE}",
        entries.len(),
        rack::FOR_CLUSTERS
    ));
    metal3_lab::apply::apply(&client, &[serde_json::from_value(namespace())?], None).await?;
    let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), NAMESPACE);
    let mut journey = Journey::new(hosts, screen, logs(access));
    journey.follow(Api::namespaced_with(client.clone(), NAMESPACE, &machines::kind()));
    for entry in &entries {
        journey.expect(&entry.name);
        metal3_lab::apply::apply(&client, &entry.objects, Some(NAMESPACE)).await?;
    }
    let objects = cluster(access)?;
    metal3_lab::apply::apply(&client, &objects, Some(NAMESPACE)).await?;
    screen.say(&format!(
        "applied {} hosts and {} objects of the cluster",
        entries.len(),
        objects.len()
    ));
    let run = |count: usize| {
        move |seen: &Seen| seen.machines.len() == count && seen.machines.values().all(machines::Machine::runs)
    };
    journey.until("making the cluster", limit, run(3)).await?;
    screen.say("all 3 Machines run");

    screen.heading("3  What became of what: Machine, host, Node");
    screen.print(&results(&client, &journey).await?);
    let mut number = 4..;
    let mut heading = |text: &str| screen.heading(&format!("{}  {text}", number.next().unwrap_or_default()));
    if let Some(nodes) = &access.nodes {
        heading("The cluster of the servers: real kubelets, and Pods on them");
        super::workload::show(screen, nodes, &kubeconfig(&client).await?, args.deadline).await?;
    }

    heading("One worker more");
    let deployments = api(&client, "MachineDeployment");
    let change = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments
        .patch(&format!("{NAME}-workers"), &PatchParams::default(), &change)
        .await
        .context("cannot scale the workers")?;
    journey.until("one worker more", limit, run(4)).await?;
    screen.say("all 4 Machines run");

    if args.keep {
        heading(TIMES);
        return timing(screen, access, &journey);
    }
    heading("The cluster is deleted");
    api(&client, "Cluster")
        .delete(NAME, &DeleteParams::default())
        .await
        .context("cannot delete the cluster")?;
    let is_over = |seen: &Seen| {
        let is_free = |state: &ProvisioningState| *state == ProvisioningState::Available;
        seen.machines.is_empty()
            && seen
                .hosts
                .iter()
                .all(|host| is_free(&host.state) && host.user.is_none())
    };
    journey.until("deleting the cluster", limit, is_over).await?;
    screen.say(&format!("no Machine is left, and all {SERVERS} hosts are available"));
    heading(TIMES);
    timing(screen, access, &journey)
}

/// The example as it is needed here: with the lab's image and, where kubelets are played, with its addresses and after Secrets.
fn cluster(access: &Access) -> Result<Vec<DynamicObject>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut objects = metal3_lab::apply::parse(&text)?;
    let (url, sha256) = (&access.image_url, &access.image_sha256);
    if let Some(nodes) = &access.nodes {
        workload::fit_to_nodes(&mut objects, &nodes.version, url, sha256);
        return Ok(objects);
    }
    let workload = access.workload.as_ref().context("the lab makes no clusters")?;
    workload::fit(&mut objects, workload, url, sha256);
    let secrets = workload.secrets(NAME).map(serde_json::from_value::<DynamicObject>);
    let mut all = secrets.into_iter().collect::<Result<Vec<_>, _>>()?;
    all.extend(objects);
    Ok(all)
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Each Machine with its host and its Node, the Node as the workload cluster has it. Fails if a Node does not carry the
/// provider ID of its Machine.
async fn results(client: &Client, journey: &Journey<'_>) -> Result<String> {
    let nodes: Api<Node> = Api::all(workload_client(client).await?);
    let mut table = columns::table(["MACHINE", "HOST", "NODE", "READY", "ADDRESS", "PROVIDER ID"]);
    for (name, machine) in &journey.seen.machines {
        let node = machine.node.as_deref().with_context(|| format!("{name} has no Node"))?;
        let node = nodes
            .get(node)
            .await
            .context("cannot read a Node of the workload cluster")?;
        let id = node.spec.and_then(|spec| spec.provider_id);
        ensure!(id == machine.provider_id, "the Node of {name} carries {id:?}");
        let status = node.status.unwrap_or_default();
        let ready = status.conditions.into_iter().flatten().find(|one| one.type_ == "Ready");
        let address = status
            .addresses
            .into_iter()
            .flatten()
            .find(|one| one.type_ == "InternalIP");
        table.add_row([
            name.as_str(),
            machine.host().unwrap_or("none"),
            machine.node.as_deref().unwrap_or("none"),
            ready.map_or("Unknown", |one| if one.status == "True" { "True" } else { "False" }),
            &address.map_or_else(|| "none".to_owned(), |one| one.address),
            id.as_deref().unwrap_or("none"),
        ]);
    }
    Ok(table.trim_fmt())
}

/// The kubeconfig that Cluster API has made.
async fn kubeconfig(client: &Client) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = secrets
        .get(&format!("{NAME}-kubeconfig"))
        .await
        .context("no kubeconfig")?;
    let data = secret.data.unwrap_or_default();
    let text = data.get("value").context("a Secret without a kubeconfig")?;
    Ok(String::from_utf8_lossy(&text.0).into_owned())
}

/// A client by it.
async fn workload_client(client: &Client) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig(client).await?).context("not a kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("cannot make a client")
}
