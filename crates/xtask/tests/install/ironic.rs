//! The Ironic that the chart deploys, as its templates have it. `tests/tests/containers.rs` runs it.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Tool, kinds, objects};

/// Values without which none is deployed.
const REQUIRED: &str = "image.registry=registry.example.org/metal3,ironic.deploy.enabled=true,\
    ironic.deployKernelUrl=http://images.example.org/kernel,ironic.deployRamdiskUrl=http://images.example.org/ramdisk";

/// Values with which it is reached by a Service.
const BY_SERVICE: &str = "ironic.deploy.hostNetwork=false,ironic.deploy.address=192.0.2.7,ironic.deploy.service.type=NodePort,\
    ironic.deploy.service.nodePorts.api=30385,ironic.deploy.service.nodePorts.images=30180";

const CHART: [&str; 7] = [
    "m",
    "charts/metal3",
    "--namespace",
    "elsewhere",
    "--set",
    REQUIRED,
    "--set",
];

async fn render(helm: &Tool, values: &str) -> Vec<DynamicObject> {
    objects(
        &helm
            .expect(&[&["template"], CHART.as_slice(), &[values]].concat())
            .await,
    )
}

fn find(objects: &[DynamicObject], kind: &str, name: &str) -> Option<Value> {
    let found = |object: &&DynamicObject| object.types.clone().unwrap().kind == kind && object.name_any() == name;
    objects.iter().find(found).map(|object| json!(object))
}

