//! What is counted when, and that the reference says what is exposed.

use metal3_api::metal3::BareMetalHostStatus;
use metal3_runtime::store::ObjectKey;
use serde_json::{Value, json};

use super::*;
use crate::host::plan::WaitReason;

struct Site {
    registry: Registry,
    metrics: HostMetrics,
    rows: Vec<Row>,
}

fn site(is_per_host: bool) -> Site {
    let registry = Registry::new(Build {
        component: "test",
        version: "1",
    });
    let mut catalogue = Catalogue::new(&registry);
    let metrics = HostMetrics::new(&mut catalogue, Clock::system(), is_per_host);
    let rows = catalogue.into_rows();
    Site {
        registry,
        metrics,
        rows,
    }
}

impl Site {
    fn has(&self, line: &str) {
        let text = self.registry.text().unwrap();
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("n", "h")
}

fn status(state: &str, waits: &str, more: Value) -> BareMetalHostStatus {
    let mut value = json!({"operationalStatus": "OK", "errorMessage": "", "poweredOn": true, "hardwareProfile": "",
        "provisioning": {"state": state, "ID": "u"}, "conditions": [{"type": "Waiting",
            "status": if waits.is_empty() { "False" } else { "True" },
            "reason": if waits.is_empty() { "NotWaiting" } else { waits },
            "message": "Secret n/x named by spec.networkData", "lastTransitionTime": "2026-01-02T11:00:00Z"}]});
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_life_is_counted() {
    let site = site(true);
    let metrics = &site.metrics;
    let registering = status("registering", "Verifying", json!({}));
    metrics.see(&key(), None);
    metrics.status(&key(), None, &registering);
    metrics.see(&key(), Some(&registering));
    let history =
        json!({"operationHistory": {"register": {"start": "2026-01-02T10:00:00Z", "end": "2026-01-02T10:00:07Z"}}});
    let queued = status("registering", "Queued", history.clone());
    metrics.status(&key(), Some(&registering), &queued);
    let failed = status(
        "inspecting",
        "BackOff",
        json!({"errorType": "inspection error", "errorCount": 1,
        "operationHistory": history["operationHistory"]}),
    );
    metrics.status(&key(), Some(&queued), &failed);
    metrics.upstream.reconciled(&key(), false);
    metrics.upstream.power(&key(), true);
    metrics.upstream.waits(&registering, Some(WaitReason::Verifying), false);
    metrics.slots([20, 3, 1]);
    for line in [
        "metal3_hosts{state=\"inspecting\"} 1",
        "metal3_hosts{state=\"registering\"} 0",
        "metal3_hosts_waiting{reason=\"BackOff\"} 1",
        "metal3_transitions_total{from=\"registering\",to=\"inspecting\"} 1",
        "metal3_provisioning_state_change_total{prev_state=\"registering\",new_state=\"inspecting\"} 1",
        "metal3_host_error_total{error_type=\"InspectionError\"} 1",
        "metal3_state_seconds_count{state=\"registering\"} 1",
        "metal3_delayed__provisioning_total{namespace=\"n\",host=\"h\"} 1",
        "metal3_operation_register_duration_seconds_sum{namespace=\"n\",host=\"h\"} 7.0",
        "metal3_operation_register_duration_seconds_count{namespace=\"n\",host=\"h\"} 1",
        "metal3_reconcile_total{namespace=\"n\",host=\"h\"} 1",
        "metal3_reconcile_error_total 1",
        "metal3_operation_power_change_total{namespace=\"n\",host=\"h\",on_off=\"on\"} 1",
        "metal3_host_registration_required_total 1",
        "metal3_slots{kind=\"taken\"} 3",
    ] {
        site.has(line);
    }
    metrics.forget(&key());
    site.has("metal3_hosts{state=\"inspecting\"} 0");
    assert!(
        !site.registry.text().unwrap().contains("host=\"h\""),
        "the series go with the host"
    );
}

#[test]
fn without_the_flag_no_series_has_a_hosts_name() {
    let site = site(false);
    let queued = status("provisioned", "Queued", json!({}));
    site.metrics.status(&key(), None, &queued);
    site.metrics.upstream.reconciled(&key(), true);
    site.metrics.upstream.power(&key(), false);
    site.has("metal3_delayed__deprovisioning_total{namespace=\"\",host=\"\"} 1");
    assert!(!site.registry.text().unwrap().contains("\"h\""));
}

#[test]
fn overdue_hosts_and_those_that_were_given_up_are_counted() {
    let site = site(false);
    let overdue = json!({"conditions": [{"type": "Overdue", "status": "True", "reason": "BudgetExceeded",
        "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z"}]});
    let mut leaving = status("deprovisioning", "", overdue);
    leaving.provisioning.image = Some(metal3_api::metal3::Image::default());
    site.metrics.status(&key(), None, &leaving);
    site.has("metal3_hosts_overdue{state=\"deprovisioning\"} 1");
    let mut off = leaving.clone();
    off.provisioning.state = metal3_api::metal3::ProvisioningState::PoweringOffBeforeDelete;
    off.conditions.clear();
    site.metrics.status(&key(), Some(&leaving), &off);
    site.has("metal3_hosts_overdue{state=\"deprovisioning\"} 0");
    site.has("metal3_delete_without_deprovisioning_total 1");
    let mut deleting = off.clone();
    deleting.provisioning.state = metal3_api::metal3::ProvisioningState::Deleting;
    site.metrics.status(&key(), Some(&off), &deleting);
    site.has("metal3_delete_without_powering_off_total 1");
    let overdue = json!({"conditions": leaving.conditions, "operationalStatus": "servicing"});
    site.metrics
        .status(&key(), Some(&deleting), &status("provisioned", "", overdue));
    site.has("metal3_hosts_overdue{state=\"servicing\"} 1");
}

#[test]
fn waits_are_counted_by_upstreams_names_when_they_begin() {
    // DEFECT 29 of upstream's: two metrics are counted and never exposed.
    let site = site(false);
    let before = status("registering", "Verifying", json!({}));
    for reason in [
        "SecretMissing",
        "InvalidBMCDetails",
        "IronicUnreachable",
        "ConfigDriveIncomplete",
        "RamdiskBuilding",
    ] {
        let after = status("registering", reason, json!({}));
        site.metrics.status(&key(), Some(&before), &after);
        site.metrics.status(&key(), Some(&after), &after);
    }
    for line in [
        "metal3_credentials_missing_total 1",
        "metal3_credentials_invalid_total 1",
        "metal3_provisioner_not_ready_total 1",
        "metal3_waiting_for_preprov_image_total 1",
        "metal3_host_config_data_error_total{host_data_type=\"networkData\"} 1",
    ] {
        site.has(line);
    }
}

/// A failed detachment is stored under another type, for which upstream's schema has a word.
#[test]
fn a_failed_detachment_is_counted_as_one() {
    let site = site(false);
    let before = status("provisioned", "Detaching", json!({}));
    let failed = json!({"operationalStatus": "error", "errorType": "registration error", "errorCount": 1,
        "errorMessage": "detaching failed: the node is locked"});
    site.metrics
        .status(&key(), Some(&before), &status("provisioned", "BackOff", failed));
    site.has("metal3_host_error_total{error_type=\"DetachError\"} 1");
    site.has("metal3_credentials_no_management_access_total 0");
}

#[test]
fn incomplete_data_is_counted_by_its_field() {
    let site = site(false);
    let before = status("provisioning", "", json!({}));
    for (field, kind) in [
        ("userData", "userData"),
        ("metaData", "metaData"),
        ("preprovisioningNetworkDataName", "networkData"),
    ] {
        let message = format!("Secret n/x, named by spec.{field}, does not exist");
        let conditions = json!({"conditions": [{"type": "Waiting", "status": "True", "reason": "ConfigDriveIncomplete",
            "message": message, "lastTransitionTime": "2026-01-02T11:00:00Z"}]});
        let after = status("provisioning", "", conditions);
        site.metrics.status(&key(), Some(&before), &after);
        site.has(&format!(
            "metal3_host_config_data_error_total{{host_data_type=\"{kind}\"}} 1"
        ));
    }
}

/// The list that the reference is made from has the kinds and labels that are exposed.
#[test]
fn the_catalogue_says_what_is_exposed() {
    let site = site(false);
    let registering = status(
        "registering",
        "Queued",
        json!({"operationHistory":
        {"register": {"start": "2026-01-02T10:00:00Z", "end": "2026-01-02T10:00:07Z"}}}),
    );
    site.metrics.status(&key(), None, &registering);
    site.metrics.slots([1, 1, 1]);
    site.metrics.upstream.power(&key(), true);
    site.metrics.upstream.reconciled(&key(), true);
    let text = site.registry.text().unwrap();
    let mut checked = 0;
    for row in &site.rows {
        let family = row.name.trim_end_matches("_total");
        let type_ = format!("# TYPE {family} {}", row.kind.as_str());
        let Some(at) = text.lines().position(|line| line == type_) else {
            continue; // a family without series is not exposed
        };
        let Some(sample) = text
            .lines()
            .skip(at + 1)
            .find(|l| !l.starts_with('#'))
            .filter(|l| l.starts_with(family))
        else {
            continue;
        };
        let labels: Vec<_> = sample
            .split_once('{')
            .map_or("", |(_, rest)| rest.split('}').next().unwrap_or_default())
            .split(',')
            .filter_map(|pair| pair.split_once('=').map(|(name, _)| name))
            .filter(|name| *name != "le")
            .collect();
        assert_eq!(labels, row.labels, "{}", row.name);
        checked += 1;
    }
    assert!(checked >= 20, "{checked} of {}:\n{text}", site.rows.len());
}

// OWN 29d: states and reasons that a tenant made up became series that stay for as long as the process lives.
#[test]
fn words_that_a_user_makes_up_are_one_label() {
    let site = site(false);
    let mut lines = 0;
    for number in 0..100 {
        let made_up = format!("{}{number}", "x".repeat(10_000));
        let before = status(&made_up, &made_up, json!({}));
        site.metrics.status(&key(), None, &before);
        let after = status("powering off before delete", "", json!({}));
        site.metrics.status(&key(), Some(&before), &after);
        site.metrics.forget(&key());
        let text = site.registry.text().unwrap();
        assert!(!text.contains("xxx"));
        if number == 1 {
            lines = text.lines().count();
        }
        assert!(number < 2 || text.lines().count() == lines, "{text}");
    }
    site.has(r#"metal3_hosts{state="other"} 0"#);
}

// OWN 31za: an event whose series began with it never made an alert fire.
#[test]
fn what_alerts_count_begins_at_nothing() {
    let site = site(false);
    EventMetrics::new(&mut Catalogue::new(&site.registry));
    for (kind, reason) in [
        ("DataImage", "DataImageLeftInDrive"),
        ("BMCEventSubscription", "SubscriptionLeftOnBMC"),
    ] {
        site.has(&format!("metal3_events_total{{kind=\"{kind}\",reason=\"{reason}\"}} 0"));
    }
    for error in [
        "RegistrationError",
        "ProvisionedRegistrationError",
        "InspectionError",
        "PreparationError",
        "ProvisioningError",
        "PowerManagementError",
        "ServicingError",
        "DetachError",
    ] {
        site.has(&format!("metal3_host_error_total{{error_type=\"{error}\"}} 0"));
    }
}

// OWN 31ze: a host that fails for days was counted when an attempt failed, and an alert saw it for half an hour.
#[test]
fn a_host_that_fails_is_counted_until_it_does_not() {
    let site = site(false);
    let state = |waits: &str, more: Value| status("inspecting", waits, more);
    let failed = json!({"operationalStatus": "error", "errorType": "inspection error", "errorCount": 1});
    let failed = state("BackOff", failed);
    site.metrics.status(&key(), None, &failed);
    site.has("metal3_hosts_failing{state=\"inspecting\"} 1");
    let again = state("Inspecting", json!({"errorCount": 1}));
    site.metrics.status(&key(), Some(&failed), &again);
    site.has("metal3_hosts_failing{state=\"inspecting\"} 1");
    site.metrics
        .status(&key(), Some(&again), &state("Inspecting", json!({})));
    site.has("metal3_hosts_failing{state=\"inspecting\"} 0");
    site.metrics.status(&key(), None, &failed);
    site.metrics.forget(&key());
    site.has("metal3_hosts_failing{state=\"inspecting\"} 0");
}

// OWN 31zf: claims that came and went, none of which waited for long, made the alert of an hour.
#[test]
fn how_long_the_oldest_of_the_claims_that_wait_has_waited_is_told() {
    let registry = Registry::new(Build {
        component: "test",
        version: "1",
    });
    let clock = Clock::manual("2026-01-01T01:00:00Z".parse().unwrap());
    let mut catalogue = Catalogue::new(&registry);
    let companions = CompanionMetrics::new(&mut catalogue);
    let claims = ClaimMetrics::new(&mut catalogue, &companions, clock);
    let [one, other] = ["one", "other"].map(|name| ObjectKey::new("n", name));
    let is = |seconds: u32| {
        let text = registry.text().unwrap();
        let line = format!("metal3_hostclaims_waiting_seconds {seconds}");
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    };
    is(0);
    claims.is(&one, "waiting", "2026-01-01T00:30:00Z".parse().unwrap());
    claims.is(&other, "waiting", "2026-01-01T00:50:00Z".parse().unwrap());
    is(1800);
    claims.is(&one, "ready", "2026-01-01T00:30:00Z".parse().unwrap());
    is(600);
    claims.forget(&other);
    is(0);
}
