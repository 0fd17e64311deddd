//! Templates of metadata and network data, rendered for one machine.

use crate::bounded::is_bounded;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::infra::convert;
use metal3_api::infra::v1beta2::Metal3DataTemplate;
use metal3_api::metal3::Nic;
use metal3_render::{Addresses, Facts, Pool, PoolAddress, Problem, Rendered, pools, render};
use serde_json::Value;

const VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// A template that can be rendered uses exactly the pools that it claims from, and YAML readers get what it says.
pub fn check(input: &[u8]) {
    let object = serde_json::from_slice::<Value>(input).ok();
    let object = object.and_then(|object| convert(object, VERSION).ok());
    let template = object.and_then(|object| serde_json::from_value::<Metal3DataTemplate>(object).ok());
    let Some(template) = template else { return };
    let machine = machine();
    let nics = ["eno1", "eno2"].map(|name| Nic {
        name: name.to_owned(),
        mac: "52:54:00:12:34:56".to_owned(),
        ..Nic::default()
    });
    let facts = Facts {
        namespace: "metal3",
        index: 3,
        machine: &machine,
        metal3_machine: &machine,
        host: &machine,
        boot_mac: "52:54:00:12:34:56",
        nics: &nics,
    };
    let claimed = match pools(&template.spec, &facts) {
        Ok(claimed) => claimed,
        Err(error) => return is_bounded(input, error.to_string().len()),
    };
    let addresses: Addresses = claimed.iter().map(|pool| (pool.clone(), address(pool))).collect();
    match render(&template.spec, &facts, &addresses) {
        Ok(rendered) => is_whole(input, &rendered),
        Err(error) => {
            assert!(!matches!(*error.problem, Problem::NoAddress(_)), "not claimed: {error}");
            is_bounded(input, error.to_string().len());
        }
    }
}

fn is_whole(input: &[u8], rendered: &Rendered) {
    let metadata = rendered
        .metadata
        .as_ref()
        .map(|data| (data.to_yaml(), serde_json::to_value(data)));
    let network = rendered
        .network_data
        .as_ref()
        .map(|data| (data.to_yaml(), serde_json::to_value(data)));
    for (text, data) in metadata.into_iter().chain(network) {
        let (text, data) = (
            text.expect("what was rendered can be written"),
            data.expect("as JSON too"),
        );
        is_bounded(input, text.len());
        let read: Value = serde_saphyr::from_str(&text).expect("what was written can be read");
        assert_eq!(read, data);
    }
}

/// The corpus's templates name these.
fn machine() -> ObjectMeta {
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    };
    ObjectMeta {
        name: Some("machine".to_owned()),
        annotations: Some(pairs(&[
            ("pool", "annotated"),
            ("mac", "52:54:00:00:00:07"),
            ("a", "no"),
        ])),
        labels: Some(pairs(&[("rack", "b"), ("a", "1:2")])),
        ..ObjectMeta::default()
    }
}

/// An IPv6 address if the pool's name ends with 6.
fn address(pool: &Pool) -> PoolAddress {
    let (address, gateway) = if pool.name.ends_with('6') {
        ("2001:db8::7", "2001:db8::1")
    } else {
        ("192.0.2.7", "192.0.2.1")
    };
    PoolAddress {
        address: address.to_owned(),
        prefix: Some(24),
        gateway: gateway.to_owned(),
        dns_servers: vec![gateway.to_owned()],
    }
}
