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

/// Some certificate of this name.
fn pem(name: &str) -> String {
    rcgen::generate_simple_self_signed([name.to_owned()])
        .unwrap()
        .cert
        .pem()
}

/// Writes a certificate and its key.
fn write(directory: &Path) {
    let made = rcgen::generate_simple_self_signed(["metrics".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
}

#[tokio::test]
async fn files_replace_the_self_signed_certificate_and_broken_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let policy = Policy::from_args(&both("", "")).unwrap();
    let mut certificate = Certificate::load(policy.clone(), directory.path()).unwrap();
    let self_signed = certificate.server_config().get_inner();
    assert!(!certificate.refresh(None).await.unwrap());

    write(directory.path());
    let key = std::fs::read(directory.path().join("tls.key")).unwrap();
    std::fs::remove_file(directory.path().join("tls.key")).unwrap();
    let error = certificate.refresh(None).await.unwrap_err().to_string();
    assert!(error.ends_with("tls.key"), "{error}");
    std::fs::write(directory.path().join("tls.key"), key).unwrap();
    assert!(certificate.refresh(None).await.unwrap());
    assert!(!certificate.refresh(None).await.unwrap());
    let served = certificate.server_config().get_inner();
    assert!(!Arc::ptr_eq(&served, &self_signed));
    Certificate::load(policy, directory.path()).unwrap();

    let offer = certificate.offer();
    let authorities = || offer.borrow().as_ref().unwrap().authorities.clone();
    let [old, new] = ["old", "new"].map(pem);
    // What has no certificate names no authority.
    for (content, is_read) in [("", false), ("\n", false), (old.as_str(), true), (new.as_str(), true)] {
        std::fs::write(directory.path().join("ca.crt"), content).unwrap();
        certificate.refresh(None).await.unwrap();
        assert_eq!(authorities().as_deref(), is_read.then_some(content));
    }

    // OWN 31si: the authority of files that cannot be served was written to what calls, which then trusted nobody.
    std::fs::write(directory.path().join("ca.crt"), pem("of the broken")).unwrap();
    std::fs::write(directory.path().join("tls.key"), "broken").unwrap();
    certificate.refresh(None).await.unwrap_err();
    assert!(Arc::ptr_eq(&served, &certificate.server_config().get_inner()));
    assert_eq!(authorities(), Some(new));
}

// OWN 31sj: a certificate of another authority was served before anything trusted that authority.
#[tokio::test(start_paused = true)]
async fn a_new_certificate_is_served_when_it_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let policy = Policy::from_args(&both("", "")).unwrap();
    let mut certificate = Certificate::load(policy, directory.path()).unwrap();
    let (config, mut offer) = (certificate.server_config(), certificate.offer());
    let old = config.get_inner();
    let (trusting, mut trusted) = watch::channel(offer.borrow().clone());

    write(directory.path());
    std::fs::write(directory.path().join("ca.crt"), pem("new")).unwrap();
    let served = async {
        // Offered first.
        offer.changed().await.unwrap();
        tokio::time::sleep(TRUSTED_WITHIN / 2).await;
        assert!(Arc::ptr_eq(&old, &config.get_inner()));
        trusting.send_replace(offer.borrow().clone());
        tokio::time::sleep(SETTLED / 2).await;
        assert!(Arc::ptr_eq(&old, &config.get_inner()), "not every API server knows");
    };
    let (is_new, ()) = tokio::join!(certificate.refresh(Some(&mut trusted)), served);
    assert!(is_new.unwrap());
    let new = config.get_inner();
    assert!(!Arc::ptr_eq(&old, &new));

    // Nobody may write it.
    write(directory.path());
    assert!(certificate.refresh(Some(&mut trusted)).await.unwrap());
    assert!(!Arc::ptr_eq(&new, &config.get_inner()));
}
