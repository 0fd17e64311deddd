//! What a pass remembers of what came of its effects, for the next ones.

use std::error::Error as _;
use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::BareMetalHostStatus;
use metal3_runtime::error::{Class, Classified, chain};

use super::{Conflict, NodeView, Observed, RefusedPort, Unreleased};
use crate::host::error::{ApplyError, Reply};
use crate::host::plan::Effect;
use crate::host::text;

impl Observed {
    pub(in crate::host) fn host_name(&self) -> String {
        let metadata = &self.host.metadata;
        format!(
            "{}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        )
    }

    /// An answer that is given again and again for the same node is no clash with somebody else.
    pub(in crate::host) fn remember_conflict(&mut self, error: &ApplyError) {
        let ApplyError::Ironic { effect, source } = error else {
            return;
        };
        if Reply::from(source.class()) != Reply::OutOfTurn {
            return;
        }
        let node_since = match &self.node {
            NodeView::Live(node) | NodeView::Listed(node) => node.provision_updated_at.clone(),
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
        };
        let conflict = Conflict {
            effect,
            message: source.message(),
            node_since,
            times: 0,
        };
        self.memory.conflict = Some(conflict.after(self.memory.conflict.as_ref()));
    }

    /// What Ironic refuses for good of a port is done without, if the host can. True where that is so.
    pub(in crate::host) fn remember_refused_port(
        &mut self,
        effect: &Effect,
        error: &ApplyError,
        now: Timestamp,
    ) -> bool {
        let (Some(mac), ApplyError::Ironic { source, .. }) = (effect.dispensable_port(), error) else {
            return false;
        };
        let is_final = match source.class().into() {
            Reply::Refused | Reply::Taken => true,
            Reply::OutOfTurn => self.memory.conflict.as_ref().is_some_and(Conflict::is_lasting),
            Reply::Lost | Reply::Unusable | Reply::Gone | Reply::Later => false,
        };
        if is_final {
            let refused = RefusedPort {
                change: effect.label(),
                why: text::for_tenant(&source.message(), self.namespace()),
                at: now,
            };
            self.memory.refused_ports.insert(mac.to_owned(), refused);
        }
        is_final
    }

    /// A Secret that the host has no use for any more keeps it from nothing, also where it cannot be let go. True where there is
    /// nothing new to tell.
    pub(in crate::host) fn remember_release(
        &mut self,
        name: &str,
        released: &Result<(), ApplyError>,
        now: Timestamp,
    ) -> bool {
        let Err(error) = released else {
            tracing::info!(host = %self.host_name(), secret = name, "let go");
            return self.memory.unreleased.remove(name).is_none();
        };
        if error.class() != Class::Stale {
            tracing::warn!(host = %self.host_name(), error = %chain(error), "a Secret cannot be let go");
            let why = error
                .source()
                .map_or_else(|| error.to_string(), |cause| chain(cause).to_string());
            let unreleased = Unreleased {
                why: text::for_people(&why),
                at: now,
            };
            let before = self.memory.unreleased.insert(name.to_owned(), unreleased);
            let now = self.memory.unreleased.get(name);
            return before.as_ref().map(|before| &before.why) == now.map(|now| &now.why);
        }
        false
    }

    /// Goes into the next pass with the status that the last one arrived at.
    pub(in crate::host) fn carry(&mut self, status: BareMetalHostStatus) {
        let mut host = (*self.host).clone();
        let stored = host.status.replace(status).unwrap_or_default();
        self.stored_state.get_or_insert(stored.provisioning.state);
        self.host = Arc::new(host);
    }
}
