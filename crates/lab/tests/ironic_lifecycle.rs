//! One server's whole life with a real Ironic, with TLS and credentials everywhere.

mod ironic_support;

use std::time::{Duration, Instant};

use ironic_support::{ask, call, choose_image, enroll, go, wait_for};
use metal3_lab::ironic::{IronicConfig, IronicLab, Mark, Request, count};
use reqwest::{Method, StatusCode};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_from_enrolled_to_deployed_and_back() {
    let start = Instant::now();
    let lab = IronicLab::start(IronicConfig {
        hosts: 2,
        ..IronicConfig::default()
    })
    .await
    .unwrap();
    println!("started in {:.1?}", start.elapsed());
    let [host, other] = lab.hosts() else {
        panic!("two hosts")
    };

    let url = format!("{}/v1/nodes", lab.endpoint());
    let pem = std::fs::read(lab.ca_file().unwrap()).unwrap();
    let stranger = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()])
        .build()
        .unwrap();
    assert_eq!(
        stranger.get(&url).send().await.unwrap().status(),
        StatusCode::UNAUTHORIZED,
        "no credentials"
    );
    let wrong = stranger.get(&url).basic_auth("ironic", Some("wrong"));
    assert_eq!(
        wrong.send().await.unwrap().status(),
        StatusCode::UNAUTHORIZED,
        "wrong password"
    );
    let distrustful = reqwest::Client::new().get(&url).send().await;
    assert!(
        distrustful.unwrap_err().is_connect(),
        "the certificate is of our own authority"
    );

    let node = enroll(&lab, host).await;
    println!("manage   {:.1?}", go(&lab, &node, "manage", "manageable").await);
    println!("inspect  {:.1?}", go(&lab, &node, "inspect", "manageable").await);
    let inventory = call(&lab, Method::GET, &format!("/v1/nodes/{node}/inventory"), None).await;
    assert_eq!(inventory["inventory"]["hostname"], host.name);
    let ports = call(&lab, Method::GET, &format!("/v1/ports?node_uuid={node}"), None).await;
    assert_eq!(ports["ports"][0]["address"], host.boot_mac());
    println!("provide  {:.1?}", go(&lab, &node, "provide", "available").await);

    choose_image(&lab, &node, &lab.image().unwrap().sha256).await;
    let before_deploy = lab.machine(host).await.unwrap();
    assert_eq!(
        (
            before_deploy.deploys,
            before_deploy.cleans(),
            before_deploy.inspections()
        ),
        (0, 1, 1)
    );
    let (_, mark) = lab.requests(Mark::default()).unwrap();
    let begin = Instant::now();
    let configdrive = json!({
        "meta_data": {"name": "host-1", "answer": 42},
        "user_data": "#cloud-config\nhostname: one\n",
        "network_data": {"links": [], "networks": [], "services": []},
    });
    ask(&lab, &node, json!({"target": "active", "configdrive": configdrive})).await;
    wait_for(&lab, &node, &["active"], Duration::from_secs(120)).await;
    println!("active   {:.1?}", begin.elapsed());

    let machine = lab.machine(host).await.unwrap();
    assert_eq!(machine.deploys, 1);
    assert!(machine.is_on);
    let deployment = &machine.deployments[0];
    assert_eq!(deployment.image_digest, lab.image().unwrap().sha256);
    assert_eq!(deployment.image_size, 1 << 20);
    let drive = deployment.config_drive.as_ref().unwrap();
    assert_eq!(drive.user_data.as_deref(), Some("#cloud-config\nhostname: one\n"));
    assert_eq!(drive.meta_data.as_ref().unwrap()["answer"], 42);
    assert_eq!(drive.network_data.as_ref().unwrap()["links"], json!([]));
    assert_eq!(machine.counters.deploy_steps["write_image"], 1);
    assert!(machine.bmc_requests() > before_deploy.bmc_requests());
    assert_eq!(
        machine.counters.bmc_requests["POST /redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset"],
        { machine.counters.power_requests.values().sum::<u64>() }
    );

    let (requests, _) = lab.requests(mark).unwrap();
    let (ramdisk, operator): (Vec<_>, Vec<_>) = requests.into_iter().partition(Request::is_of_a_ramdisk);
    let (ramdisk, operators) = (count(&ramdisk), count(&operator));
    assert_eq!(operators["PUT /v1/nodes/{id}/states/provision"], 1);
    assert!(operator.iter().all(|request| request.user == "ironic"));
    assert!(
        ramdisk["POST /v1/heartbeat/{id}"] > 0 && !operators.contains_key("POST /v1/heartbeat/{id}"),
        "{ramdisk:?}"
    );

    println!("deleted  {:.1?}", go(&lab, &node, "deleted", "available").await);
    let machine = lab.machine(host).await.unwrap();
    assert_eq!((machine.deploys, machine.cleans()), (1, 2));
    call(&lab, Method::DELETE, &format!("/v1/nodes/{node}"), None).await;
    let nodes = call(&lab, Method::GET, "/v1/nodes", None).await;
    assert_eq!(nodes["nodes"], json!([]));

    let untouched = lab.machine(other).await.unwrap();
    assert_eq!(
        (untouched.times_switched_on(), untouched.bmc_requests(), untouched.agent),
        (0, 0, None)
    );
    let folder = lab.folder().to_owned();
    let begin = Instant::now();
    lab.stop().await;
    println!("stopped  {:.1?}", begin.elapsed());
    assert!(!folder.exists(), "a temporary folder goes with the lab");
}
