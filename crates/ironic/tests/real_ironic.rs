//! The client against a real Ironic: what is believed elsewhere of its requests, answers and error texts is true.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use std::time::Duration;

use metal3_bmc::{BmcAddress, Credentials};
use metal3_ironic::{
    Auth, Client, ClientConfig, CreateNode, CreatePort, Diff, Error, ErrorClass, Feature, MASK, Node, PatchOp,
    PowerState, PowerTarget, ProvisionRequest, ProvisionState, Step, Tls, Url, Verb,
};
use metal3_lab::ironic::{Host, IronicConfig, IronicLab};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

const INSTANCE: &str = "11111111-2222-4333-8444-555555555555";

fn config(lab: &IronicLab) -> ClientConfig {
    let user = lab.credentials().unwrap();
    ClientConfig {
        auth: Auth::Basic {
            username: user.username.clone(),
            password: user.password.clone(),
        },
        tls: Tls {
            ca_file: lab.ca_file(),
            ..Tls::default()
        },
        timeout: Duration::from_secs(60),
        ..ClientConfig::new(Url::parse(&lab.endpoint()).unwrap())
    }
}

/// The node of a host, as its BMC address asks for.
fn node_of(lab: &IronicLab, host: &Host) -> CreateNode {
    node_at(lab, host, &host.bmc_address(), &host.name)
}

fn node_at(lab: &IronicLab, host: &Host, address: &str, name: &str) -> CreateNode {
    let address = BmcAddress::parse(address).unwrap();
    let access = address.access();
    let credentials = Credentials {
        username: host.credentials.username.clone(),
        password: host.credentials.password.clone(),
    };
    let owned = |interface: Option<&str>| interface.map(str::to_owned);
    let mut driver_info = address.driver_info(&credentials, false);
    driver_info.insert("deploy_iso".to_owned(), lab.ramdisk_iso_url().into());
    CreateNode {
        driver: access.driver().to_owned(),
        name: format!("metal3~{name}"),
        driver_info: driver_info.into(),
        properties: [("capabilities", json!("boot_mode:uefi")), ("cpu_arch", json!("x86_64"))]
            .into_iter()
            .collect(),
        bios_interface: owned(access.bios_interface),
        boot_interface: owned(access.boot_interface),
        firmware_interface: owned(access.firmware_interface),
        inspect_interface: Some("agent".to_owned()),
        management_interface: owned(access.management_interface),
        power_interface: owned(access.power_interface),
        raid_interface: owned(access.raid_interface),
        vendor_interface: owned(access.vendor_interface),
        disable_power_off: Some(false),
        ..CreateNode::default()
    }
}

