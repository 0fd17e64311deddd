//! Error responses.

use serde_json::{Value, json};

/// A request that is not done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub text: String,
    /// Another attempt in a moment may succeed: the request waits for the lock.
    pub is_lock: bool,
}

impl Refusal {
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            is_lock: false,
        }
    }

    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }

    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(409, text)
    }

    pub fn node_not_found(ident: &str) -> Self {
        Self::new(404, format!("Node {ident} could not be found."))
    }

    /// A path that leads nowhere.
    pub fn no_such_path() -> Self {
        Self::new(404, "The resource could not be found.")
    }

    pub fn not_acceptable() -> Self {
        Self::new(406, "Request not acceptable.")
    }

    /// The state machine refuses.
    pub fn state(action: &str, node: &str, state: &str) -> Self {
        Self::bad_request(format!(
            "The requested action \"{action}\" can not be performed on node \"{node}\" while it is in state \"{state}\"."
        ))
    }

    /// Another action holds the node.
    pub fn locked(node: &str, conductor: &str) -> Self {
        Self {
            is_lock: true,
            ..Self::held(node, conductor)
        }
    }

    /// The same where waiting is of no use.
    pub fn held(node: &str, conductor: &str) -> Self {
        Self::conflict(format!(
            "Node {node} is locked by host {conductor}, please retry after the current operation is completed."
        ))
    }

    pub fn in_maintenance(operation: &str, node: &str) -> Self {
        Self::bad_request(format!(
            "The {operation} operation can't be performed on node {node} because it's in maintenance mode."
        ))
    }

    /// The body: JSON in a text in JSON, as Ironic's middleware makes it. Failed authentication is flat.
    pub fn body(&self) -> Value {
        if self.status == 401 {
            return json!({"error": {"message": self.text, "code": 401}});
        }
        let code = if self.status >= 500 && self.status != 503 {
            "Server"
        } else {
            "Client"
        };
        let fault = json!({"faultcode": code, "faultstring": self.text, "debuginfo": null});
        json!({"error_message": fault.to_string()})
    }
}

/// What an API call comes to.
pub(crate) type Answer = Result<Reply, Refusal>;

/// A request that was done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub status: u16,
    pub body: Option<Value>,
    /// How long Ironic talks to the BMC before it answers.
    pub after_bmc: bool,
}

impl Reply {
    pub fn ok(body: Value) -> Self {
        Self {
            status: 200,
            body: Some(body),
            after_bmc: false,
        }
    }

    pub fn created(body: Value) -> Self {
        Self {
            status: 201,
            ..Self::ok(body)
        }
    }

    pub fn accepted() -> Self {
        Self {
            status: 202,
            body: None,
            after_bmc: false,
        }
    }

    pub fn no_content() -> Self {
        Self {
            status: 204,
            ..Self::accepted()
        }
    }

    /// The same, answered after a round trip to the BMC.
    pub fn after_bmc(self) -> Self {
        Self {
            after_bmc: true,
            ..self
        }
    }
}
