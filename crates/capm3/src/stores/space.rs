//! Index spaces: who counts together.
//!
//! A Metal3Data is called `SPACE-INDEX`, so that the API server itself lets every index of a space be taken once. The
//! space of a template is its own name. `templateReference` of v1beta1 named another one for releases up to 1.10 of upstream's
//! provider, whose Metal3Datas are still called so; today's webhook admits only those that are called by their own template.

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate};
use metal3_runtime::store::ObjectKey;

/// The space that a template takes its indexes from.
pub fn space_of(template: &Metal3DataTemplate) -> ObjectKey {
    ObjectKey::of(template)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

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
