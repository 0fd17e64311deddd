//! The kinds of the API as a table, and objects of each: what the tests of this folder go through.
//!
//! A kind takes one row in the list of its group ([`metal3`], [`infra`], [`ipam`]) for each version, and one file
//! `objects/<group>/<version>/<Kind>.yaml` of written-out objects:
//!
//! - `full` and further ones: as we write them ourselves; each field must occur in one of them
//! - `minimal`: no more than the schema requires
//! - `go-…`: as Go clients write them, with the empty structures, zeros and nulls that they cannot leave out

pub mod generate;
mod infra;
mod ipam;
mod kind;
mod metal3;

pub use kind::{Kind, Refusal, at, is_empty, plain, walk};

use serde_json::Value;
use std::path::Path;

/// One row for each version of each kind.
pub fn all() -> Vec<Kind> {
    [metal3::kinds(), infra::kinds(), ipam::kinds()]
        .into_iter()
        .flatten()
        .collect()
}

/// The written-out objects of a kind, by their names.
pub fn written(kind: &Kind) -> Vec<(String, Value)> {
    let (group, version) = (kind.group(), kind.version());
    let path = format!("tests/objects/{group}/{version}/{}.yaml", kind.name());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(&path);
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let objects = metal3_testkit::parse(&text).unwrap_or_else(|error| panic!("{path}: {error:#}"));
    let objects = objects.into_iter().map(|object| {
        let types = object.types.clone().unwrap();
        assert_eq!(
            (types.api_version, types.kind),
            (kind.api_version(), kind.name().to_owned())
        );
        (
            object.metadata.name.clone().unwrap(),
            plain(serde_json::to_value(object).unwrap()),
        )
    });
    objects.collect()
}

/// One of them.
pub fn written_as(kind: &Kind, name: &str) -> Value {
    let found = written(kind).into_iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("{} {name} is missing", kind.name())).1
}
