//! Calls about ports.

use reqwest::Method;
use serde::Deserialize;
use url::Url;

use crate::client::{Call, Client, parse};
use crate::error::{Error, Reason};
use crate::node::Port;
use crate::nodes::{absent_if_not_found, accepted, following, to_json};
use crate::observe::Operation;
use crate::patch::PatchOp;
use crate::request::CreatePort;

const FIELDS: &str = "node_uuid,uuid,address,pxe_enabled,extra";

#[derive(Deserialize)]
struct Page {
    ports: Vec<Port>,
    #[serde(default)]
    next: Option<String>,
}

impl Client {
    /// The ports of a node, by its uuid.
    pub async fn ports_of(&self, node_uuid: &str) -> Result<Vec<Port>, Error> {
        if node_uuid.is_empty() {
            // Ironic would take it for "of any node".
            return Err(Error::new(
                Operation::ListPorts,
                None,
                Reason::Senseless("the identifier is empty"),
            ));
        }
        self.ports(node_uuid, "node_uuid", node_uuid).await
    }

    /// The ports with a MAC address: one or none, of whatever node. Upper and lower case are the same.
    pub async fn ports_with_address(&self, mac: &str) -> Result<Vec<Port>, Error> {
        if mac.is_empty() {
            return Err(Error::new(
                Operation::ListPorts,
                None,
                Reason::Senseless("the MAC address is empty"),
            ));
        }
        let mac = mac.to_ascii_lowercase();
        self.ports(&mac, "address", &mac).await
    }

    async fn ports(&self, about: &str, key: &str, value: &str) -> Result<Vec<Port>, Error> {
        let operation = Operation::ListPorts;
        let limit = self.shared.config.page_limit.to_string();
        let query = [(key, value), ("fields", FIELDS), ("limit", limit.as_str())];
        let mut url: Url = self.address(operation, Some(about), &["ports"], &query)?;
        let mut ports: Vec<Port> = Vec::new();
        loop {
            let answer = self.call_at(url.clone(), Call::get(operation, &[]).node(about)).await?;
            let page: Page = parse(operation, Some(about), &answer)?;
            let before = ports.len();
            for port in page.ports {
                if ports.iter().all(|known| known.uuid != port.uuid) {
                    ports.push(port);
                }
            }
            let Some(next) = page.next.filter(|next| !next.is_empty()) else {
                return Ok(ports);
            };
            let why = "the address of the next page leads nowhere new";
            url = following(&url, &next).filter(|_| ports.len() > before).ok_or_else(|| {
                Error::new(
                    operation,
                    Some(about),
                    Reason::Unreadable {
                        status: answer.status,
                        why: why.to_owned(),
                    },
                )
            })?;
        }
    }

    /// Changes a port, given by its uuid, of a node.
    pub async fn patch_port(&self, id: &str, node: &str, ops: &[PatchOp]) -> Result<Port, Error> {
        let body = to_json(Operation::PatchPort, node, ops)?;
        let path = ["ports", id];
        let call = Call::get(Operation::PatchPort, &path).method(Method::PATCH);
        self.read(call.node(node).body(body)).await
    }

    /// Deletes a port, given by its uuid, of a node. That it is not there is a success.
    pub async fn delete_port(&self, id: &str, node: &str) -> Result<(), Error> {
        let path = ["ports", id];
        let call = Call::get(Operation::DeletePort, &path)
            .method(Method::DELETE)
            .node(node);
        absent_if_not_found(accepted(self.call(call).await)).map(|_| ())
    }

    /// Creates a port. An address that another port has is a failure of class [`crate::ErrorClass::Duplicate`].
    pub async fn create_port(&self, port: &CreatePort) -> Result<Port, Error> {
        let port = CreatePort {
            address: port.address.to_ascii_lowercase(),
            ..port.clone()
        };
        let body = to_json(Operation::CreatePort, &port.node_uuid, &port)?;
        let call = Call::get(Operation::CreatePort, &["ports"]).method(Method::POST);
        self.read(call.node(&port.node_uuid).body(body)).await
    }
}
