//! The lookup of the hosts that use a HostNetworkAttachment.
//!
//! It lists the hosts at each request: only the leader watches hosts, and a watch may be behind. Attachments rarely change. Lists
//! wait for each other, because any client that reaches the webhooks can cause one.

use kube::Client;
use kube::api::ListParams;
use metal3_api::metal3::{BareMetalHost, HostNetworkAttachment};
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::chain;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::attachment::users;

/// Hosts of one page, so that memory is bounded.
const PAGE: u32 = 500;
/// The most users to name.
const NAMED: usize = 10;

/// A function that finds the users of an attachment among the hosts of these namespaces. It blocks, and so must not run on a
/// thread of the runtime.
pub fn of_attachment(
    client: Client,
    namespaces: Namespaces,
) -> impl Fn(&HostNetworkAttachment) -> Result<Vec<String>, String> {
    let turn = Mutex::new(());
    move |attachment| {
        let found = Handle::current().block_on(async {
            let _turn = turn.lock().await;
            find(&client, &namespaces, attachment).await
        });
        found.map_err(|error| format!("the hosts cannot be listed: {}", chain(&error)))
    }
}

async fn find(
    client: &Client,
    namespaces: &Namespaces,
    attachment: &HostNetworkAttachment,
) -> Result<Vec<String>, kube::Error> {
    let mut found = Vec::new();
    for api in namespaces.apis::<BareMetalHost>(client) {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            found.extend(page.items.iter().flat_map(|host| users(host, attachment)));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => break,
            }
        }
    }
    if found.len() > NAMED {
        let others = found.len() - NAMED;
        found.truncate(NAMED);
        found.push(format!("{others} others"));
    }
    Ok(found)
}
