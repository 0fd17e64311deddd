//! Every flag and variable of upstream, as a Deployment sets them: the program accepts them, or says what is wrong.
//!
//! Each row runs the program with a kubeconfig that does not exist: whoever comes so far has accepted everything.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use std::process::Command;

/// How the program ended, in its words.
fn end(env: &[(&str, &str)], args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baremetal-operator"));
    command
        .env_clear()
        .env("LOG_DEV", "true")
        .env("METAL3_AUTH_ROOT_DIR", "/does/not/exist");
    command.envs(env.iter().copied()).args(args);
    let output = command.arg("--kubeconfig=/does/not/exist").output().unwrap();
    assert!(!output.status.success());
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    format!("{out}{err}")
}

const ENDPOINT: (&str, &str) = ("IRONIC_ENDPOINT", "http://ironic:6385/v1/");

fn accepted(env: &[(&str, &str)], args: &[&str]) -> String {
    let mut all = vec![ENDPOINT];
    all.extend(env);
    let words = end(&all, args);
    assert!(
        words.contains("cannot use kubeconfig /does/not/exist"),
        "{env:?} {args:?}: {words}"
    );
    words
}

fn refused(env: &[(&str, &str)], args: &[&str], part: &str) {
    let mut all = vec![ENDPOINT];
    all.extend(env);
    let words = end(&all, args);
    assert!(words.contains(part), "{env:?} {args:?}: {words}");
    assert!(
        !words.contains("cannot use kubeconfig"),
        "{env:?} {args:?} is accepted: {words}"
    );
}

#[test]
fn every_flag_of_upstream_is_accepted_with_one_dash_and_two() {
    let flags = [
        "namespace=a,b",
        "metrics-addr=127.0.0.1:0",
        "health-addr=127.0.0.1:0",
        "webhook-port=9443",
        "enable-leader-election",
        "enable-leader-election=false",
        "build-preprov-image=false",
        "hostclaims=true",
        "provisioner=ironic",
        "dev",
        "kube-api-qps=20",
        "kube-api-burst=30",
        "controller-concurrency=0",
        "max-provisioning-retries=5",
        "tls-min-version=TLS12",
        "tls-max-version=TLS13",
        "tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "tls-curve-preferences=X25519, CurveP256",
        "lease-duration-seconds=15",
        "renew-deadline-seconds=10",
        "retry-period-seconds=2",
    ];
    let all = |dashes: &str| flags.iter().map(|flag| format!("{dashes}{flag}")).collect::<Vec<_>>();
    for dashes in ["-", "--"] {
        // One flag twice would be an error of its own.
        let args = all(dashes);
        let args: Vec<_> = args
            .iter()
            .map(String::as_str)
            .filter(|a| !a.ends_with("election=false"))
            .collect();
        accepted(&[], &args);
    }
    accepted(&[], &["--enable-leader-election=false"]);
}

/// Names and values as in upstream's ConfigMap, and every other variable it reads.
const VARIABLES: [(&str, &str); 40] = [
    ("WATCH_NAMESPACE", "metal3"),
    ("POD_NAMESPACE", "system"),
    ("POD_NAME", "pod"),
    ("BMO_CONCURRENCY", "4"),
    ("LEASE_DURATION_SECONDS", "15"),
    ("RENEW_DEADLINE_SECONDS", "10"),
    ("RETRY_PERIOD_SECONDS", "2"),
    ("PROVISIONER_PLUGIN_DIR", "/plugins"),
    ("IRONIC_NETWORKING_ENABLED", "false"),
    ("IRONIC_SWITCH_CONFIGS_SECRET", "a"),
    ("IRONIC_SWITCH_CREDENTIALS_SECRET", "b"),
    ("IRONIC_SWITCH_CREDENTIALS_PATH", "/c"),
    ("IRONIC_NAMESPACE", "ironic"),
    ("IRONIC_CACERT_FILE", "/does/not/exist"),
    ("IRONIC_CLIENT_CERT_FILE", "/does/not/exist"),
    ("IRONIC_CLIENT_PRIVATE_KEY_FILE", "/does/not/exist"),
    ("IRONIC_INSECURE", "True"),
    ("IRONIC_SKIP_CLIENT_SAN_VERIFY", "TRUE"),
    ("IRONIC_CLIENT_CACHE_TTL", "0"),
    ("IRONIC_CLIENT_TIMEOUT", "1m30s"),
    ("METAL3_AUTH_ROOT_DIR", "/does/not/exist"),
    ("DEPLOY_KERNEL_URL", "http://images/kernel"),
    ("DEPLOY_RAMDISK_URL", "http://images/initrd"),
    ("DEPLOY_ISO_URL", "http://images/iso"),
    ("DEPLOY_KERNEL_URL_AARCH64", "http://images/kernel"),
    ("DEPLOY_RAMDISK_URL_AARCH64", "http://images/initrd"),
    ("DEPLOY_ISO_URL_AARCH64", "http://images/iso"),
    ("DEPLOY_KERNEL_BY_ARCH", "aarch64:http://images/kernel"),
    ("DEPLOY_RAMDISK_BY_ARCH", "aarch64:http://images/initrd"),
    ("DEPLOY_ISO_BY_ARCH", "aarch64:http://images/iso"),
    ("PROVISIONING_LIMIT", "20"),
    ("LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE", "Never"),
    ("DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE", "Always"),
    ("IRONIC_EXTERNAL_URL_V6", "https://[fd00::1]:6180"),
    ("PROVISIONING_NETWORK_DISABLED", "true"),
    ("HTTP_PORT", "6180"),
    ("PROVISIONING_INTERFACE", "eth2"),
    ("DHCP_RANGE", "192.0.2.10,192.0.2.100"),
    ("CACHEURL", "http://images"),
    ("IRONIC_NAME", "ironic"),
];

