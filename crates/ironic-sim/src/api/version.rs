//! API versions: discovery, and the version of a request.

use serde_json::{Value, json};

use super::request::links;
use crate::config::Config;
use crate::refusal::Refusal;
use crate::world::World;

/// The version that a request asks for by its headers: the old one, or else the common one of OpenStack.
pub(crate) fn requested<'a>(old: Option<&'a str>, common: Option<&'a str>) -> Option<&'a str> {
    let common = common.and_then(|text| {
        let mut services = text.split(',').map(str::trim);
        services.find_map(|service| service.strip_prefix("baremetal "))
    });
    common.or(old).map(str::trim)
}

/// The minor version to answer in.
pub(crate) fn negotiate(config: &Config, requested: Option<&str>) -> Result<u16, Refusal> {
    let (min, max) = (config.min_version, config.max_version);
    let Some(text) = requested else {
        return Ok(min);
    };
    if text.eq_ignore_ascii_case("latest") {
        return Ok(max);
    }
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u16>().ok()?, minor.parse().ok()?)));
    let (major, minor) =
        parsed.ok_or_else(|| Refusal::new(406, "Invalid value for X-OpenStack-Ironic-API-Version header"))?;
    let range = format!("The supported version range is: [1.{min}, 1.{max}].");
    if major != 1 {
        return Err(Refusal::new(
            406,
            format!(
                "Mutually exclusive versions requested. Version {text} requested but not supported by this service. {range}"
            ),
        ));
    }
    if !(min..=max).contains(&minor) {
        return Err(Refusal::new(
            406,
            format!("Version {text} was requested but the minor version is not supported by this service. {range}"),
        ));
    }
    Ok(minor)
}

fn offer(world: &World, base: &str) -> Value {
    json!({
        "id": "v1", "status": "CURRENT", "links": [{"href": format!("{base}/v1/"), "rel": "self"}],
        "min_version": format!("1.{}", world.config.min_version), "version": format!("1.{}", world.config.max_version),
    })
}

/// The document at the root.
pub(crate) fn root(world: &World, base: &str) -> Value {
    let offer = offer(world, base);
    json!({
        "name": "OpenStack Ironic API", "description": "A simulator of the bare metal API", "default_version": offer,
        "versions": [offer],
    })
}

/// The document at `/v1`.
pub(crate) fn v1(world: &World, base: &str) -> Value {
    json!({
        "id": "v1", "links": [{"href": format!("{base}/v1/"), "rel": "self"}], "version": offer(world, base),
        "nodes": links(base, "nodes", ""), "ports": links(base, "ports", ""),
        "drivers": links(base, "drivers", ""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        assert_eq!(requested(Some("1.89"), None), Some("1.89"));
        assert_eq!(requested(None, Some("compute 2.1, baremetal 1.90")), Some("1.90"));
        assert_eq!(requested(None, Some("compute 2.1")), None);
        let config = Config::default();
        assert_eq!(negotiate(&config, None).unwrap(), 1);
        assert_eq!(negotiate(&config, Some("latest")).unwrap(), 115);
        for refused in ["1.116", "2.1", "1", "x.y"] {
            assert_eq!(negotiate(&config, Some(refused)).unwrap_err().status, 406, "{refused}");
        }
    }
}
