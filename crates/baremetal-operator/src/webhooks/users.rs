//! The lookup of the hosts that use a HostNetworkAttachment.
//!
//! It lists the hosts at each request: only the leader watches hosts, and a watch may be behind. Attachments rarely change. The
//! server of the webhooks bounds how many reviews look up at once, because any client that reaches it can cause a list.

use std::time::Duration;

use kube::api::{ListParams, ObjectList, ObjectMeta};
use kube::core::Request;
use kube::{Client, Resource};
use metal3_api::metal3::{BareMetalHost, HostNetworkAttachment, NetworkInterface};
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::chain;
use metal3_runtime::timing::webhooks::ANSWERED_WITHIN;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::Handle;

use super::attachment::{User, users};

/// Hosts of one page, so that memory is bounded.
const PAGE: u32 = 100;
/// The most users to name.
const NAMED: usize = 10;
/// Six seconds: by default an API server gives up a review after ten, and then the user does not see why.
const WITHIN: Duration = Duration::from_secs(ANSWERED_WITHIN.as_secs() / 5);

/// A function that finds the users of an attachment among the hosts of its namespace, if that is one of these. It blocks, and so
/// must not run on a thread of the runtime.
pub fn of_attachment(
    client: Client,
    namespaces: Namespaces,
) -> impl Fn(&HostNetworkAttachment) -> Result<Vec<String>, String> {
    move |attachment| Handle::current().block_on(look_up(&client, &namespaces, attachment))
}

async fn look_up(
    client: &Client,
    namespaces: &Namespaces,
    attachment: &HostNetworkAttachment,
) -> Result<Vec<String>, String> {
    let Some(namespace) = watched(namespaces, attachment) else {
        return Ok(Vec::new());
    };
    let error = match tokio::time::timeout(WITHIN, find(client, namespace, attachment)).await {
        Ok(Ok(found)) => return Ok(named(found)),
        Ok(Err(error)) => chain(&error).to_string(),
        Err(_) => format!("no answer within {} seconds", WITHIN.as_secs()),
    };
    Err(format!("the hosts cannot be listed: {error}"))
}

/// The namespace of the attachment, unless no host can be there that this operator manages. What is no name of a namespace must
/// not become part of a URL: any client can send it.
fn watched<'a>(namespaces: &Namespaces, attachment: &'a HostNetworkAttachment) -> Option<&'a str> {
    let namespace = attachment.metadata.namespace.as_deref()?;
    let is_in_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_watched = match namespaces {
        Namespaces::All => true,
        Namespaces::Only(names) => names.iter().any(|name| name == namespace),
    };
    (is_watched && !namespace.is_empty() && namespace.bytes().all(is_in_name)).then_some(namespace)
}

/// What is read of a host. The rest is not kept: a user can make it large, and as values it takes many times its text.
#[derive(Clone, Debug, Deserialize)]
struct Host {
    metadata: Named,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interfaces {
    network_interfaces: Option<Vec<NetworkInterface>>,
}

async fn find(client: &Client, namespace: &str, attachment: &HostNetworkAttachment) -> Result<Vec<User>, kube::Error> {
    let hosts = Request::new(BareMetalHost::url_path(&(), Some(namespace)));
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = hosts.list(&params).map_err(kube::Error::BuildRequest)?;
        let page: ObjectList<Host> = client.request(request).await?;
        found.extend(page.items.into_iter().flat_map(|host| of_host(host, attachment)));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(found),
        }
    }
}

/// Only the interfaces have to fit their type. What cannot be read may use any attachment.
fn of_host(host: Host, attachment: &HostNetworkAttachment) -> Vec<User> {
    let metadata = ObjectMeta {
        name: host.metadata.name,
        namespace: host.metadata.namespace,
        ..ObjectMeta::default()
    };
    let spec = host.spec.as_deref().map_or("{}", RawValue::get);
    match serde_json::from_str::<Interfaces>(spec) {
        Ok(spec) => users(&metadata, &spec.network_interfaces.unwrap_or_default(), attachment),
        Err(_) => vec![User::of(&metadata, "interfaces that cannot be read")],
    }
}

