//! Calls about nodes.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::client::{Answer, Call, Client, Pace, parse};
use crate::error::{Error, ErrorClass, Reason};
use crate::firmware::{BiosSetting, BiosSettings, Firmware, FirmwareComponent};
use crate::inventory::Inventory;
use crate::node::{LIST_FIELDS, Node, Validation};
use crate::observe::Operation;
use crate::patch::PatchOp;
use crate::request::{CreateNode, ProvisionRequest};
use crate::state::PowerTarget;
use crate::version::Feature;

#[derive(Deserialize)]
struct Page {
    nodes: Vec<Node>,
    #[serde(default)]
    next: Option<String>,
}

impl Client {
    /// One node with its detail, by uuid or name; none if there is no such node.
    pub async fn node(&self, id: &str) -> Result<Option<Node>, Error> {
        let path = ["nodes", id];
        absent_if_not_found(self.read(Call::get(Operation::GetNode, &path).node(id)).await)
    }

    /// All nodes without their details, page after page. For pollers: costs the server a fraction of single reads.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        let operation = Operation::ListNodes;
        let fields = self.list_fields().await?;
        let limit = self.shared.config.page_limit.to_string();
        let query = [("fields", fields.as_str()), ("limit", limit.as_str())];
        let mut url = self.address(operation, None, &["nodes"], &query)?;
        let mut nodes: Vec<Node> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let answer = self.call_at(url.clone(), Call::get(operation, &[])).await?;
            let page: Page = parse(operation, None, &answer)?;
            let before = nodes.len();
            // A node created or deleted in the meantime may shift the pages, so that a node appears twice.
            nodes.extend(page.nodes.into_iter().filter(|node| seen.insert(node.uuid.clone())));
            let Some(next) = page.next.filter(|next| !next.is_empty()) else {
                return Ok(nodes);
            };
            if nodes.len() == before {
                let why = "a page of the list brought nothing new and yet names a next one".to_owned();
                return Err(Error::new(
                    operation,
                    None,
                    Reason::Unreadable {
                        status: answer.status,
                        why,
                    },
                ));
            }
            url = following(&url, &next).ok_or_else(|| {
                let why = "the address of the next page cannot be used".to_owned();
                Error::new(
                    operation,
                    None,
                    Reason::Unreadable {
                        status: answer.status,
                        why,
                    },
                )
            })?;
        }
    }

    /// The most recently changed nodes, without their details: at most this many, latest first. Every lock and every
    /// accepted request changes a record; nodes that were never changed come last.
    pub async fn nodes_changed_last(&self, limit: usize) -> Result<Vec<Node>, Error> {
        let operation = Operation::ListNodes;
        let (fields, limit) = (self.list_fields().await?, limit.to_string());
        let query = [
            ("fields", fields.as_str()),
            ("limit", limit.as_str()),
            ("sort_key", "updated_at"),
            ("sort_dir", "desc"),
        ];
        let url = self.address(operation, None, &["nodes"], &query)?;
        let answer = self.call_at(url, Call::get(operation, &[])).await?;
        let page: Page = parse(operation, None, &answer)?;
        Ok(page.nodes)
    }

    /// The fields of nodes in lists.
    async fn list_fields(&self) -> Result<String, Error> {
        let mut fields = LIST_FIELDS.join(",");
        if self.versions().await?.supports(Feature::Health) {
            fields.push_str(",health");
        }
        Ok(fields)
    }

    /// Creates a node, in the state `enroll`.
    pub async fn create_node(&self, node: &CreateNode) -> Result<Node, Error> {
        let mut node = node.clone();
        if node.disable_power_off == Some(false) && !self.versions().await?.supports(Feature::DisablePowerOff) {
            // The default of an older server, which rejects the field.
            node.disable_power_off = None;
        }
        let body = to_json(Operation::CreateNode, &node.name, &node)?;
        let call = Call::get(Operation::CreateNode, &["nodes"])
            .method(Method::POST)
            .node(&node.name)
            .body(body);
        self.read(call).await
    }

    /// Patches a node and returns it as it is afterwards, with its detail.
    pub async fn patch_node(&self, id: &str, ops: &[PatchOp]) -> Result<Node, Error> {
        let body = to_json(Operation::PatchNode, id, ops)?;
        let path = ["nodes", id];
        self.read(
            Call::get(Operation::PatchNode, &path)
                .method(Method::PATCH)
                .node(id)
                .body(body),
        )
        .await
    }

    /// Deletes a node. A missing node counts as success.
    pub async fn delete_node(&self, id: &str) -> Result<(), Error> {
        let path = ["nodes", id];
        let call = Call::get(Operation::DeleteNode, &path).method(Method::DELETE).node(id);
        absent_if_not_found(accepted(self.call(call).await)).map(|_| ())
    }

    /// Moves a node in Ironic's state machine. Success means that the change was accepted, not that it has happened.
    pub async fn provision(&self, id: &str, request: &ProvisionRequest) -> Result<(), Error> {
        let body = to_json(Operation::Provision, id, request)?;
        self.put(Operation::Provision, id, &["nodes", id, "states", "provision"], body)
            .await
    }

    /// Changes a node's power. `timeout` is for the soft targets: how long the operating system gets. Success means that
    /// the change was accepted. A refusal of class [`ErrorClass::BadRequest`] means that the BMC cannot do this.
    pub async fn power(&self, id: &str, target: PowerTarget, timeout: Option<Duration>) -> Result<(), Error> {
        let mut body = json!({"target": target.as_str()});
        if let Some(timeout) = timeout {
            body["timeout"] = timeout.as_secs().into();
        }
        self.put(Operation::Power, id, &["nodes", id, "states", "power"], body)
            .await
    }

    /// Sets the RAID volumes that the step `raid.create_configuration` of a cleaning creates.
    pub async fn set_target_raid(&self, id: &str, logical_disks: &[Value]) -> Result<(), Error> {
        let body = json!({"logical_disks": logical_disks});
        self.put(Operation::SetRaid, id, &["nodes", id, "states", "raid"], body)
            .await
    }

    /// The BIOS settings with what their values may be, as Ironic read them last: after it verified the node, and after each
    /// step that changed some. The BMC is not asked. Empty where the driver has no access to them.
    pub async fn bios_settings(&self, id: &str) -> Result<Vec<BiosSetting>, Error> {
        let operation = Operation::GetBios;
        let url = self.address(operation, Some(id), &["nodes", id, "bios"], &[("detail", "true")])?;
        let answer = self.call_at(url, Call::get(operation, &[]).node(id)).await?;
        let found: BiosSettings = parse(operation, Some(id), &answer)?;
        Ok(found.0)
    }

    /// The firmware components, as Ironic read them last. The BMC is not asked. Empty where the driver has no access to
    /// them.
    pub async fn firmware(&self, id: &str) -> Result<Vec<FirmwareComponent>, Error> {
        let path = ["nodes", id, "firmware"];
        let found: Firmware = self.read(Call::get(Operation::GetFirmware, &path).node(id)).await?;
        Ok(found.0)
    }

    /// Puts a node into maintenance.
    pub async fn set_maintenance(&self, id: &str, reason: &str) -> Result<(), Error> {
        self.put(
            Operation::SetMaintenance,
            id,
            &["nodes", id, "maintenance"],
            json!({"reason": reason}),
        )
        .await
    }

    /// Takes a node out of maintenance, which also clears its fault.
    pub async fn clear_maintenance(&self, id: &str) -> Result<(), Error> {
        let path = ["nodes", id, "maintenance"];
        let call = Call::get(Operation::ClearMaintenance, &path)
            .method(Method::DELETE)
            .node(id);
        accepted(self.call(call).await)
    }

    /// What inspection found; none if the node was never inspected.
    pub async fn inventory(&self, id: &str) -> Result<Option<Inventory>, Error> {
        let path = ["nodes", id, "inventory"];
        absent_if_not_found(self.read(Call::get(Operation::GetInventory, &path).node(id)).await)
    }

    /// Makes Ironic read a node's boot device from the BMC, with the node's current access data. Only success matters:
    /// the BMC is reachable and accepts the credentials. A failure of class [`ErrorClass::Server`] or
    /// [`ErrorClass::Timeout`] is the BMC's.
    pub async fn ask_bmc(&self, id: &str) -> Result<(), Error> {
        let path = ["nodes", id, "management", "boot_device"];
        let call = Call::get(Operation::GetBootDevice, &path).node(id);
        let answer = self.call(Call {
            pace: Pace::Bmc,
            ..call
        });
        accepted(answer.await)
    }

    /// Has Ironic check a node's settings. It may ask the BMC before it answers, so this has more time than other calls.
    pub async fn validate(&self, id: &str) -> Result<Validation, Error> {
        let path = ["nodes", id, "validate"];
        let call = Call::get(Operation::Validate, &path).node(id);
        self.read(Call {
            pace: Pace::Bmc,
            ..call
        })
        .await
    }

    async fn put(&self, operation: Operation, id: &str, path: &[&str], body: Value) -> Result<(), Error> {
        let call = Call::get(operation, path).method(Method::PUT).node(id).body(body);
        accepted(self.call(call).await)
    }
}

