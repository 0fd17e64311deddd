//! Which pools a template takes addresses from.

use std::collections::BTreeMap;

use metal3_api::infra::v1beta2::Metal3DataTemplateSpec;

use crate::error::{Problem, RenderError};
use crate::facts::Facts;
use crate::pool::Pool;
use crate::{metadata, network};

/// The pools that an address must be claimed from before the template can be rendered, by name.
///
/// A pool is listed once, however often it is named, and also if only its gateway, prefix or name servers are used:
/// these come with an address. Of several sources in one place only the one that is used counts.
///
/// Claims are named after their pools, so two pools with one name are rejected.
pub fn pools(template: &Metal3DataTemplateSpec, facts: &Facts<'_>) -> Result<Vec<Pool>, RenderError> {
    let mut named = metadata::pools_of(template).collect::<Vec<_>>();
    if let Some(data) = &template.network_data {
        network::pools_of(data, facts, &mut named)?;
    }
    let mut distinct = BTreeMap::<String, (String, Pool)>::new();
    for (field, pool) in named {
        match distinct.get(&pool.name) {
            None => {
                distinct.insert(pool.name.clone(), (field, pool));
            }
            Some((_, known)) if *known == pool => {}
            Some((other_field, other)) => {
                let problem = Problem::SameName {
                    pool,
                    other: other.clone(),
                    other_field: other_field.clone(),
                };
                return Err(RenderError::new(field, problem));
            }
        }
    }
    Ok(distinct.into_values().map(|(_, pool)| pool).collect())
}
