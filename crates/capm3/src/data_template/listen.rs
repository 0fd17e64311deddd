//! Which index spaces have to be looked at when something changes, and what of them.

use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate};
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::work::Queue;

use super::news::{Focus, News};
use super::observed::spaces;
use super::space::{slot_of, space_of};
use crate::world::World;
use crate::world::data::{DataBy, template_asked, template_of};

/// Tells the queue, and what there is to see.
pub fn listen(world: &World, news: &News, queue: &Queue<ObjectKey>) {
    let tell = teller(news, queue);
    world.data_templates.listen(move |change| {
        // Its status is nobody's but ours.
        if change.affects(but_status) {
            for template in change.states() {
                tell(space_of(template), Focus::whole());
                // Claims may have come before it.
                tell(ObjectKey::of(&**template), Focus::whole());
            }
        }
    });
    let (seen, tell) = (world.clone(), teller(news, queue));
    world.data_claims.listen(move |change| {
        for claim in change.states() {
            for space in spaces(&seen, Some(template_asked(claim)), None) {
                tell(space, of_claim(&change.key.name));
            }
        }
        if let (Some(gone), None) = (&change.before, &change.after) {
            seen.known_claims.forget(&gone.uid().unwrap_or_default());
        }
    });
    listen_to_datas(world, news, queue);
    let (seen, tell) = (world.clone(), teller(news, queue));
    world.clusters.listen(move |change| {
        if !change.affects(Cluster::is_paused) {
            return;
        }
        let by = DataBy::Cluster(change.key.clone());
        for claim in seen.data_claims.find(&by) {
            for space in spaces(&seen, Some(template_asked(&claim)), None) {
                tell(space, of_claim(&claim.name_any()));
            }
        }
        // Those whose claim is gone were left alone while it was paused.
        for data in seen.datas.find(&by) {
            for space in spaces(&seen, template_of(&*data, &data.spec.template), Some(&data)) {
                tell(space, of_data(&data.name_any(), &data));
            }
        }
    });
}

fn listen_to_datas(world: &World, news: &News, queue: &Queue<ObjectKey>) {
    let (seen, tell, news) = (world.clone(), teller(news, queue), news.clone());
    world.datas.listen(move |change: &Change<Metal3Data>| {
        if let (Some(gone), None) = (&change.before, &change.after)
            && let Some((space, index)) = slot_of(gone)
        {
            news.freed(&space, index);
        }
        // That it is rendered is of no consequence here.
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
                    tell(space, of_data(&change.key.name, data));
                }
            }
        }
    });
}

fn teller(news: &News, queue: &Queue<ObjectKey>) -> impl Fn(ObjectKey, Focus) + Send + Sync + use<> {
    let (news, bell) = (news.clone(), queue.clone());
    move |space, changed| {
        news.add(&space, changed);
        bell.push(space);
    }
}

fn of_claim(name: &str) -> Focus {
    Focus {
        claims: [name.to_owned()].into(),
        ..Focus::default()
    }
}

fn of_data(name: &str, data: &Metal3Data) -> Focus {
    Focus {
        claims: [data.spec.claim.name.clone()].into(),
        datas: [name.to_owned()].into(),
        ..Focus::default()
    }
}

/// What of a template counts: all but its status, and what comes with every write.
fn but_status(template: &Metal3DataTemplate) -> impl PartialEq + use<> {
    let meta = &template.metadata;
    (
        (meta.uid.clone(), meta.labels.clone(), meta.annotations.clone()),
        meta.finalizers.clone(),
        meta.deletion_timestamp.is_some(),
        template.spec.clone(),
    )
}
