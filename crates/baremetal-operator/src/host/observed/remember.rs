//! What a pass remembers of the results of its effects, for later passes.

use std::error::Error as _;
use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::BareMetalHostStatus;
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;

use super::{Conflict, Lookup, NodeView, Observed, RefusedPort, Unreleased};
use crate::host::error::{ApplyError, Reply};
use crate::host::plan::{DiscRecord, Effect};
use crate::host::{disc, text};

impl Observed {
    /// Remembers the result of a failed effect.
    pub(in crate::host) fn learn_failure(&mut self, effect: &Effect, error: &ApplyError, now: Timestamp) {
        self.has_refused_power = matches!(effect, Effect::Power { .. }) && error.is_refusal();
        self.learn_conflict(error);
        let ApplyError::Ironic { source, .. } = error else {
            return;
        };
        if let Some(mac) = effect.dispensable_port().filter(|_| self.does_without(effect, error)) {
            let refused = RefusedPort {
                change: effect.label(),
                why: text::for_tenant(&source.message(), self.namespace()),
                at: now,
            };
            self.memory.refused_ports.insert(mac.to_owned(), refused);
        }
    }

    /// An answer repeated for an unchanged node is no conflict with another client.
    fn learn_conflict(&mut self, error: &ApplyError) {
        let ApplyError::Ironic { effect, source } = error else {
            return;
        };
        if Reply::from(source.class()) != Reply::InvalidState {
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

    /// The host does without a permanently rejected port change, if it can.
    pub(in crate::host) fn does_without(&self, effect: &Effect, error: &ApplyError) -> bool {
        let (Some(_), ApplyError::Ironic { source, .. }) = (effect.dispensable_port(), error) else {
            return false;
        };
        match source.class().into() {
            Reply::Refused | Reply::Taken => true,
            Reply::InvalidState => self.memory.conflict.as_ref().is_some_and(Conflict::is_lasting),
            Reply::Lost | Reply::Unusable | Reply::Gone | Reply::Later => false,
        }
    }

    /// Remembers the result of releasing a Secret. A failed release does not hold up the host.
    pub(in crate::host) fn learn_release(
        &mut self,
        name: &str,
        released: Result<(), ApplyError>,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        match released {
            Ok(()) => {
                self.memory.unreleased.remove(name);
            }
            Err(error) if error.class() == Class::Stale => return Err(error),
            Err(error) => {
                let host = ObjectKey::of(&*self.host);
                tracing::warn!(%host, error = %chain(&error), "a Secret cannot be let go");
                let cause = error.source().map(|cause| chain(cause).to_string());
                let why = text::for_people(&cause.unwrap_or_else(|| error.to_string()));
                self.memory
                    .unreleased
                    .insert(name.to_owned(), Unreleased { why, at: now });
            }
        }
        Ok(())
    }

    /// Remembers what was noted on the host about the disc in its drive.
    pub fn learn_note(&mut self, record: &DiscRecord) {
        self.memory.disc_request = None;
        self.memory.disc_failure = record.failure;
        if let Lookup::Found(image) = &mut self.data_image
            && disc::is_note(image)
        {
            Arc::make_mut(image).status = Some(record.status.clone());
        }
    }

    /// Enters the next step with the status that the last one reached.
    pub fn carry(&mut self, status: BareMetalHostStatus) {
        Arc::make_mut(&mut self.host).status = Some(status);
    }
}
