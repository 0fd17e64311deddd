//! What the API server refuses because this program says so, what it fills in, and objects in either version.

use std::path::Path;

use cluster_api_provider_metal3::{rbac, webhooks};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::infra::{v1beta1, v1beta2};
use metal3_lab::pki::Authority;
use metal3_runtime::readable::Readable;
use metal3_testkit::{DEADLINE, Replicas, Served, TestNamespace, endpoint, eventually, listen, namespace};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub fn object(version: &str, kind: &str, name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/{version}, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}"
    )
}

pub fn new(kind: &str, name: &str, spec: &str) -> String {
    object("v1beta2", kind, name, spec)
}

pub async fn served() -> TestNamespace {
    let namespace = namespace!().await;
    serve(&namespace).await;
    namespace
}

/// Serves the webhooks, and returns when they answer. No definition has the rule for Secrets.
async fn serve(namespace: &TestNamespace) {
    let probe = new("Metal3Machine", "probe", FOREIGN);
    namespace
        .serve(webhooks::all(), webhooks::installed::INSTALLED, &probe)
        .await;
}

/// A machine that only a webhook refuses.
const FOREIGN: &str = "{customDeploy: {method: m}, userData: {name: a, namespace: other}}";

const IMAGE: &str = "image: {url: 'https://e/i', checksum: abc}";

#[tokio::test]
async fn defaults_are_stored() {
    let namespace = served().await;
    namespace
        .apply(&new("Metal3Cluster", "c", "{controlPlaneEndpoint: {host: h}}"))
        .await;
    let cluster = namespace.api::<v1beta2::Metal3Cluster>().get("c").await.unwrap().spec;
    assert_eq!(
        (cluster.control_plane_endpoint.port, cluster.cloud_provider_enabled),
        (6443, Some(false))
    );
    let strategy = "{template: {spec: {strategy: {type: Reboot}}}}";
    namespace.apply(&new("Metal3RemediationTemplate", "r", strategy)).await;
    let template = namespace
        .api::<v1beta2::Metal3RemediationTemplate>()
        .get("r")
        .await
        .unwrap();
    let strategy = template.spec.template.spec.strategy.unwrap();
    assert_eq!((strategy.retry_limit, strategy.timeout_seconds), (1, 600));
    let old = "{controlPlaneEndpoint: {host: h, port: 1}, noCloudProvider: true}";
    namespace.apply(&object("v1beta1", "Metal3Cluster", "old", old)).await;
    let cluster = namespace.api::<v1beta2::Metal3Cluster>().get("old").await.unwrap().spec;
    assert_eq!(cluster.cloud_provider_enabled, Some(false));
}

#[tokio::test]
async fn what_was_wrong_before_may_stay() {
    let namespace = namespace!().await;
    let machine = |secrets: &str, more: &str| {
        let user_data = format!("userData: {{name: a, namespace: {secrets}}}");
        new("Metal3Machine", "m", &format!("{{{IMAGE}, {user_data}{more}}}"))
    };
    namespace.apply(&machine("other", "")).await;
    serve(&namespace).await;
    namespace
        .apply(&machine("other", ", automatedCleaningMode: metadata"))
        .await;
    namespace
        .expect_refused(&machine("another", ""), "spec.userData.namespace: \"another\"")
        .await;
}

/// Serves the webhooks with the certificate in a folder, which this authority has signed. The API server trusts it.
fn serve_signed(folder: &Path, authority: &Authority) -> (Served, JoinSet<()>) {
    authority.server("webhooks", &[]).unwrap().write(folder, "tls").unwrap();
    let listener = listen().unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let endpoint = endpoint(listener, webhooks::all(), folder).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async { endpoint.serve(CancellationToken::new()).await.unwrap() });
    (Served::at(url, authority), tasks)
}

/// For a webhook the client is the API server. What can expire there is the authority that it trusts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_whose_trust_has_expired_refuses_writes_until_it_gets_a_valid_authority() {
    let namespace = namespace!().await;
    let folder = tempfile::tempdir().unwrap();
    let (expired, valid) = (Authority::expired("old").unwrap(), Authority::generate("new").unwrap());
    let (served, _webhooks) = serve_signed(folder.path(), &expired);
    let installed = || webhooks::installed::INSTALLED.objects(&webhooks::all());
    namespace.admit_by(&served, installed()).await;
    let (right, wrong) = ("{customDeploy: {method: m}}", FOREIGN);
    let answer = async |spec: &str| match namespace.try_apply(&new("Metal3Machine", "m", spec)).await {
        Ok(_) => "it is stored".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let expect = async |spec: &str, words: &str| {
        eventually(DEADLINE, words, async || {
            let answer = answer(spec).await;
            if answer.contains(words) { Ok(()) } else { Err(answer) }
        })
        .await;
    };
    expect(wrong, "certificate has expired").await;
    expect(right, "certificate has expired").await;
    assert!(namespace.api::<v1beta2::Metal3Machine>().get("m").await.is_err());

    // As cert-manager does it, and the running server follows.
    valid
        .server("webhooks", &[])
        .unwrap()
        .write(folder.path(), "tls")
        .unwrap();
    let served = served.signed_by(&valid);
    namespace.admit_by(&served, installed()).await;
    expect(wrong, "spec.userData.namespace: ").await;
    expect(right, "it is stored").await;
}

