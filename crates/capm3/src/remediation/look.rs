//! Reads what a decision requests.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::ListParams;
use metal3_runtime::error::chain;
use serde::de::DeserializeOwned;

use super::node::{Drain, has_to_leave};
use crate::workload::Workload;

/// Page size of a list request. Responses of a workload cluster are bounded.
const PAGE: u32 = 100;

/// What has not left a Node yet. Volumes are checked once no Pod is left to use them.
pub async fn drain(workload: &Workload, node: &str) -> Result<Drain, String> {
    let client = &workload.client;
    let drain = workload.ask(async {
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = count(&Api::<Pod>::all(client.clone()), here, has_to_leave).await?;
        let mut volumes = 0;
        if pods == 0 {
            let attachments: Api<VolumeAttachment> = Api::all(client.clone());
            let is_here = |attachment: &VolumeAttachment| attachment.spec.node_name == node;
            volumes = count(&attachments, ListParams::default(), is_here).await?;
        }
        Ok(Drain { pods, volumes })
    });
    drain.await.map_err(|error| chain(&error).to_string())
}

/// How many objects satisfy a predicate.
async fn count<K>(api: &Api<K>, which: ListParams, is_so: impl Fn(&K) -> bool) -> Result<usize, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut which = which.limit(PAGE);
    let mut number = 0;
    loop {
        let page = api.list(&which).await?;
        number += page.iter().filter(|object| is_so(object)).count();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => which = which.continue_token(&token),
            None => return Ok(number),
        }
    }
}

/// Whether a cluster supports the out-of-service taint: its own version counts, not that of the management cluster.
pub async fn knows_taint(workload: &Workload) -> Result<bool, String> {
    let version = workload.ask(workload.client.apiserver_version()).await;
    let version = version.map_err(|error| chain(&error).to_string())?;
    let knows = knows_taint_by(&version.major, &version.minor);
    // The server's text is not repeated.
    knows.ok_or_else(|| "its version is not of two numbers".to_owned())
}

/// Vendors use minor versions such as `28+`.
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

    /// Upstream asks the management cluster, and treats `28+` as a version without the taint.
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