fn named(mut found: Vec<User>) -> Vec<String> {
    let more = found.split_off(found.len().min(NAMED)).len();
    let mut names: Vec<String> = found.iter().map(ToString::to_string).collect();
    if more > 0 {
        names.push(format!("{more} others"));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;

    use metal3_testkit::played::{self, Request};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    fn attachment(namespace: &str) -> HostNetworkAttachment {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostNetworkAttachment",
            "metadata": {"name": "a", "namespace": namespace}, "spec": {"mode": "access", "nativeVLAN": 1},
        }))
        .unwrap()
    }

    fn host(namespace: &str, number: u32) -> Value {
        let reference = json!({"name": "a", "namespace": "own"});
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": format!("h{number}"), "namespace": namespace},
            "spec": {"online": true, "networkInterfaces": [{"name": "eth0", "hostNetworkAttachment": reference}]},
        })
    }

    /// The users of an attachment, and the paths that were asked. The server answers every list with these hosts.
    async fn asked(namespaces: &Namespaces, of: &str, hosts: Vec<Value>) -> (Vec<String>, Vec<String>) {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let log = paths.clone();
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": hosts});
        let client = played::client("default", move |request: Request| {
            log.lock().push(request.path);
            ready((200, list.clone()))
        });
        let users = look_up(&client, namespaces, &attachment(of)).await.unwrap();
        let paths = paths.lock().clone();
        (users, paths)
    }

    // OWN 30y: in upstream a host of any namespace blocks an attachment of another, for ever.
    #[tokio::test]
    async fn hosts_of_other_namespaces_do_not_block_an_attachment() {
        let hosts = vec![host("other", 1), host("own", 2)];
        let (users, paths) = asked(&Namespaces::All, "own", hosts).await;
        assert_eq!(users, ["own/h2[eth0]"]);
        let path = "/apis/metal3.io/v1alpha1/namespaces/own/baremetalhosts";
        assert_eq!(paths, [path], "no other namespace is listed");
    }

    // OWN 31rc: one host with a time that cannot be read stopped all changes of the attachments of its namespace.
    #[tokio::test]
    async fn a_host_with_a_time_that_cannot_be_read_stops_no_lookup() {
        let (mut odd, mut labelled) = (host("own", 1), host("own", 2));
        odd["metadata"]["managedFields"] = json!([{"manager": "m", "time": "9999-12-31T23:59:59Z"}]);
        labelled["metadata"]["labels"] = json!(7);
        let (users, _) = asked(&Namespaces::All, "own", vec![odd, labelled, host("own", 3)]).await;
        assert_eq!(users, ["own/h1[eth0]", "own/h2[eth0]", "own/h3[eth0]"]);
    }

    /// The rest of it would take many times its text.
    #[tokio::test]
    async fn of_a_host_only_its_interfaces_are_read() {
        let deep = (0..200).fold(json!(1), |inside, _| json!([inside]));
        let mut large = host("own", 1);
        large["metadata"]["resourceVersion"] = json!("7");
        large["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": deep}]);
        large["status"] = json!({"hardware": deep});
        large["spec"]["raid"] = deep;
        let mut bare = host("own", 2);
        bare["spec"] = json!(null);
        let (users, _) = asked(&Namespaces::All, "own", vec![large, bare]).await;
        assert_eq!(users, ["own/h1[eth0]"]);
    }

    /// Whatever else of it does not fit the type.
    #[tokio::test]
    async fn a_host_that_cannot_be_read_is_a_user_all_the_same() {
        let mut odd = host("own", 1);
        odd["metadata"]["resourceVersion"] = json!("7");
        odd["spec"]["online"] = json!("so and so");
        let mut no_list = host("own", 2);
        no_list["metadata"]["resourceVersion"] = json!("7");
        no_list["spec"]["networkInterfaces"] = json!({"eth0": 1});
        let mut no_object = host("own", 3);
        no_object["metadata"]["resourceVersion"] = json!("7");
        no_object["spec"] = json!(7);
        let (users, _) = asked(&Namespaces::All, "own", vec![odd, no_list, no_object]).await;
        let unread = "interfaces that cannot be read";
        assert_eq!(
            users,
            [
                "own/h1[eth0]".to_owned(),
                format!("own/h2[{unread}]"),
                format!("own/h3[{unread}]")
            ]
        );
    }

    #[tokio::test]
    async fn the_first_users_are_named_and_the_rest_is_counted() {
        let hosts = (0..15).map(|number| host("own", number)).collect();
        let (users, _) = asked(&Namespaces::All, "own", hosts).await;
        assert_eq!((users.len(), users.last().map(String::as_str)), (11, Some("5 others")));
    }

    #[tokio::test]
    async fn where_no_host_of_this_operator_can_be_nothing_is_listed() {
        let only = Namespaces::Only(vec!["watched".to_owned()]);
        for (namespaces, of) in [
            (&only, "own"),
            (&Namespaces::All, ""),
            (&Namespaces::All, "own/../../secrets"),
            (&Namespaces::All, "own?watch=true"),
        ] {
            let (users, paths) = asked(namespaces, of, vec![host("own", 1)]).await;
            assert!(users.is_empty() && paths.is_empty(), "{of}: {paths:?}");
        }
    }

    // OWN 30f: a lookup had no time limit.
    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_gets_no_answer_ends() {
        let client = played::client("default", |_| pending());
        let of = attachment("own");
        let found = tokio::time::timeout(WITHIN * 2, look_up(&client, &Namespaces::All, &of)).await;
        let error = found.expect("the lookup ends by itself").unwrap_err();
        assert_eq!(error, "the hosts cannot be listed: no answer within 6 seconds");
    }
}