/// An object is the same to clients of both versions, whichever of them has written it last.
#[tokio::test]
async fn both_versions_show_the_same_object() {
    let namespace = served().await;
    let spec = "{controlPlaneEndpoint: {host: h, port: 6443}, failureDomains: {a: {controlPlane: true}}}";
    namespace.apply(&object("v1beta1", "Metal3Cluster", "c", spec)).await;
    let (old, new) = (
        namespace.api::<v1beta1::Metal3Cluster>(),
        namespace.api::<v1beta2::Metal3Cluster>(),
    );
    let both = async || {
        let (old, new) = (old.get("c").await.unwrap(), new.get("c").await.unwrap());
        assert_eq!(old.metadata.uid, new.metadata.uid);
        let (down, up) = (&old.spec, &new.spec);
        assert_eq!(down.control_plane_endpoint.host, up.control_plane_endpoint.host);
        let domains: Vec<_> = up.failure_domains.iter().map(|domain| &domain.name).collect();
        assert_eq!(domains, down.failure_domains.keys().collect::<Vec<_>>());
        (up.control_plane_endpoint.host.clone(), domains.len())
    };
    assert_eq!(both().await, ("h".to_owned(), 1));

    let params = PatchParams::default();
    let more = json!({"spec": {"failureDomains": [{"name": "a"}, {"name": "b"}]}});
    new.patch("c", &params, &Patch::Merge(&more)).await.unwrap();
    assert_eq!(both().await, ("h".to_owned(), 2));

    let host = json!({"spec": {"controlPlaneEndpoint": {"host": "other"}}});
    old.patch("c", &params, &Patch::Merge(&host)).await.unwrap();
    assert_eq!(both().await, ("other".to_owned(), 2));
}

const OLD_MACHINE: &str = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Machine, \
                           metadata: {generateName: m}, spec: {image: {url: 'https://e/i', checksum: a}}}";

/// Every write of v1beta1 is converted, defaulted and judged. A dry run is, too, and leaves the store alone.
pub async fn write(machines: Api<v1beta1::Metal3Machine>, machine: v1beta1::Metal3Machine) -> Result<(), kube::Error> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    machines.create(&params, &machine).await.map(|_| ())
}

async fn replicas() -> (Replicas, Api<v1beta1::Metal3Machine>) {
    let certificates = webhooks::installed::certificates(rbac::NAMESPACE);
    let rights = rbac::objects().base;
    let replicas = Replicas::start(webhooks::all, certificates, &rights, rbac::SERVICE_ACCOUNT).await;
    let machines = Api::namespaced(replicas.client.clone(), "default");
    (replicas, machines)
}

pub fn machine(url: &str) -> v1beta1::Metal3Machine {
    serde_saphyr::from_str(&OLD_MACHINE.replace("https://e/i", url)).unwrap()
}

