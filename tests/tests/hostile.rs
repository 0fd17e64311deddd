//! What tenants, BMCs and servers of Ironic may send, made up by the hundred thousand: nothing aborts, nothing grows, and no error
//! repeats what a Secret holds.

#![expect(
    clippy::expect_used,
    reason = "clippy allows it in functions marked #[test] only, and this whole file is tests"
)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::Response;
use baremetal_operator::host::{config_drive, pull_secret};
use cluster_api_provider_metal3::workload::kubeconfig;
use fastrand::Rng;
use ip_address_manager::admission;
use ip_address_manager::alloc::Plan;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use metal3_api::infra::convert;
use metal3_api::infra::v1beta2::{Metal3DataTemplate, Metal3Machine};
use metal3_api::ipam::{IPClaim, IPPool};
use metal3_api::metal3::{BareMetalHost, HardwareData, HostFirmwareSettings, PreprovisioningImage};
use metal3_bmc::BmcAddress;
use metal3_ironic::{Auth, Client, ClientConfig, Url};
use metal3_render::{Metadata, is_template, missing_keys};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

/// Stands in every Secret here, and in no message.
const CANARY: &str = "c4n4ry";

/// The same with user `u`, as a header of HTTP has it.
const HEADER: &str = "dTpjNG40cnk=";

/// What the process may grow by.
const GROWTH: u64 = 64 << 20;

/// No message is longer: conditions and events hold less.
const LONGEST: usize = 32 << 10;

/// As many as the property tests elsewhere are told to try.
fn times() -> usize {
    let times = std::env::var("EXPLORE_TIMES").ok().and_then(|times| times.parse().ok());
    times.unwrap_or(1)
}

/// The same in every run, unless others are to be explored.
fn rng(salt: u64) -> Rng {
    if std::env::var_os("EXPLORE_TIMES").is_some() {
        Rng::new()
    } else {
        Rng::with_seed(salt)
    }
}

/// One test at a time: each looks at what the whole process has grown by.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The memory that this process has now, in bytes. The peak is measured from here on.
fn from_here() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    peak()
}

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.expect("a number of kB") << 10
}

fn text(rng: &mut Rng) -> String {
    const ODD: [&str; 24] = [
        "",
        " ",
        "\0",
        "\n- a",
        "\u{202e}txt",
        "..",
        "../../v1/nodes",
        "%2e%2e%2f",
        "victim~node-0",
        "00000000-0000-0000-0000-000000000000",
        "http://user:p4ss@169.254.169.254/latest",
        "file:///etc/shadow",
        "redfish+https://[::1%25eth0]:99999/x",
        "ipmi://-oProxyCommand=x",
        "{{ ds.meta_data.name }}",
        "{% for i in range(10**9) %}",
        "*a",
        "&a [*a, *a]",
        "0x7f000001",
        "10.0.0.0/0",
        "::ffff:10.0.0.1",
        "9223372036854775808",
        "$(reboot)",
        "a=b c=d\r\nx",
    ];
    match rng.u8(0..8) {
        0 => "x".repeat(rng.usize(0..3_000)),
        1 => (0..rng.usize(0..64)).map(|_| rng.char(..)).collect(),
        2 => "-(".repeat(rng.usize(0..1_000)),
        3 => format!("{}{}", ODD[rng.usize(..ODD.len())], ODD[rng.usize(..ODD.len())]),
        _ => ODD[rng.usize(..ODD.len())].to_owned(),
    }
}