/// Waits until the node rests in a state.
async fn rest(client: &Client, id: &str, state: ProvisionState) -> Node {
    let begin = Instant::now();
    loop {
        let node = client.node(id).await.unwrap().unwrap();
        if node.provision_state == state && node.reservation.is_none() {
            return node;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(240),
            "not {state} in time: {node:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn go(client: &Client, id: &str, verb: Verb, state: ProvisionState) -> Node {
    client.provision(id, &verb.into()).await.unwrap();
    // The state to wait for may be the one that the node is still in.
    for _ in 0..20 {
        let node = client.node(id).await.unwrap().unwrap();
        if node.target_provision_state.is_some() || node.reservation.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rest(client, id, state).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_lives() {
    let lab = IronicLab::start(IronicConfig::default()).await.unwrap();
    let host = &lab.hosts()[0];
    let client = Client::new(config(&lab)).unwrap();
    let versions = client.ready().await.unwrap();
    assert!(versions.supports(Feature::AbortDeployWait), "{versions:?}");

    let node = client.create_node(&node_of(&lab, host)).await.unwrap();
    let id = node.uuid.as_str();
    assert_eq!(node.provision_state, ProvisionState::Enroll);
    assert_eq!(node.power_state, None);
    assert_eq!(node.detail.as_ref().unwrap().driver_info["redfish_password"], MASK);
    assert_eq!(client.inventory(id).await.unwrap(), None);

    let node = go(&client, id, Verb::Manage, ProvisionState::Manageable).await;
    assert!(
        matches!(node.power_state, Some(PowerState::On | PowerState::Off)),
        "{node:?}"
    );
    go(&client, id, Verb::Inspect, ProvisionState::Manageable).await;
    let inventory = client.inventory(id).await.unwrap().unwrap();
    assert_eq!(inventory.hostname.as_deref(), Some(host.name.as_str()));
    assert_eq!(inventory.interfaces[0].mac_address.as_deref(), Some(host.boot_mac()));
    assert_eq!((inventory.memory_mib, inventory.cpu.count), (Some(16 * 1024), Some(8)));
    assert!(inventory.cpu.frequency_mhz.unwrap() > 0.0);
    assert_eq!(inventory.disks.len(), 2);
    let name = inventory.interfaces[0].name.as_deref().unwrap();
    assert!(
        inventory.plugin_data.pxe_enabled.contains_key(name),
        "{:?}",
        inventory.plugin_data
    );
    let ports = client.ports_of(id).await.unwrap();
    assert_eq!(
        ports,
        client
            .ports_with_address(&host.boot_mac().to_uppercase())
            .await
            .unwrap()
    );
    assert_eq!(
        (ports[0].address.as_str(), ports[0].node_uuid.as_str()),
        (host.boot_mac(), id)
    );

    go(&client, id, Verb::Provide, ProvisionState::Available).await;
    let image = lab.image().unwrap();
    let wanted = || {
        [
            ("image_source", Some(json!(image.url))),
            ("image_os_hash_algo", Some(json!("sha256"))),
            ("image_os_hash_value", Some(json!(image.sha256))),
            ("image_disk_format", Some(json!("raw"))),
            ("capabilities", Some(json!({}))),
            ("boot_iso", None),
        ]
    };
    let difference = |node: &Node| {
        let mut diff = Diff::default();
        diff.set_all("/instance_info", wanted(), &node.detail.as_ref().unwrap().instance_info);
        diff.set(
            "/",
            "instance_uuid",
            Some(json!(INSTANCE)),
            node.instance_uuid.as_ref().map(|uuid| json!(uuid)).as_ref(),
        );
        diff.into_ops()
    };
    let node = client.node(id).await.unwrap().unwrap();
    let node = client.patch_node(id, &difference(&node)).await.unwrap();
    assert_eq!(difference(&node), [], "the answer to a patch has all of it");
    assert_eq!(node.instance_uuid.as_deref(), Some(INSTANCE));
    let validation = client.validate(id).await.unwrap();
    assert!(validation.is_deployable(), "{validation:?}");

    let drive = json!({"meta_data": {"name": "one"}, "user_data": "#cloud-config\n", "network_data": {"links": []}});
    client
        .provision(
            id,
            &ProvisionRequest {
                configdrive: Some(drive),
                ..Verb::Active.into()
            },
        )
        .await
        .unwrap();
    let node = rest(&client, id, ProvisionState::Active).await;
    assert_eq!(node.power_state, Some(PowerState::On));
    assert!(node.provision_updated_at.is_some());
    let machine = lab.machine(host).await.unwrap();
    let drive = machine.deployments[0].config_drive.as_ref().unwrap();
    assert_eq!(drive.user_data.as_deref(), Some("#cloud-config\n"));

    // With an instance it is not deleted, but moved on it is.
    let error = client.delete_node(id).await.unwrap_err();
    assert_eq!(
        (error.class(), error.status()),
        (ErrorClass::InvalidState, Some(409)),
        "{error}"
    );
    go(&client, id, Verb::Deleted, ProvisionState::Available).await;
    client.delete_node(id).await.unwrap();
    assert_eq!(client.node(id).await.unwrap(), None);
    client.delete_node(id).await.unwrap();
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_understood() {
    let lab = IronicLab::start(IronicConfig {
        hosts: 2,
        ipmi_hosts: 1,
        ..IronicConfig::default()
    })
    .await
    .unwrap();
    let [first, second, third] = lab.hosts() else {
        panic!("three hosts")
    };
    let client = Client::new(ClientConfig {
        retries: 0,
        ..config(&lab)
    })
    .unwrap();
    strangers(&lab).await;

    let nodes = [
        client.create_node(&node_of(&lab, first)).await,
        client.create_node(&node_of(&lab, second)).await,
    ];
    let [one, two] = nodes.map(|node| node.unwrap().uuid);
    lists(&lab, &[&one, &two]).await;
    duplicates(&lab, &client, &one, &two).await;
    nonsense(&lab, &client, &one).await;

    go(&client, &one, Verb::Manage, ProvisionState::Manageable).await;
    go(&client, &two, Verb::Manage, ProvisionState::Manageable).await;
    powers(&client, &one).await;
    maintenance(&client, &one).await;
    locks(&lab, &client, &one, first).await;
    every_type(&lab, &client, first).await;
    ipmi(&lab, &client, third).await;
    unreachable(&lab, &client).await;
    lab.stop().await;
}

/// What the client makes of an Ironic that does not know it, or that it does not know.
async fn strangers(lab: &IronicLab) {
    let wrong = Auth::Basic {
        username: "ironic".to_owned(),
        password: "wrong-password".to_owned(),
    };
    for auth in [wrong, Auth::None] {
        let error = Client::new(ClientConfig { auth, ..config(lab) })
            .unwrap()
            .ready()
            .await
            .unwrap_err();
        assert_eq!(
            (error.class(), error.status()),
            (ErrorClass::Unauthorized, Some(401)),
            "{error}"
        );
        assert!(!error.to_string().contains('{'), "the text was not unwrapped: {error}");
    }
    let known = Client::new(config(lab)).unwrap();
    assert_eq!(known.answers_anybody().await.unwrap(), Some(false));
    let error = Client::new(ClientConfig {
        tls: Tls::default(),
        ..config(lab)
    })
    .unwrap()
    .ready()
    .await
    .unwrap_err();
    assert!(error.to_string().contains("unknown issuer"), "{error}");
    Client::new(ClientConfig {
        tls: Tls {
            insecure: true,
            ..Tls::default()
        },
        ..config(lab)
    })
    .unwrap()
    .ready()
    .await
    .unwrap();
    for path in ["/v1", "/v1/"] {
        let endpoint = Url::parse(&format!("{}{path}", lab.endpoint())).unwrap();
        Client::new(ClientConfig {
            endpoint,
            ..config(lab)
        })
        .unwrap()
        .ready()
        .await
        .unwrap();
    }
}

/// Every field that is asked for in lists is one that Ironic gives, and pages are followed.
async fn lists(lab: &IronicLab, ids: &[&str]) {
    for page_limit in [1, 500] {
        let client = Client::new(ClientConfig {
            page_limit,
            ..config(lab)
        })
        .unwrap();
        let nodes = client.nodes().await.unwrap();
        let mut found: Vec<_> = nodes.iter().map(|node| node.uuid.as_str()).collect();
        found.sort_unstable();
        let mut expected = ids.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "with {page_limit} a page");
        assert!(
            nodes
                .iter()
                .all(|node| node.detail.is_none() && node.provision_state == ProvisionState::Enroll)
        );
        assert!(
            nodes
                .iter()
                .all(|node| node.boot_interface.as_deref() == Some("redfish-virtual-media"))
        );
    }
}

async fn duplicates(lab: &IronicLab, client: &Client, one: &str, two: &str) {
    let check = |error: Error, words: &str| {
        assert_eq!(
            (error.class(), error.status()),
            (ErrorClass::Duplicate, Some(409)),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    };
    check(
        client.create_node(&node_of(lab, &lab.hosts()[0])).await.unwrap_err(),
        "A node with name",
    );
    let port = |node: &str| CreatePort {
        node_uuid: node.to_owned(),
        address: "52:54:00:AA:00:01".to_owned(),
        pxe_enabled: true,
        extra: json!({"whose": "ours"}).as_object().unwrap().clone(),
    };
    let made = client.create_port(&port(one)).await.unwrap();
    assert_eq!(made.address, "52:54:00:aa:00:01");
    check(client.create_port(&port(two)).await.unwrap_err(), "52:54:00:aa:00:01");
    assert_eq!(client.ports_of(one).await.unwrap()[0].extra["whose"], "ours");
    // A port that is gone makes room for another one.
    for _ in 0..2 {
        client.delete_port(&made.uuid, one).await.unwrap();
    }
    client.create_port(&port(two)).await.unwrap();
    client
        .patch_node(one, &[PatchOp::add("/instance_uuid", INSTANCE)])
        .await
        .unwrap();
    check(
        client
            .patch_node(two, &[PatchOp::add("/instance_uuid", INSTANCE)])
            .await
            .unwrap_err(),
        INSTANCE,
    );
    client
        .patch_node(one, &[PatchOp::remove("/instance_uuid")])
        .await
        .unwrap();
}

async fn nonsense(lab: &IronicLab, client: &Client, one: &str) {
    let error = client
        .patch_node("metal3~nobody", &[PatchOp::add("/name", "x")])
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::NotFound, "{error}");
    let odd = CreateNode {
        driver: "no-such-driver".to_owned(),
        name: "metal3~odd".to_owned(),
        ..CreateNode::default()
    };
    let error = client.create_node(&odd).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::BadRequest, "{error}");
    assert!(error.to_string().contains("no-such-driver"), "{error}");
    let error = client.provision(one, &Verb::Provide.into()).await.unwrap_err();
    assert_eq!(
        (error.class(), error.status()),
        (ErrorClass::InvalidState, Some(400)),
        "{error}"
    );

    // An operation that cannot be applied comes back quoted, secret and all.
    let password = "battery-staple";
    let ops = [
        PatchOp::remove("/driver_info/deploy_iso"),
        PatchOp::add("/driver_info/not_there/redfish_password", password),
    ];
    let error = client.patch_node(one, &ops).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::BadRequest, "{error}");
    assert!(
        error.to_string().contains(MASK) && !error.to_string().contains(password),
        "{error}"
    );
    let detail = client.node(one).await.unwrap().unwrap().detail.unwrap();
    assert_eq!(
        detail.driver_info["deploy_iso"],
        Value::from(lab.ramdisk_iso_url()),
        "none of it was applied"
    );
}

async fn powers(client: &Client, id: &str) {
    for (target, timeout, state) in [
        (PowerTarget::On, None, PowerState::On),
        (PowerTarget::SoftOff, Some(Duration::from_secs(30)), PowerState::Off),
        (PowerTarget::On, None, PowerState::On),
        (PowerTarget::Reboot, None, PowerState::On),
        (PowerTarget::Off, None, PowerState::Off),
    ] {
        // On a busy machine Ironic's own connection to the BMC breaks now and then, which is not what is tested here.
        let mut reached = false;
        for _ in 0..3 {
            client.power(id, target, timeout).await.unwrap();
            reached = powered(client, id).await.as_ref() == Some(&state);
            if reached {
                break;
            }
        }
        assert!(reached, "{target}: {:?}", client.node(id).await);
    }
}

/// The power state once no change of it is under way.
async fn powered(client: &Client, id: &str) -> Option<PowerState> {
    let begin = Instant::now();
    loop {
        let node = client.node(id).await.unwrap().unwrap();
        if node.target_power_state.is_none() && node.reservation.is_none() {
            return node.power_state;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{node:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn maintenance(client: &Client, id: &str) {
    client.set_maintenance(id, "a look inside").await.unwrap();
    let node = client.node(id).await.unwrap().unwrap();
    assert_eq!(
        (node.maintenance, node.maintenance_reason.as_deref()),
        (true, Some("a look inside"))
    );
    let step = Step {
        interface: "deploy".to_owned(),
        step: "erase_devices_metadata".to_owned(),
        args: Map::new(),
    };
    let clean = ProvisionRequest {
        clean_steps: vec![step],
        ..Verb::Clean.into()
    };
    let error = client.provision(id, &clean).await.unwrap_err();
    assert_eq!(
        (error.class(), error.status()),
        (ErrorClass::InvalidState, Some(400)),
        "{error}"
    );
    assert!(error.to_string().contains("maintenance"), "{error}");
    client.clear_maintenance(id).await.unwrap();
    assert!(!client.node(id).await.unwrap().unwrap().maintenance);
}

/// A slow BMC keeps its node locked: changes are refused, and reading tells who holds it.
async fn locks(lab: &IronicLab, client: &Client, id: &str, host: &Host) {
    lab.set_bmc_faults(host, &json!({"delay": 4})).await.unwrap();
    client.power(id, PowerTarget::On, None).await.unwrap();
    let error = client.patch_node(id, &[PatchOp::add("/extra/x", 1)]).await.unwrap_err();
    assert_eq!(
        (error.class(), error.status()),
        (ErrorClass::Locked, Some(409)),
        "{error}"
    );
    assert!(client.node(id).await.unwrap().unwrap().reservation.is_some());
    lab.clear_faults().await.unwrap();
    rest(client, id, ProvisionState::Manageable).await;

    // The same with patience, in a state that forbids changes: it is in verification while its BMC thinks.
    lab.set_bmc_faults(None, &json!({"delay": 1})).await.unwrap();
    client.provision(id, &Verb::Inspect.into()).await.unwrap();
    let error = client.patch_node(id, &[PatchOp::add("/extra/x", 1)]).await.unwrap_err();
    assert!(
        matches!(error.class(), ErrorClass::InvalidState | ErrorClass::Locked),
        "{error}"
    );
    lab.clear_faults().await.unwrap();
}

/// Driver and interfaces of every type of BMC are ones that Ironic knows and lets go together.
async fn every_type(lab: &IronicLab, client: &Client, host: &Host) {
    let families = [
        "redfish",
        "ilo5-redfish",
        "idrac-redfish",
        "redfish-virtualmedia",
        "ilo5-virtualmedia",
        "idrac-virtualmedia",
        "redfish-uefihttp",
    ];
    let redfish = families
        .iter()
        .flat_map(|family| ["", "+http", "+https"].map(|suffix| format!("{family}{suffix}")));
    for kind in redfish.chain(["ipmi".to_owned(), "libvirt".to_owned()]) {
        let wanted = node_at(
            lab,
            host,
            &format!("{kind}://192.0.2.7/redfish/v1/Systems/1"),
            &kind.replace('+', "-"),
        );
        let node = client.create_node(&wanted).await.unwrap();
        let detail = node.detail.unwrap();
        assert_eq!(detail.driver.as_ref(), Some(&wanted.driver), "{kind}");
        for (chosen, given) in [
            (wanted.bios_interface, detail.bios_interface),
            (wanted.boot_interface, node.boot_interface),
            (wanted.firmware_interface, detail.firmware_interface),
            (wanted.management_interface, detail.management_interface),
            (wanted.power_interface, detail.power_interface),
            (wanted.raid_interface, detail.raid_interface),
            (wanted.vendor_interface, detail.vendor_interface),
        ] {
            assert!(
                chosen.is_none() || chosen == given,
                "{kind}: {given:?} instead of {chosen:?}"
            );
        }
        for (key, value) in wanted.driver_info.iter().filter(|(key, _)| !key.ends_with("password")) {
            assert_eq!(detail.driver_info.get(key), Some(value), "{kind}");
        }
        let fast = PatchOp::add("/inspect_interface", inspect_interface(&kind));
        let patched = client.patch_node(&node.uuid, &[fast]).await;
        if kind.starts_with("idrac") {
            // What Metal3 asks for here, Ironic does not do with this driver: fast inspection of an iDRAC ends in this.
            let error = patched.unwrap_err();
            assert_eq!(error.class(), ErrorClass::BadRequest, "{error}");
            assert!(
                error.to_string().contains("is not supported by hardware type"),
                "{error}"
            );
        } else {
            patched.unwrap();
        }
        client.delete_node(&node.uuid).await.unwrap();
    }
}

/// Fast inspection where there is one.
fn inspect_interface(kind: &str) -> &'static str {
    let address = BmcAddress::parse(&format!("{kind}://192.0.2.7")).unwrap();
    address.access().fast_inspect_interface().unwrap_or("agent")
}

/// The driver parameters of IPMI are those that Ironic takes.
async fn ipmi(lab: &IronicLab, client: &Client, host: &Host) {
    let node = client.create_node(&node_of(lab, host)).await.unwrap();
    let node = go(client, &node.uuid, Verb::Manage, ProvisionState::Manageable).await;
    assert!(node.power_state.is_some(), "{node:?}");
}

async fn unreachable(lab: &IronicLab, client: &Client) {
    lab.kill_ironic();
    let error = client.nodes().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unreachable, "{error}");
    lab.start_ironic().await.unwrap();
    client.ready().await.unwrap();
    assert_eq!(client.nodes().await.unwrap().len(), 3);
}
