//! Looks at what is not at hand.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::ListParams;
use metal3_runtime::error::chain;

use super::node::{Drain, has_to_leave};
use crate::workload::Workload;

/// What has not left a Node yet. Volumes are looked for when no Pod is left to use them.
///
/// Both lists come from the API server's memory. What it has not heard of yet is that something is gone.
pub async fn drain(workload: &Workload, node: &str) -> Result<Drain, String> {
    let client = &workload.client;
    let drain = workload.ask(async {
        let here = ListParams::default().match_any();
        let pods: Api<Pod> = Api::all(client.clone());
        let pods = pods
            .list(&here.clone().fields(&format!("spec.nodeName={node}")))
            .await?;
        let pods = pods.iter().filter(|pod| has_to_leave(pod)).count();
        let mut volumes = 0;
        if pods == 0 {
            let attachments: Api<VolumeAttachment> = Api::all(client.clone());
            let attachments = attachments.list(&here).await?;
            volumes = attachments.iter().filter(|a| a.spec.node_name == node).count();
        }
        Ok(Drain { pods, volumes })
    });
    drain.await.map_err(|error| chain(&error).to_string())
}

/// The Node of this name.
pub async fn node(workload: &Workload, name: &str) -> Result<Option<Node>, kube::Error> {
    let nodes: Api<Node> = Api::all(workload.client.clone());
    workload.ask(nodes.get_opt(name)).await
}

/// Whether a cluster knows the out-of-service taint: its own version counts, and not that of the management cluster.
pub async fn knows_taint(workload: &Workload) -> Result<bool, String> {
    let version = workload.ask(workload.client.apiserver_version()).await;
    let version = version.map_err(|error| chain(&error).to_string())?;
    let knows = knows_taint_by(&version.major, &version.minor);
    knows.ok_or_else(|| format!("its version is {}.{}", version.major, version.minor))
}

/// Vendors write minors such as `28+`.
fn knows_taint_by(major: &str, minor: &str) -> Option<bool> {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end)?.parse::<u32>().ok()
    };
    Some((number(major)?, number(minor)?) >= (1, 28))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Upstream asks the management cluster, and takes `28+` for a version that does not know the taint.
    #[rstest]
    #[case("1", "27", Some(false))]
    #[case("1", "28", Some(true))]
    #[case("1", "28+", Some(true))]
    #[case("1", "9", Some(false))]
    #[case("2", "0", Some(true))]
    #[case("1", "", None)]
    #[case("", "28", None)]
    fn the_taint_is_known_since_1_28(#[case] major: &str, #[case] minor: &str, #[case] knows: Option<bool>) {
        assert_eq!(knows_taint_by(major, minor), knows);
    }
}
