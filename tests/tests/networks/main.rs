//! What `ip` says on a system that really boots with golden network data: rendered from each template in
//! `crates/render/tests/golden`, put on a config drive by the operator, read by real cloud-init, and applied by systemd-networkd,
//! by netplan, and by ifupdown. Where no such system can boot, the reason is printed.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

#[path = "../../../crates/render/tests/fixture/mod.rs"]
mod fixture;
mod meant;
mod seen;

use std::time::Duration;

use anyhow::ensure;
use baremetal_operator::host::config_drive::{self, Texts};
use fixture::{Case, Objects, addresses};
use metal3_api::infra::v1beta2::Gateway;
use metal3_lab::guest::{self, Facts, Guest, Renderer, Segment};
use metal3_render::render;
use serde_json::{Value, json};

/// How long boot and network data may take, on a machine that does other work too.
const LIMIT: Duration = Duration::from_secs(90);

/// The interfaces of the machine as its kernel names them: those that a config drive names by their MAC addresses, and one more.
fn nics(config_drive: &Value) -> Vec<(String, String)> {
    let known = [
        ("eno1", "52:54:00:00:00:01"),
        ("eno2", "52:54:00:00:00:02"),
        ("eno3", "52:54:00:12:34:56"),
        ("eno4", "aa:bb:cc:dd:ee:0f"),
        ("eno5", "52:54:00:ab:cd:ef"),
    ];
    let known = known.map(|(name, mac)| (name.to_owned(), mac.to_owned()));
    let more = (0..9).map(|n| (format!("nic{n}"), format!("52:54:00:00:01:{n:02x}")));
    let named = config_drive.to_string().to_lowercase();
    let all = known.into_iter().chain(more).filter(|(_, mac)| named.contains(mac));
    all.chain([("spare".to_owned(), "52:54:00:00:ff:ff".to_owned())])
        .collect()
}

/// What answers at the other ends of the cables, where network data asks for it.
fn segments(case: &str) -> Vec<Segment> {
    let leases = Segment {
        nics: &["eno3"],
        vlan: None,
        router: &["10.0.0.1/24"],
        ranges: &["10.0.0.50,10.0.0.99"],
    };
    match case {
        "dual-stack-worker" => vec![leases],
        "links-vlans-on-bond" => vec![Segment {
            nics: &["eno1", "eno2"],
            vlan: Some(20),
            ..leases
        }],
        "networks-dynamic" => vec![
            Segment {
                nics: &["eno1"],
                vlan: None,
                router: &["203.0.113.129/25", "2001:db8::1/64"],
                ranges: &["203.0.113.140,203.0.113.199", "2001:db8::100,2001:db8::1ff,64,1h"],
            },
            Segment {
                nics: &["eno2"],
                vlan: None,
                router: &["2001:db8::1/64"],
                ranges: &["2001:db8::,ra-only,64,1h"],
            },
        ],
        _ => Vec::new(),
    }
}

/// The drive of a host with this template, without what makes cloud-init set up nothing at all: structures as parameters of bonds,
/// though v1beta2 admits nothing else, and, for two renderers, routes without a gateway.
fn config_drive(case: &Case, renderer: Renderer) -> Value {
    let mut template = case.template().spec;
    if let Some(data) = &mut template.network_data {
        for bond in &mut data.links.bonds {
            bond.parameters.retain(|parameter| !parameter.value.is_object());
        }
        if renderer != Renderer::Networkd {
            let networks = data.networks.ipv4.iter_mut();
            networks.for_each(|network| network.routes.retain(|route| route.gateway != Gateway::default()));
        }
    }
    let machine = Objects::new();
    let rendered = render(&template, &machine.facts(), &addresses()).unwrap();
    let texts = Texts {
        network: Some(rendered.network_data.unwrap().to_yaml().unwrap()),
        ..Texts::default()
    };
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "spec": {"online": true},
        "metadata": {"name": "host-0", "namespace": "metal3", "uid": case.name},
    });
    config_drive::build(&serde_json::from_value(host).unwrap(), &texts, "spec.networkData").unwrap()
}

async fn golden_network_data_is_applied_by(renderer: Renderer) {
    if let Err(reason) = guest::probe() {
        println!("NOT RUN: no system with a kernel of its own can boot here: {reason:#}");
        return;
    }
    let mut cases = Case::all();
    cases.retain(|case| case.text("network_data.yaml").is_some());
    assert!(!cases.is_empty());
    let servers = cases.iter().map(|case| {
        let config_drive = config_drive(case, renderer);
        guest::Case {
            name: case.name.clone(),
            nics: nics(&config_drive),
            segments: segments(&case.name),
            config_drive,
        }
    });
    let servers: Vec<_> = servers.collect();
    let guest = Guest::boot(renderer, &servers).unwrap();
    let mut differences = Vec::new();
    for case in &cases {
        let meant = meant::of(case, renderer);
        let check = |facts: Facts| {
            let seen = seen::of(&facts, &meant, renderer);
            let [meant, seen] = [&meant, &seen].map(|value| serde_json::to_string_pretty(value).unwrap());
            let diff = similar::TextDiff::from_lines(&meant, &seen).unified_diff().to_string();
            ensure!(diff.is_empty(), "cloud-init: {}\n{diff}", facts.said);
            Ok(())
        };
        if let Err(error) = guest.expect(&case.name, LIMIT, check).await {
            differences.push(format!("{}, {}: {error:#}\n", case.name, renderer.name()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

#[tokio::test]
async fn networkd_applies_golden_network_data() {
    golden_network_data_is_applied_by(Renderer::Networkd).await;
}

#[tokio::test]
async fn netplan_applies_golden_network_data() {
    golden_network_data_is_applied_by(Renderer::Netplan).await;
}

#[tokio::test]
async fn ifupdown_applies_golden_network_data() {
    golden_network_data_is_applied_by(Renderer::Eni).await;
}
