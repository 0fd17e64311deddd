//! Ironic is announced by a resource, over https: what its Secrets say is followed, also when it changes.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_lab::ironic::IronicConfig;
use metal3_lab::pki::Name;
use metal3_scenarios::{TestEnv, Tunnel, announced, id, is_at_rest, run, status, waits, waits_for_nothing};
use metal3_testkit::namespace;
use serde_json::json;

const CREDENTIALS: &str = "ironic-api";
const CERTIFICATE: &str = "ironic-tls";

/// A Secret as cert-manager writes it, with the certificate that Ironic has from its next start on.
fn certificate(env: &TestEnv) -> String {
    let read = |name: &str| std::fs::read_to_string(env.ironic.folder().join("tls").join(name)).unwrap();
    let pair = json!({"tls.crt": read("server.crt"), "tls.key": read("server.key")});
    let kind = "kubernetes.io/tls";
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CERTIFICATE}, "type": kind, "stringData": pair})
        .to_string()
}

/// Ironic starts again with a certificate of an authority that is not trusted yet, for the name of its Service.
async fn exchange(env: &TestEnv) {
    let name = Name::Dns(format!("{}.{}.svc", announced::NAME, env.namespace.name));
    env.ironic.stop_ironic().await;
    env.ironic.exchange_authority(&[name]).unwrap();
    env.ironic.start_ironic().await.unwrap();
}

#[test]
fn certificate_and_password_are_those_of_the_secrets_at_any_time() {
    run(async {
        let mut env = TestEnv::without_operator(namespace!().await, IronicConfig::default()).await;
        env.namespace.apply(&certificate(&env)).await;
        exchange(&env).await;
        let endpoint = env.ironic.endpoint();
        let (_, port) = endpoint.rsplit_once(':').unwrap();
        let tunnel = Tunnel::to(port.parse().unwrap()).await;
        announced::follow(&mut env.config, &env.namespace, tunnel.url());
        announced::define(&env.namespace).await;
        let user = env.ironic.credentials().expect("Ironic does not take anybody");
        let keys = |password| [("username", user.username.as_str()), ("password", password)];
        env.apply_secret(CREDENTIALS, &keys("wrong")).await;
        let spec = json!({"apiCredentialsName": CREDENTIALS, "tls": {"certificateName": CERTIFICATE}});
        announced::apply(&env.namespace, &spec).await;
        announced::say(&env.namespace, "True", 1).await;
        env.start_operator().await;

        let name = env.apply_host(0, |_| {}).await;
        let host = env.expect_waiting(&name, "IronicUnreachable", &["certificate"]).await;
        println!("{}", waits(&host, "IronicUnreachable").unwrap());
        env.namespace.apply(&certificate(&env)).await;
        env.expect_waiting(&name, "IronicUnauthorized", &[]).await;
        assert!(env.nodes().await.is_empty());
        env.apply_secret(CREDENTIALS, &keys(&user.password)).await;
        let host = env.expect_state(&name, ProvisioningState::Available).await;
        let node = id(&host);
        env.expect(&name, "is at rest", is_at_rest).await;

        exchange(&env).await;
        env.patch(&name, json!({"spec": {"online": false}})).await;
        env.expect_waiting(&name, "IronicUnreachable", &["certificate"]).await;
        assert!(env.machine(0).await.is_on);
        env.namespace.apply(&certificate(&env)).await;
        let is_off = |host: &BareMetalHost| !status(host).powered_on && waits_for_nothing(host);
        let host = env.expect(&name, "is off", is_off).await;
        assert!(!env.machine(0).await.is_on);
        assert_eq!(id(&host), node);
        assert_eq!(
            tunnel.asked(),
            [format!("{}.{}.svc:443", announced::NAME, env.namespace.name)]
        );
    });
}