/// The API server calls, and believes the answers.
pub async fn trusts(machines: &Api<v1beta1::Metal3Machine>) {
    eventually(DEADLINE, "the API server trusts the replica", async || {
        let right = write(machines.clone(), machine("https://e/i")).await;
        right.map_err(|error| error.to_string())?;
        // No definition has this rule.
        match write(machines.clone(), machine("no-uri")).await {
            Err(error) if error.to_string().contains("spec.image.url") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

// OWN 30d: rotation and the end of a replica cost calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cert_manager_the_leader_makes_certificates_that_every_replica_serves() {
    let (mut replicas, machines) = replicas().await;
    for replica in 0..2 {
        replicas.ask(replica).await;
        trusts(&machines).await;
    }
    replicas.expect_report_of_what_nobody_answers().await;
    replicas.mend_what_is_broken().await;
    replicas.ask_both().await;
    trusts(&machines).await;

    let request = || write(machines.clone(), machine("https://e/i"));
    replicas.renew_under_load(request).await;
    // The API server must trust the new authority before either replica serves its certificate.
    replicas.lose_secret_under_load(request).await;
    replicas.end_one_under_load(request).await;
    trusts(&machines).await;

    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate("cert-manager").unwrap();
    authority
        .server("webhooks", &[])
        .unwrap()
        .write(folder.path(), "tls")
        .unwrap();
    std::fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
    // OWN 31sg: replicas with certificates of different authorities could not be called at the same time.
    replicas.exchange_under_load(folder.path(), request).await;
    replicas.forget_own_certificate().await;
    replicas.exchange_under_load("/does/not/exist".as_ref(), request).await;
    trusts(&machines).await;
    replicas.expect_no_secrets().await;
}

/// A time beyond the years of our types, and managedFields deeper than our parser reads: the API server stores both.
#[tokio::test]
async fn an_object_that_our_types_do_not_hold_hides_no_other() {
    let namespace = served().await;
    for name in ["far", "near"] {
        let machine = new("Metal3Machine", name, "{image: {url: 'https://e/i', checksum: a}}");
        namespace.apply(&machine).await;
    }
    let machines = namespace.api::<v1beta2::Metal3Machine>();
    let write = async |part: &str, kind: &str, change: String| {
        let request = http::Request::patch(format!("{}/far{part}", machines.resource_url()));
        let request = request.header("Content-Type", kind).body(change.into_bytes()).unwrap();
        namespace.client.request_text(request).await.unwrap()
    };
    let late = json!({"status": {"lastUpdated": "9999-12-31T23:59:59Z"}});
    write("/status", "application/merge-patch+json", late.to_string()).await;
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
    let deep = format!(r#"[{{"op": "replace", "path": "/metadata/managedFields/0/fieldsV1", "value": {deep}}}]"#);
    let written = write("", "application/json-patch+json", deep).await;
    assert!(written.contains("9999-12-31T23:59:59Z"), "{written}");
    assert_eq!(written.matches("f:a").count(), 200, "{written}");

    let old = Readable::<v1beta1::Metal3Machine>::api(namespace.api::<v1beta1::Metal3Machine>(), &());
    let listed = old.list(&ListParams::default()).await.unwrap().items;
    let read = listed.iter().filter(|one| matches!(one, Readable::Read(_)));
    let names: Vec<_> = read.map(ResourceExt::name_any).collect();
    assert_eq!(names, ["far", "near"]);
    // It can be changed.
    let change = json!({"spec": {"providerID": "metal3://x"}});
    let written = write("", "application/merge-patch+json", change.to_string()).await;
    assert!(written.contains("metal3://x"), "{written}");
    // Only so can kube, with which tests look for leaks, list what is there.
    let shallow = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    write("", "application/json-patch+json", shallow.to_string()).await;
    let on_time = json!({"status": {"lastUpdated": "2026-01-01T00:00:00Z"}});
    write("/status", "application/merge-patch+json", on_time.to_string()).await;
}

/// Two VLANs with one number on different links; two routes to one network.
const REPEATED: &str = "links: {vlans: [{vlanID: 3, id: a, vlanLink: x, macAddress: {string: '52:54:00:12:34:56'}}, \
    {vlanID: 3, id: b, vlanLink: y, macAddress: {string: '52:54:00:12:34:57'}}]}, \
    networks: {ipv4DHCP: [{id: n, link: a, routes: [{network: 10.0.0.0, prefix: 8, gateway: {string: 192.0.2.1}}, \
    {network: 10.0.0.0, prefix: 9, gateway: {string: 192.0.2.2}}]}]}";

/// Parameters of a bond that are no structures, which are the only useful ones.
const PLAIN: &str = "links: {bonds: [{bondMode: 802.3ad, id: a, bondLinks: [x], macAddress: {string: '52:54:00:12:34:56'}, \
    parameters: {bond_miimon: 100, bond_lacp_rate: fast}}]}";

fn old_template(name: &str, network_data: &str) -> String {
    let spec = format!("{{clusterName: c, networkData: {{{network_data}}}}}");
    object("v1beta1", "Metal3DataTemplate", name, &spec)
}

// OWN 30t: a rule of the definition could not compare them, and refused every write, the provider's finalizer as well.
#[tokio::test]
async fn a_template_of_v1beta1_that_v1beta2_cannot_express_is_written_in_both() {
    let namespace = served().await;
    for (name, data) in [("repeated", REPEATED), ("plain", PLAIN)] {
        namespace.apply(&old_template(name, data)).await;
        let params = PatchParams::default();
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let old = namespace.api::<v1beta1::Metal3DataTemplate>();
        let new = namespace.api::<v1beta2::Metal3DataTemplate>();
        let before = old.get(name).await.unwrap().spec;
        old.patch(name, &params, &Patch::Merge(&label)).await.unwrap();
        let held = json!({"metadata": {"finalizers": ["metal3.io/test"]}});
        new.patch(name, &params, &Patch::Merge(&held)).await.unwrap();
        assert_eq!(old.get(name).await.unwrap().spec, before);
    }
    let other = json!({"spec": {"networkData": {"links": {"bonds": [{"bondMode": "802.3ad", "id": "a", "bondLinks": ["x"],
        "macAddress": {"string": "52:54:00:12:34:56"}, "parameters": {"bond_miimon": 200}}]}}}});
    let old = namespace.api::<v1beta1::Metal3DataTemplate>();
    let changed = old.patch("plain", &PatchParams::default(), &Patch::Merge(&other)).await;
    let refusal = changed.unwrap_err().to_string();
    assert!(refusal.contains("spec.networkData: cannot be changed"), "{refusal}");
}

#[tokio::test]
async fn plain_parameters_of_bonds_are_applied_again_after_a_write_in_v1beta2() {
    let namespace = served().await;
    let template = old_template("t", PLAIN);
    namespace.apply(&template).await;
    let held = json!({"metadata": {"finalizers": ["metal3.io/test"]}});
    let new = namespace.api::<v1beta2::Metal3DataTemplate>();
    let params = PatchParams::default();
    new.patch("t", &params, &Patch::Merge(&held)).await.unwrap();
    for _ in 0..2 {
        let applied = namespace.apply(&template).await;
        assert_eq!(
            applied[0].metadata.finalizers.as_deref(),
            Some(&["metal3.io/test".to_owned()][..])
        );
        let parameters = &applied[0].data["spec"]["networkData"]["links"]["bonds"][0]["parameters"];
        assert_eq!(parameters, &json!({"bond_miimon": 100, "bond_lacp_rate": "fast"}));
    }
}

/// Upstream's conversion stores zeros as absent, and an absent `fromBootMAC` as false.
#[tokio::test]
async fn a_manifest_of_v1beta1_that_upstream_stored_is_applied_again() {
    let namespace = served().await;
    let spec = |offset: &str, is_boot: &str, prefix: &str| {
        format!(
            "{{clusterName: c, metaData: {{indexes: [{{key: i, step: 1{offset}}}], \
             fromHostInterfaces: [{{key: m, interface: eth0{is_boot}}}]}}, networkData: {{networks: {{ipv4DHCP: [{{id: n, link: a, \
             routes: [{{network: 0.0.0.0, gateway: {{string: 192.0.2.1}}{prefix}}}]}}]}}}}}}"
        )
    };
    let stored = spec("", ", fromBootMAC: false", "");
    namespace.apply(&new("Metal3DataTemplate", "t", &stored)).await;
    let manifest = spec(", offset: 0", "", ", prefix: 0");
    for _ in 0..2 {
        namespace
            .apply(&object("v1beta1", "Metal3DataTemplate", "t", &manifest))
            .await;
    }
    let changed = spec(", offset: 1", "", ", prefix: 0");
    let changed = object("v1beta1", "Metal3DataTemplate", "t", &changed);
    namespace
        .expect_refused(&changed, "spec.metaData: cannot be changed")
        .await;
}

/// The API server would reject the second apply without saying what to do.
#[test]
fn entries_that_v1beta2_cannot_tell_apart_are_warned_of_at_once() {
    let template = metal3_testkit::parse(&old_template("t", REPEATED)).unwrap().remove(0);
    let template = serde_json::to_value(template).unwrap();
    let template = metal3_api::infra::convert(template, "infrastructure.cluster.x-k8s.io/v1beta2").unwrap();
    let kind = json!({"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta2", "kind": "Metal3DataTemplate"});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "kind": kind,
        "resource": {"group": "", "version": "", "resource": ""}, "name": "t", "operation": "CREATE", "userInfo": {},
        "object": template}});
    let path = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3datatemplate";
    let (_, answer) = webhooks::all().answer(path, review.to_string().into()).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let warnings: Vec<_> = answer["response"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    let starts = [
        "spec.clusterName: is deprecated",
        "spec.networkData.links.vlans[1].vlanID: 3 is used twice",
        "spec.networkData.networks.ipv4DHCP[0].routes[1].network: 10.0.0.0 is used twice",
    ];
    assert_eq!(warnings.len(), starts.len(), "{answer}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start) && warning.len() <= 256, "{warning}");
    }
    assert_eq!(answer["response"]["allowed"], true);
}
