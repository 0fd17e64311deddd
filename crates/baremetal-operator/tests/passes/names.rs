//! Nodes that have a host's name, and get others while the fleet's list still shows the old ones.

use metal3_api::metal3::ProvisioningState;
use metal3_ironic::{CreateNode, PatchOp};
use serde_json::json;

use crate::cluster::NAMESPACE;
use crate::site::{NAME, Site};

fn node(name: &str) -> CreateNode {
    CreateNode {
        driver: "redfish".to_owned(),
        name: name.to_owned(),
        ..CreateNode::default()
    }
}

/// What the host says of its error.
async fn looked_at(site: &Site, life: &crate::site::Life) -> String {
    life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    site.status().error_message
}

// OWN 29m: the host waited for a node that had another name by then, until the check of every half hour.
#[tokio::test]
async fn a_node_that_was_renamed_since_the_list_is_not_the_hosts() {
    let site = Site::new(&json!({})).await;
    let life = site.begin_listing_once();
    let ironic = life.ironic();
    let theirs = ironic.create_node(&node(&format!("{NAMESPACE}~{NAME}"))).await.unwrap();
    life.listed().await;
    assert!(
        looked_at(&site, &life)
            .await
            .contains("its BMC or its system is not the one")
    );
    // Not listed again. The host is decided on because somebody edits it.
    ironic.create_node(&node(NAME)).await.unwrap();
    ironic
        .patch_node(&theirs.uuid, &[PatchOp::add("/name", "theirs")])
        .await
        .unwrap();
    site.edit(&json!({"spec": {"description": "a server"}}));
    let told = looked_at(&site, &life).await;
    assert!(told.contains("--adopt-unnamed-nodes"), "{told}");

    ironic.delete_node(NAME).await.unwrap();
    site.edit(&json!({"spec": {"description": "the server"}}));
    assert_eq!(looked_at(&site, &life).await, "");
    assert_eq!(site.status().provisioning.state, ProvisioningState::Registering);
    let own = ironic.node(&site.status().provisioning.id).await.unwrap().unwrap();
    assert_eq!(own.name, Some(format!("{NAMESPACE}~{NAME}")));
    assert!(ironic.node(&theirs.uuid).await.unwrap().is_some());
}
