//! Which index spaces a change triggers.

use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate};
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::timing::provider::GATHER;
use metal3_runtime::work::Queue;

use super::observed::spaces;
use crate::stores::data::{DataBy, template_asked, template_of};
use crate::stores::{Stores, space_of};

/// Enqueues the affected index spaces.
pub fn listen(stores: &Stores, queue: &Queue<ObjectKey>) {
    let keys = queue.clone();
    stores.data_templates.listen(move |change| {
        // Only we write its status.
        if change.affects(but_status) {
            for template in change.states() {
                keys.push_in(space_of(template), GATHER);
                // Claims may have been created before it.
                keys.push_in(ObjectKey::of(&**template), GATHER);
            }
        }
    });
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.data_claims.listen(move |change| {
        for claim in change.states() {
            for space in spaces(&seen, Some(template_asked(claim)), None) {
                keys.push_in(space, GATHER);
            }
        }
        if let (Some(gone), None) = (&change.before, &change.after) {
            seen.known_claims.forget(&gone.uid().unwrap_or_default());
        }
    });
    listen_to_datas(stores, queue);
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.clusters.listen(move |change| {
        if !change.affects(Cluster::is_paused) {
            return;
        }
        let by = DataBy::Cluster(change.key.clone());
        for claim in seen.data_claims.find(&by) {
            for space in spaces(&seen, Some(template_asked(&claim)), None) {
                keys.push_in(space, GATHER);
            }
        }
        // Those without a claim were skipped while it was paused.
        for data in seen.datas.find(&by) {
            for space in spaces(&seen, template_of(&*data, &data.spec.template), Some(&data)) {
                keys.push_in(space, GATHER);
            }
        }
    });
}

fn listen_to_datas(stores: &Stores, queue: &Queue<ObjectKey>) {
    let (seen, keys) = (stores.clone(), queue.clone());
    stores.datas.listen(move |change: &Change<Metal3Data>| {
        // Whether it has been rendered does not matter here.
        let asked = |data: &Metal3Data| {
            let meta = &data.metadata;
            (
                (meta.uid.clone(), meta.labels.clone(), meta.annotations.clone()),
                (meta.finalizers.clone(), meta.owner_references.clone()),
                meta.deletion_timestamp.is_some(),
                data.spec.clone(),
            )
        };
        if change.affects(asked) {
            for data in change.states() {
                for space in spaces(&seen, template_of(&**data, &data.spec.template), Some(data)) {
                    keys.push_in(space, GATHER);
                }
            }
        }
    });
}

/// The relevant fields of a template: all except its status and the metadata that changes with every write.
fn but_status(template: &Metal3DataTemplate) -> impl PartialEq + use<> {
    let meta = &template.metadata;
    (
        (meta.uid.clone(), meta.labels.clone(), meta.annotations.clone()),
        meta.finalizers.clone(),
        meta.deletion_timestamp.is_some(),
        template.spec.clone(),
    )
}