fn any(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(0..if depth == 0 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(..)),
        3 => json!(rng.f64() * 1e300),
        4..7 => json!(text(rng)),
        7 => (0..rng.usize(0..12)).map(|_| any(rng, depth - 1)).collect(),
        8 => {
            let pairs = (0..rng.usize(0..8)).map(|_| (text(rng), any(rng, depth - 1)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        _ => (0..rng.usize(0..100)).fold(json!(1), |inner, _| json!([inner])),
    }
}

/// Something in it becomes something else.
fn spoil(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Object(map) if !map.is_empty() && rng.u8(0..8) > 0 => {
            let key = map.keys().nth(rng.usize(..map.len())).cloned().unwrap_or_default();
            match rng.u8(0..12) {
                0 => {
                    map.remove(&key);
                }
                1 => {
                    map.insert(text(rng), any(rng, 2));
                }
                _ => spoil(&mut map[&key], rng),
            }
        }
        Value::Array(items) if !items.is_empty() && rng.u8(0..6) > 0 => {
            let at = rng.usize(..items.len());
            if rng.u8(0..12) == 0 {
                let item = items[at].clone();
                items.extend(std::iter::repeat_n(item, 20));
            } else {
                spoil(&mut items[at], rng);
            }
        }
        other => *other = any(rng, 3),
    }
}

fn is_fit(message: &str) {
    assert!(message.len() <= LONGEST, "{} bytes: {:.300}", message.len(), message);
}

/// The same, and nothing in it is from a Secret.
fn is_silent(message: &str) {
    is_fit(message);
    assert!(!message.contains(CANARY), "{message}");
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    serde_json::from_value(object.clone())
        .map_err(|error| is_fit(&error.to_string()))
        .ok()
}

/// All that is read of an object before anything is done about it.
fn look_at(object: &Value) {
    match object["kind"].as_str().unwrap_or_default() {
        "BareMetalHost" => {
            let Some(host) = read::<BareMetalHost>(object) else {
                return;
            };
            match BmcAddress::parse(&host.spec.bmc.address) {
                Ok(address) => is_fit(&format!("{} {}", address.bmc_type(), address.host())),
                Err(error) => is_fit(&error.to_string()),
            }
            if let Some(image) = &host.spec.image {
                if let Err(error) = image.resolve_checksum() {
                    is_fit(&error.to_string());
                }
                image.doubt();
            }
            serde_json::to_value(&host).expect("what was read can be written");
        }
        "IPPool" => {
            let Some(mut pool) = read::<IPPool>(object) else { return };
            let plan = Plan::read(&pool.spec);
            for problem in plan.problems() {
                is_fit(&problem.message);
            }
            admission::create_pool(&pool);
            admission::default_pool(&mut pool);
        }
        "IPClaim" => {
            if let Some(claim) = read::<IPClaim>(object) {
                admission::create_claim(&claim);
            }
        }
        "HardwareData" => drop(read::<HardwareData>(object)),
        "HostFirmwareSettings" => drop(read::<HostFirmwareSettings>(object)),
        "PreprovisioningImage" => drop(read::<PreprovisioningImage>(object)),
        "Metal3DataTemplate" => drop(read::<Metal3DataTemplate>(object)),
        "Metal3Machine" => drop(read::<Metal3Machine>(object)),
        _ => {}
    }
    for version in ["v1beta1", "v1beta2"] {
        let to = format!("infrastructure.cluster.x-k8s.io/{version}");
        if let Err(error) = convert(object.clone(), &to) {
            is_fit(&error.to_string());
        }
    }
}

#[test]
fn objects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut corpus = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let yaml = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let objects = metal3_lab::apply::parse(&yaml).unwrap();
        corpus.extend(objects.into_iter().map(|object| serde_json::to_value(object).unwrap()));
    }
    assert!(corpus.len() > 50, "{}", corpus.len());
    corpus.iter().for_each(look_at);
    let _alone = ALONE.blocking_lock();
    let (mut rng, before) = (rng(1), from_here());
    for _ in 0..70_000 * times() {
        let mut object = corpus[rng.usize(..corpus.len())].clone();
        for _ in 0..rng.usize(1..6) {
            let part = ["spec", "status", "metadata"][rng.usize(..3)];
            if rng.u8(0..20) == 0 {
                spoil(&mut object, &mut rng);
            } else if object[part].is_object() {
                spoil(&mut object[part], &mut rng);
            }
        }
        look_at(&object);
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < GROWTH, "{} MiB more than before", grown >> 20);
}