#[test]
fn every_variable_of_upstream_is_accepted_together_alone_and_empty() {
    let words = accepted(&VARIABLES, &[]);
    for said in [
        "Ironic ironic/ironic tells where Ironic is",
        "IRONIC_SKIP_CLIENT_SAN_VERIFY has no effect",
    ] {
        assert!(words.contains(said), "{said}: {words}");
    }
    let empty: Vec<_> = VARIABLES.iter().map(|(name, _)| (*name, "")).collect();
    let words = accepted(&empty, &[]);
    assert!(!words.contains("no effect"), "{words}");
    for variable in VARIABLES {
        // These two only come together.
        if !["DEPLOY_KERNEL_URL", "DEPLOY_RAMDISK_URL"].contains(&variable.0) {
            accepted(&[variable], &[]);
        }
    }
}

#[test]
fn ramdisks_for_each_host_can_be_asked_for() {
    accepted(&[], &["--build-preprov-image"]);
    let [kernel, ramdisk] = [
        ("DEPLOY_KERNEL_URL", "http://images/kernel"),
        ("DEPLOY_RAMDISK_URL", "http://images/initrd"),
    ];
    accepted(&[kernel], &["--build-preprov-image"]);
    refused(&[ramdisk], &["--build-preprov-image"], "only DEPLOY_RAMDISK_URL is set");
}

#[test]
fn what_upstream_refuses_is_refused_with_the_name_of_the_setting() {
    for (env, part) in [
        (("PROVISIONING_LIMIT", "many"), "PROVISIONING_LIMIT"),
        (("BMO_CONCURRENCY", "many"), "bmo-concurrency"),
        (("IRONIC_CLIENT_TIMEOUT", "0"), "ironic-client-timeout"),
        (("IRONIC_CLIENT_CACHE_TTL", "-3s"), "ironic-client-cache-ttl"),
        (
            ("LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE", "Sometimes"),
            "live-iso-force-persistent-boot-device",
        ),
        (
            ("DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE", "Sometimes"),
            "direct-deploy-force-persistent-boot-device",
        ),
        (("IRONIC_NETWORKING_ENABLED", "maybe"), "ironic-networking-enabled"),
        (
            ("IRONIC_NETWORKING_ENABLED", "true"),
            "IRONIC_SWITCH_CONFIGS_SECRET is not set",
        ),
        (("IRONIC_EXTERNAL_URL_V6", "no url"), "ironic-external-url-v6"),
        (("DEPLOY_KERNEL_URL", "http://images/kernel"), "must be set together"),
        (("STATE_BUDGETS", "available=1h"), "state-budgets"),
        (("LEASE_DURATION_SECONDS", "70000"), "lease-duration-seconds"),
        (
            ("IRONIC_CLIENT_CERT_FILE", "/dev/null"),
            "a client certificate needs its key",
        ),
    ] {
        let part = if part == "PROVISIONING_LIMIT" {
            "provisioning-limit"
        } else {
            part
        };
        refused(&[env], &[], part);
    }
    for (flag, part) in [
        ("--max-provisioning-retries=-1", "max-provisioning-retries"),
        ("--controller-concurrency=-1", "controller-concurrency"),
        (
            "--provisioner=fixture",
            "--provisioner=fixture is not part of this program",
        ),
        ("--provisioner=acme", "plugins in /plugins cannot be loaded"),
        ("--provisioner=../x", "lower-case letters"),
    ] {
        refused(&[], &[flag], part);
    }
}

#[test]
fn credentials_that_cannot_be_used_are_told_with_their_file() {
    let root = tempfile::tempdir().unwrap();
    let files = root.path().join("ironic");
    std::fs::create_dir(&files).unwrap();
    let env = [("METAL3_AUTH_ROOT_DIR", root.path().to_str().unwrap())];
    // As the kubelet mounts an optional Secret that does not exist.
    let words = accepted(&env, &[]);
    assert!(!words.contains("cannot be used"), "{words}");
    std::fs::write(files.join("username"), "metal3").unwrap();
    let words = accepted(&env, &[]);
    assert!(
        words.contains("ironic/password cannot be read: No such file"),
        "{words}"
    );
    std::fs::write(files.join("password"), "\n").unwrap();
    let words = accepted(&env, &[]);
    assert!(words.contains("ironic/password is empty"), "{words}");
    std::fs::write(files.join("password"), "correct-horse\n").unwrap();
    let words = accepted(&env, &[]);
    assert!(
        !words.contains("cannot be used") && !words.contains("correct-horse"),
        "{words}"
    );
}

#[test]
fn without_an_address_of_ironic_the_program_says_what_to_set() {
    let words = end(&[], &[]);
    assert!(words.contains("IRONIC_ENDPOINT is not set"), "{words}");
    let words = end(&[("IRONIC_NAME", "ironic")], &[]);
    assert!(words.contains("set IRONIC_NAMESPACE or POD_NAMESPACE"), "{words}");
    for namespace in ["IRONIC_NAMESPACE", "POD_NAMESPACE", "WATCH_NAMESPACE"] {
        let words = end(&[("IRONIC_NAME", "ironic"), (namespace, "metal3")], &[]);
        assert!(words.contains("Ironic metal3/ironic tells where Ironic is"), "{words}");
        assert!(words.contains("cannot use kubeconfig"), "accepted: {words}");
    }
    let words = accepted(&[("IRONIC_NAME", "ironic")], &[]);
    assert!(words.contains("IRONIC_NAME does not count"), "{words}");
}
