//! The history of nodes, from the conductor's log: when each was ready for its next step.

use serde::Deserialize;

/// A node's state from one moment on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Moment {
    /// When it was written, in seconds since 1970, to the millisecond.
    pub time: f64,
    /// The node's UUID.
    pub node: String,
    /// Its provision state; none of a very new node.
    pub provision_state: Option<String>,
    /// Where Ironic is taking it.
    pub target_provision_state: Option<String>,
    /// Its power.
    pub power_state: Option<String>,
    /// The power that Ironic is bringing it to.
    pub target_power_state: Option<String>,
    /// The holder of its lock.
    pub reservation: Option<String>,
}

impl Moment {
    /// Ironic does nothing with the node at this moment: the next step is the client's.
    pub fn is_at_rest(&self) -> bool {
        const BUSY: [&str; 12] = [
            "verifying",
            "inspecting",
            "inspect wait",
            "cleaning",
            "clean wait",
            "deploying",
            "wait call-back",
            "deleting",
            "adopting",
            "servicing",
            "service wait",
            "rescuing",
        ];
        let is_busy = self.provision_state.as_deref().is_some_and(|s| BUSY.contains(&s));
        !is_busy && self.reservation.is_none() && self.target_power_state.is_none()
    }
}