#[test]
fn texts_of_secrets() {
    let _alone = ALONE.blocking_lock();
    let (mut rng, before) = (rng(2), from_here());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let metadata = Metadata::from_yaml("name: a\nlocal-hostname: b").unwrap();
    for _ in 0..25_000 * times() {
        let mut parts: Vec<String> = (0..rng.usize(0..6)).map(|_| text(&mut rng)).collect();
        parts.insert(rng.usize(..=parts.len()), CANARY.to_owned());
        let joint = ["\n", ": ", "{{", "}}", ", ", "\n- ", ""][rng.usize(..7)];
        let head = ["", "## template: jinja\n#cloud-config\n", "{\"a\": ", "a: &a "][rng.usize(..4)];
        let text = format!("{head}{}", parts.join(joint));
        if let Err(error) = Metadata::from_yaml(&text) {
            is_silent(&format!("{error} {error:?}"));
        }
        if is_template(&text) {
            missing_keys(&text, &metadata);
        }
        if let Err(told) = config_drive::mapping("spec.networkData", &text) {
            is_silent(&told);
        }
        for kind in ["kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "Opaque"] {
            let data = [".dockerconfigjson", ".dockercfg", "auths"]
                .map(|key| (key.to_owned(), ByteString(text.clone().into())));
            if let Err(flaw) = pull_secret::credentials(kind, &data.into(), "oci://registry.example/image") {
                is_silent(&format!("{flaw:?}"));
            }
        }
        let secret = Secret {
            data: Some([("value".to_owned(), ByteString(text.clone().into()))].into()),
            ..Secret::default()
        };
        if let Err(unusable) = runtime.block_on(kubeconfig::read(&secret)) {
            is_silent(&format!("{unusable} {unusable:?}"));
        }
        let credentials = metal3_bmc::Credentials {
            username: "admin".to_owned(),
            password: text,
        };
        assert!(!format!("{credentials:?}").contains(CANARY), "credentials are shown");
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < GROWTH, "{} MiB more than before", grown >> 20);
}

/// Answers everything but discovery with something made up.
async fn ironic(State(seed): State<u64>, request: Request) -> Response {
    let sent = format!("{:?}", request.headers().get(AUTHORIZATION));
    if matches!(request.uri().path(), "/" | "/v1" | "/v1/") {
        let version = json!({"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": "1.109"});
        let body = json!({"default_version": version, "versions": [version], "version": version, "id": "v1"});
        return Response::new(Body::from(body.to_string()));
    }
    let number: u64 = request
        .uri()
        .path()
        .rsplit('-')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut rng = Rng::with_seed(seed ^ number);
    let mut node = json!({"uuid": "u", "name": "n", "provision_state": "active", "power_state": "power on", "maintenance": false,
        "extra": {}, "driver_info": {"redfish_password": "******"}, "instance_info": {}, "properties": {"capabilities": "a:b"},
        "target_provision_state": null, "reservation": null, "last_error": null, "traits": [], "driver": "redfish"});
    for _ in 0..rng.usize(0..5) {
        spoil(&mut node, &mut rng);
    }
    let body = match rng.u8(0..7) {
        0 => any(&mut rng, 3).to_string(),
        1 => json!({"error_message": any(&mut rng, 2)}).to_string(),
        2 => {
            json!({"error_message": json!({"faultstring": text(&mut rng), "debuginfo": any(&mut rng, 1)}).to_string()})
                .to_string()
        }
        3 => text(&mut rng),
        4 => [
            &*sent,
            CANARY,
            &*json!({"error_message": format!("{sent} {CANARY}")}).to_string(),
        ][rng.usize(..3)]
        .to_owned(),
        _ => node.to_string(),
    };
    let status = [200, 200, 200, 202, 204, 301, 400, 401, 404, 406, 409, 500, 503][rng.usize(..13)];
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .expect("a status and a header")
}

#[tokio::test]
async fn answers_of_ironic() {
    let _alone = ALONE.lock().await;
    metal3_testkit::init();
    let mut seeds = rng(3);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let endpoint = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let router = Router::new().fallback(ironic).with_state(seeds.u64(..));
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await });
    let client = Client::new(ClientConfig {
        auth: Auth::Basic {
            username: "u".to_owned(),
            password: CANARY.to_owned(),
        },
        retries: 0,
        timeout: Duration::from_secs(20),
        ..ClientConfig::new(endpoint)
    })
    .unwrap();
    let before = from_here();
    for number in 0..6_000 * times() {
        if let Err(error) = client.node(&format!("node-{number}")).await {
            let told = format!("{error} {error:?} {}", error.message());
            is_fit(&told);
            // OWN 26b: what Ironic, or a gateway before it, answered with was told with our own password in it.
            assert!(!told.contains(CANARY) && !told.contains(HEADER), "{told}");
        }
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < GROWTH, "{} MiB more than before", grown >> 20);
}
