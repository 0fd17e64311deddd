use super::*;
use rstest::rstest;

fn args(min: TlsVersion, max: TlsVersion, suites: &str, curves: &str) -> TlsArgs {
    TlsArgs {
        tls_min_version: min,
        tls_max_version: max,
        tls_cipher_suites: suites.into(),
        tls_curve_preferences: curves.into(),
    }
}

fn both(suites: &str, curves: &str) -> TlsArgs {
    args(TlsVersion::Tls12, TlsVersion::Tls13, suites, curves)
}

const RSA: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";

#[rstest]
#[case(both("", ""), 9, 3)]
#[case(both(RSA, "CurveP384, X25519"), 4, 2)]
#[case(both("TLS_RSA_WITH_RC4_128_SHA", "X25519MLKEM768,CurveP256"), 3, 1)]
#[case(both("TLS_AES_128_GCM_SHA256", ""), 3, 3)]
#[case(args(TlsVersion::Tls12, TlsVersion::Tls12, RSA, ""), 1, 3)]
#[case(args(TlsVersion::Tls13, TlsVersion::Tls13, "ignored", ""), 9, 3)]
fn flags_become_a_policy(#[case] args: TlsArgs, #[case] suites: usize, #[case] groups: usize) {
    let policy = Policy::from_args(&args).unwrap();
    assert_eq!(policy.provider.cipher_suites.len(), suites);
    assert_eq!(policy.provider.kx_groups.len(), groups);
    let versions = usize::from(args.tls_min_version != args.tls_max_version) + 1;
    assert_eq!(policy.versions.len(), versions);
}

#[rstest]
#[case(args(TlsVersion::Tls13, TlsVersion::Tls12, "", ""), "newer than")]
#[case(both("TLS_WITH_MAGIC", ""), "TLS_WITH_MAGIC")]
#[case(both("", "CurveP1"), "CurveP1")]
#[case(both("", "CurveP521"), "--tls-curve-preferences: none")]
#[case(
    args(TlsVersion::Tls12, TlsVersion::Tls12, "TLS_RSA_WITH_RC4_128_SHA", ""),
    "--tls-cipher-suites: none"
)]
fn what_cannot_be_served_is_named(#[case] args: TlsArgs, #[case] part: &str) {
    let error = Policy::from_args(&args).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn files_replace_the_self_signed_certificate_and_broken_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let policy = Policy::from_args(&both("", "")).unwrap();
    let mut certificate = Certificate::load(policy.clone(), directory.path()).unwrap();
    let self_signed = certificate.server_config().get_inner();
    assert!(!certificate.refresh().unwrap());

    let made = rcgen::generate_simple_self_signed(["metrics".to_owned()]).unwrap();
    std::fs::write(directory.path().join("tls.crt"), made.cert.pem()).unwrap();
    let error = certificate.refresh().unwrap_err().to_string();
    assert!(error.ends_with("tls.key"), "{error}");
    std::fs::write(directory.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    assert!(certificate.refresh().unwrap());
    assert!(!certificate.refresh().unwrap());
    let served = certificate.server_config().get_inner();
    assert!(!Arc::ptr_eq(&served, &self_signed));
    Certificate::load(policy, directory.path()).unwrap();

    let authority = certificate.authority();
    for (content, read) in [("", None), ("old", Some("old")), ("new", Some("new"))] {
        std::fs::write(directory.path().join("ca.crt"), content).unwrap();
        certificate.refresh().unwrap();
        assert_eq!(authority.borrow().as_deref(), read);
    }

    std::fs::write(directory.path().join("tls.key"), "broken").unwrap();
    certificate.refresh().unwrap_err();
    assert!(Arc::ptr_eq(&served, &certificate.server_config().get_inner()));
}