/// A request body as JSON. Our types cannot fail at that, but the signature of serde says they may.
pub(crate) fn to_json<T: serde::Serialize + ?Sized>(
    operation: Operation,
    node: &str,
    body: &T,
) -> Result<Value, Error> {
    serde_json::to_value(body).map_err(|_| {
        Error::new(
            operation,
            Some(node),
            Reason::Senseless("the request cannot be written as JSON"),
        )
    })
}

/// For calls whose result is the status alone: a connection that breaks after it changes nothing.
pub(crate) fn accepted(result: Result<Answer, Error>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.reason(), Reason::HalfAnswer { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) fn absent_if_not_found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class() == ErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The address of the next page. Only the query is taken over: behind a proxy Ironic may know itself by another address,
/// and our credentials must go where they were configured to go.
pub(crate) fn following(current: &Url, next: &str) -> Option<Url> {
    let next = current.join(next).ok()?;
    let mut url = current.clone();
    url.set_query(Some(next.query()?));
    Some(url)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://h/v1/nodes?limit=2&marker=b", Some("https://h/v1/nodes?limit=2&marker=b"))]
    #[case(
        "http://inside:6385/v1/nodes?marker=b&fields=a,b",
        Some("https://h/v1/nodes?marker=b&fields=a,b")
    )]
    #[case("/v1/nodes?marker=b", Some("https://h/v1/nodes?marker=b"))]
    #[case("?marker=b", Some("https://h/v1/nodes?marker=b"))]
    #[case("https://h/v1/nodes", None)]
    #[case("http://[", None)]
    fn the_next_page_is_on_the_same_server(#[case] next: &str, #[case] expected: Option<&str>) {
        let current = Url::parse("https://h/v1/nodes?limit=2").unwrap();
        assert_eq!(following(&current, next).as_ref().map(Url::as_str), expected);
    }
}
