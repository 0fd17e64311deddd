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

use super::attachment::{User, users};

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
    let own = attachment.metadata.namespace.as_deref().unwrap_or_default();
    Ok(named(found, own))
}

/// The users as the owner of the attachment may know them: those of other namespaces are only counted.
fn named(found: Vec<User>, namespace: &str) -> Vec<String> {
    let (mut own, foreign): (Vec<User>, Vec<User>) = found.into_iter().partition(|user| user.namespace == namespace);
    let more = own.split_off(own.len().min(NAMED)).len();
    let mut names: Vec<String> = own.iter().map(ToString::to_string).collect();
    if more > 0 {
        names.push(format!("{more} others"));
    }
    if !foreign.is_empty() {
        names.push(format!("{} interfaces of hosts in other namespaces", foreign.len()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 30y: upstream names the hosts of every namespace to whoever changes an attachment.
    #[test]
    fn hosts_of_other_namespaces_are_counted_and_not_named() {
        let user = |namespace: &str, host: u32| User {
            namespace: namespace.to_owned(),
            host: format!("h{host}"),
            interface: "eth0".to_owned(),
        };
        let one = named(vec![user("own", 1), user("secret", 2), user("secret", 3)], "own");
        assert_eq!(one, ["own/h1[eth0]", "2 interfaces of hosts in other namespaces"]);
        let many = named((0..15).map(|host| user("own", host)).collect(), "own");
        assert_eq!((many.len(), many.last().map(String::as_str)), (11, Some("5 others")));
    }
}