fn get(objects: &[DynamicObject], kind: &str, name: &str) -> Value {
    find(objects, kind, name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn pod(objects: &[DynamicObject]) -> Value {
    get(objects, "StatefulSet", "ironic")["spec"]["template"]["spec"].clone()
}

/// What an environment variable of Ironic's own container is.
fn variable(pod: &Value, name: &str) -> Value {
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let variable = env.iter().find(|variable| variable["name"] == name).unwrap();
    variable["value"].clone()
}

/// The ConfigMap with authorities.
fn authorities(objects: &[DynamicObject]) -> Option<Value> {
    let pod = pod(objects);
    let mut volumes = pod["volumes"].as_array().unwrap().iter();
    volumes
        .find(|volume| volume["name"] == "authorities")
        .map(|volume| volume["configMap"].clone())
}

fn volume<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let volumes = pod["volumes"].as_array().unwrap();
    volumes.iter().find(|volume| volume["name"] == name).unwrap()
}

#[tokio::test]
async fn what_contradicts_itself_is_named() {
    let helm = Tool::helm(None).await;
    helm.expect(&["lint", "charts/metal3", "--strict", "--set", REQUIRED])
        .await;
    helm.expect(&[
        "lint",
        "charts/metal3",
        "--strict",
        "--set",
        REQUIRED,
        "--set",
        BY_SERVICE,
    ])
    .await;
    for (wrong, named) in [
        ("ironic.endpoint=https://i:6385/v1/", "ironic.endpoint"),
        ("ironic.resource.name=i", "ironic.resource.name exclude each other"),
        ("ironic.insecure=true", "ironic.insecure"),
        (
            "ironic.deployKernelUrl=,ironic.deployRamdiskUrl=",
            "ironic.deployKernelUrl and ironic.deployRamdiskUrl, or ironic.deployIsoUrl",
        ),
        ("ironic.deploy.hostNetwork=false", "ironic.deploy.service.type"),
        (
            "ironic.deploy.hostNetwork=false,ironic.deploy.service.type=LoadBalancer",
            "ironic.deploy.address",
        ),
        (
            "ironic.deploy.service.type=NodePort",
            "ironic.deploy.service.nodePorts.api",
        ),
        (
            "ironic.deploy.ports.images=6385",
            "ironic.deploy.ports.images must differ",
        ),
        (
            "ironic.deploy.tls.verifiedByRamdisk=true",
            "ironic.deploy.address or ironic.deploy.tls.names",
        ),
        (
            "ironic.deployKernelUrl=,ironic.deployRamdiskUrl=,ironic.deployIsoUrl=http://images.example.org/iso",
            "ironic.deployIsoUrl needs ironic.deploy.address",
        ),
        ("ironic.deploy.ports.api=80", "/ironic/deploy/ports/api"),
        ("ironic.deploy.address=https://192.0.2.1", "/ironic/deploy/address"),
        ("ironic.deploy.address=192.0.2.1:6385", "/ironic/deploy/address"),
        ("ironic.deploy.service.type=Ingress", "/ironic/deploy/service/type"),
        ("ironic.deploy.storage.size=much", "/ironic/deploy/storage/size"),
        ("ironic.deploy.replicas=2", "replicas"),
        ("ironic.deploy.image=a b", "/ironic/deploy/image"),
    ] {
        let error = helm
            .refused(&[&["template"], CHART.as_slice(), &[wrong]].concat())
            .await;
        assert!(error.contains(named), "{wrong:?}: no {named:?} in\n{error}");
    }
}

#[tokio::test]
async fn the_operator_follows_what_is_deployed() {
    let helm = Tool::helm(None).await;
    let usual = render(&helm, "ipam.enabled=true").await;
    let configuration = &get(&usual, "ConfigMap", "ironic")["data"];
    assert_eq!(
        configuration["IRONIC_ENDPOINT"],
        "https://ironic.elsewhere.svc:6385/v1/"
    );
    let of_operator = |objects: &[DynamicObject]| {
        let deployment = get(objects, "Deployment", "baremetal-operator-controller-manager");
        deployment["spec"]["template"]["spec"].clone()
    };
    let operator = of_operator(&usual);
    let (auth, ca) = (volume(&operator, "ironic-auth"), volume(&operator, "ironic-ca"));
    assert_eq!(auth["secret"]["secretName"], "ironic-credentials");
    assert_eq!(ca["secret"]["secretName"], "ironic-tls");
    assert_eq!(
        ca["secret"]["items"],
        json!([{"key": "ca.crt", "path": "tls.crt"}]),
        "without the key"
    );
    let secret = get(&usual, "Secret", "ironic-credentials");
    assert_eq!(secret["data"]["username"], "aXJvbmlj");
    assert!(secret["data"]["password"].as_str().unwrap().len() > 40);
    let ironic = pod(&usual);
    assert_eq!(volume(&ironic, "auth")["secret"]["secretName"], "ironic-credentials");
    assert_eq!(volume(&ironic, "certs")["secret"]["secretName"], "ironic-tls");

    let given = "ironic.credentialsSecret=mine,ironic.caSecret=ours,ironic.deploy.tls.secret=theirs";
    let given = render(&helm, given).await;
    for made in ["ironic-credentials", "ironic-tls"] {
        assert_eq!(find(&given, "Secret", made), None);
    }
    let (operator, ironic) = (of_operator(&given), pod(&given));
    assert_eq!(volume(&operator, "ironic-auth")["secret"]["secretName"], "mine");
    assert_eq!(volume(&operator, "ironic-ca")["secret"]["secretName"], "ours");
    assert_eq!(volume(&operator, "ironic-ca")["secret"]["items"], Value::Null);
    assert_eq!(volume(&ironic, "auth")["secret"]["secretName"], "mine");
    assert_eq!(volume(&ironic, "certs")["secret"]["secretName"], "theirs");

    let managed = render(&helm, "certificates=cert-manager,ironic.deploy.address=192.0.2.7").await;
    assert_eq!(find(&managed, "Secret", "ironic-tls"), None);
    let certificate = &get(&managed, "Certificate", "ironic")["spec"];
    assert_eq!(certificate["secretName"], "ironic-tls");
    assert_eq!(certificate["issuerRef"]["name"], "ironic-ca");
    assert_eq!(certificate["ipAddresses"], json!(["192.0.2.7"]));
    assert_eq!(certificate["dnsNames"][0], "ironic.elsewhere.svc");
    assert_eq!(
        get(&managed, "Issuer", "ironic-ca")["spec"]["ca"]["secretName"],
        "ironic-ca"
    );
    assert_eq!(get(&managed, "Certificate", "ironic-ca")["spec"]["isCA"], true);
}

#[tokio::test]
async fn its_address_and_its_privileges_follow_the_network() {
    let helm = Tool::helm(None).await;
    let on_node = render(&helm, "ironic.deploy.ports.api=6386").await;
    let ironic = pod(&on_node);
    assert_eq!(ironic["hostNetwork"], true);
    assert_eq!(ironic["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(variable(&ironic, "OS_DEPLOY__HTTP_URL"), "https://$(HOST_IP):6180");
    assert_eq!(
        variable(&ironic, "OS_SERVICE_CATALOG__ENDPOINT_OVERRIDE"),
        "https://$(HOST_IP):6386"
    );
    assert_eq!(get(&on_node, "Service", "ironic")["spec"]["type"], "ClusterIP");
    let named = render(
        &helm,
        "ironic.deploy.address=2001:db8::7,ironic.deploy.tls.images=false",
    )
    .await;
    assert_eq!(
        variable(&pod(&named), "OS_DEPLOY__HTTP_URL"),
        "http://[2001:db8::7]:6180"
    );
    let of_certificate = &get(&named, "Secret", "ironic-tls")["metadata"]["annotations"]["metal3.io/names"];
    assert!(
        of_certificate.as_str().unwrap().ends_with(",2001:db8::7"),
        "{of_certificate}"
    );

    let by_service = render(&helm, BY_SERVICE).await;
    let ironic = pod(&by_service);
    assert_eq!(ironic["hostNetwork"], Value::Null);
    assert_eq!(variable(&ironic, "OS_DEPLOY__HTTP_URL"), "https://192.0.2.7:30180");
    assert_eq!(
        variable(&ironic, "OS_SERVICE_CATALOG__ENDPOINT_OVERRIDE"),
        "https://192.0.2.7:30385"
    );
    let service = &get(&by_service, "Service", "ironic")["spec"];
    assert_eq!(
        (&service["type"], &service["ports"][0]["nodePort"]),
        (&json!("NodePort"), &json!(30385))
    );
    // What Pod Security `restricted` asks for.
    let containers = [&ironic["initContainers"], &ironic["containers"]];
    let containers: Vec<_> = containers.iter().flat_map(|list| list.as_array().unwrap()).collect();
    assert_eq!(containers.len(), 3);
    for container in containers {
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(
            container["image"],
            format!("registry.example.org/metal3/ironic:v{}", env!("CARGO_PKG_VERSION"))
        );
    }
    assert_eq!(ironic["securityContext"]["runAsNonRoot"], true);
    assert_eq!(ironic["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
}

#[tokio::test]
async fn each_value_of_an_ironic_changes_what_is_deployed() {
    let helm = Tool::helm(None).await;
    // The second is what `helm upgrade --reuse-values` has of a release from before there was one.
    for none in ["ironic.deploy.enabled=false", "ironic.deploy=null"] {
        let none = format!("{none},ironic.endpoint=https://i:6385/v1/");
        assert_eq!(kinds(&render(&helm, &none).await, "StatefulSet"), 0);
    }
    let usual = render(&helm, "ipam.enabled=true").await;
    assert_eq!((kinds(&usual, "StatefulSet"), kinds(&usual, "NetworkPolicy")), (1, 4));
    let claim = get(&usual, "PersistentVolumeClaim", "ironic");
    assert_eq!(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert_eq!(claim["spec"]["storageClassName"], Value::Null);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");

    let tuned = "ironic.deploy.storage.size=1Ti,ironic.deploy.storage.storageClass=fast,ironic.deploy.image=i.example.org/i:1,\
        ironic.deploy.kernelParams=a=1,ironic.deploy.nodeSelector.a=b,ironic.deploy.resources.limits.memory=1Gi,\
        ironic.deploy.priorityClassName=p,networkPolicy.enabled=false,image.pullSecrets={s},ironic.deploy.tolerations[0].key=k";
    let tuned = render(&helm, tuned).await;
    assert_eq!(kinds(&tuned, "NetworkPolicy"), 0);
    let claim = &get(&tuned, "PersistentVolumeClaim", "ironic")["spec"];
    assert_eq!(claim["storageClassName"], "fast");
    let ironic = pod(&tuned);
    assert_eq!(ironic["containers"][0]["image"], "i.example.org/i:1");
    assert_eq!(ironic["containers"][0]["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(ironic["nodeSelector"], json!({"a": "b"}));
    assert_eq!(ironic["priorityClassName"], "p");
    assert_eq!(ironic["imagePullSecrets"], json!([{"name": "s"}]));
    assert_eq!(ironic["tolerations"][2]["key"], "k");
    let settings = get(&tuned, "ConfigMap", "ironic-config")["data"]["ironic.conf"].clone();
    let of_ramdisks = |settings: &Value, end: &str| {
        let text = settings.as_str().unwrap();
        let lines = text.lines().filter(|line| line.starts_with("kernel_append_params ="));
        assert_eq!(lines.clone().count(), 2, "of iPXE and of virtual media");
        assert!(
            lines.clone().all(|line| line.ends_with(end)),
            "{end}: {:?}",
            lines.collect::<Vec<_>>()
        );
    };
    of_ramdisks(&settings, "forward_to_console=yes ipa-insecure=1 a=1");
    let checked =
        "ironic.deploy.kernelParams=a=1,ironic.deploy.tls.verifiedByRamdisk=true,ironic.deploy.address=192.0.2.7";
    let checked = get(&render(&helm, checked).await, "ConfigMap", "ironic-config")["data"]["ironic.conf"].clone();
    of_ramdisks(&checked, "forward_to_console=yes a=1");

    assert_eq!(authorities(&usual), None);
    let trusting = render(&helm, "ironic.deploy.tls.authorities=bmcs").await;
    assert_eq!(authorities(&trusting), Some(json!({"name": "bmcs"})));
    let prepare = &pod(&trusting)["initContainers"][0]["volumeMounts"];
    let mount = json!({"name": "authorities", "mountPath": "/authorities", "readOnly": true});
    assert!(prepare.as_array().unwrap().contains(&mount), "{prepare}");

    let existing = render(&helm, "ironic.deploy.storage.existingClaim=mine").await;
    assert_eq!(kinds(&existing, "PersistentVolumeClaim"), 0);
    let claimed = volume(&pod(&existing), "data")["persistentVolumeClaim"].clone();
    assert_eq!(claimed["claimName"], "mine");

    // More lines are read after the others, and make a new pod.
    let sum = |objects: &[DynamicObject]| {
        let set = get(objects, "StatefulSet", "ironic");
        set["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    let more = render(&helm, "ironic.deploy.extraConfig=[conductor]\nautomated_clean = false").await;
    let files = get(&more, "ConfigMap", "ironic-config")["data"].clone();
    assert_eq!(files["zz-extra.conf"], "[conductor]\nautomated_clean = false\n");
    let last = files
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| name.contains(".conf"))
        .max();
    assert_eq!(last.unwrap(), "zz-extra.conf");
    assert_ne!(sum(&more), sum(&usual));
    assert_eq!(sum(&existing), sum(&usual));
}
