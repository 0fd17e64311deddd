//! Index spaces: who counts together.
//!
//! A Metal3Data is called `SPACE-INDEX`, so that the API server itself lets every index of a space be taken once. The
//! space of a template is its own name, or the one that `templateReference` of v1beta1 names: templates that follow each
//! other, as when machines are rolled over to a new one, then share their indexes, and with them what is made of indexes.
//! v1beta2 has no such field; the conversion keeps it in an annotation.

use kube::ResourceExt;
use metal3_api::infra::names::annotation;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate};
use metal3_runtime::store::ObjectKey;
use serde::Deserialize;

/// The space that a template takes its indexes from.
pub fn space_of(template: &Metal3DataTemplate) -> ObjectKey {
    let name = template_reference(template).unwrap_or_else(|| template.name_any());
    ObjectKey::new(template.namespace().unwrap_or_default(), name)
}

/// The space and the index that a Metal3Data occupies by its name, whatever its spec says.
pub fn slot_of(data: &Metal3Data) -> Option<(ObjectKey, i32)> {
    let name = data.name_any();
    let (space, index) = name.rsplit_once('-')?;
    // `a-01` is not the name of index 1.
    let index = index.parse().ok().filter(|number: &i32| number.to_string() == index)?;
    Some((ObjectKey::new(data.namespace().unwrap_or_default(), space), index))
}

/// The name of the Metal3Data that has this index.
pub fn name_of(space: &ObjectKey, index: i32) -> String {
    format!("{}-{index}", space.name)
}

/// What is in the annotation of an object that was written in v1beta1.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Kept {
    spec: KeptSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct KeptSpec {
    template_reference: String,
}

fn template_reference(template: &Metal3DataTemplate) -> Option<String> {
    let text = template.annotations().get(annotation::V1BETA1_DATA)?;
    let kept: Kept = serde_json::from_str(text).ok()?;
    let name = kept.spec.template_reference;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[test]
    fn a_template_of_v1beta1_counts_with_the_one_that_it_refers_to() {
        let old = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3DataTemplate",
            "metadata": {"namespace": "ns", "name": "t2"}, "spec": {"clusterName": "c", "templateReference": "t1"}});
        let space = |object| space_of(&serde_json::from_value(object).unwrap());
        let stored = metal3_api::infra::convert(old, "infrastructure.cluster.x-k8s.io/v1beta2").unwrap();
        assert_eq!(space(stored.clone()), ObjectKey::new("ns", "t1"));
        let mut broken = stored;
        broken["metadata"]["annotations"][annotation::V1BETA1_DATA] = json!("{");
        assert_eq!(space(broken), ObjectKey::new("ns", "t2"));
    }

    #[rstest]
    #[case("t-0", Some(("t", 0)))]
    #[case("t-1-12", Some(("t-1", 12)))]
    #[case("t-01", None)]
    #[case("t--1", Some(("t-", 1)))]
    #[case("t", None)]
    #[case("t-99999999999", None)]
    fn names_tell_space_and_index(#[case] name: &str, #[case] slot: Option<(&str, i32)>) {
        let mut data = Metal3Data::default();
        data.metadata.namespace = Some("ns".to_owned());
        data.metadata.name = Some(name.to_owned());
        let slot = slot.map(|(space, index)| (ObjectKey::new("ns", space), index));
        assert_eq!(slot_of(&data), slot);
        if let Some((space, index)) = slot {
            assert_eq!(name_of(&space, index), name);
        }
    }
}
