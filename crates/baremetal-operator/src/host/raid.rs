//! RAID: what is wanted beside what is there, and the steps from one to the other.

use std::collections::HashSet;

use metal3_api::metal3::{
    BareMetalHostSpec, BareMetalHostStatus, HardwareRaidVolume, RaidConfig, RootDeviceHints, SoftwareRaidLevel,
    SoftwareRaidVolume,
};
use metal3_ironic::Step;
use metal3_runtime::webhook::FieldError;
use serde_json::{Map, Value, json};

use super::hints;

/// What cleaning is asked to do about RAID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// The RAID interface that the steps need.
    pub interface: &'static str,
    /// The volumes to create, as Ironic takes them.
    pub logical_disks: Vec<Value>,
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// The volumes that should be recorded when the host is prepared. For both lists null and empty differ: null leaves the
/// disks as they are, empty deletes what is there. A specification that says nothing any more keeps volumes of controllers
/// and gives up software volumes, which an operating system would trip over.
pub fn wanted(spec: &BareMetalHostSpec, status: &BareMetalHostStatus) -> Option<RaidConfig> {
    let recorded = status.provisioning.raid.as_ref();
    match &spec.raid {
        Some(raid) if *raid != RaidConfig::default() => Some(raid.clone()),
        Some(_) | None => recorded.map(|recorded| RaidConfig {
            hardware_raid_volumes: recorded.hardware_raid_volumes.clone().filter(|v| !v.is_empty()),
            software_raid_volumes: Some(Vec::new()),
        }),
    }
}

/// What has to be done to come from `actual` to `target` with a BMC whose driver uses `driver_interface`. Errors name the
/// field that cannot be followed.
pub fn work(
    target: &RaidConfig,
    actual: Option<&RaidConfig>,
    hints: Option<&RootDeviceHints>,
    driver_interface: Option<&'static str>,
) -> Result<Work, String> {
    let hardware = target.hardware_raid_volumes.as_deref();
    let software = target.software_raid_volumes.as_deref();
    check(target, hints)?;
    let driver_interface = driver_interface.unwrap_or("no-raid");
    let has_no_controller = matches!(driver_interface, "no-raid" | "agent");
    if hardware.is_some_and(|v| !v.is_empty()) && has_no_controller {
        return Err(
            "spec.raid.hardwareRAIDVolumes: this BMC type gives no access to RAID controllers; \
             use softwareRAIDVolumes"
                .to_owned(),
        );
    }
    let there = actual
        .and_then(|a| a.software_raid_volumes.as_deref())
        .unwrap_or_default();
    let wanted_software = software.unwrap_or_default();
    let is_software = !wanted_software.is_empty() || !there.is_empty();
    let interface = if is_software { "agent" } else { driver_interface };
    let delete = || step("raid", "delete_configuration");
    let create = || step("raid", "create_configuration");
    let mut steps = Vec::new();
    if let Some(volumes) = software {
        // Compared as lists: none recorded and none wanted is nothing to do.
        if volumes != there {
            steps.push(delete());
            // What is left of the former volumes would be assembled again.
            steps.push(step("deploy", "erase_devices_metadata"));
            steps.extend((!volumes.is_empty()).then(create));
        }
    } else if let Some(volumes) = hardware
        && interface != "no-raid"
        && actual.and_then(|a| a.hardware_raid_volumes.as_deref()) != Some(volumes)
    {
        steps.push(delete());
        steps.extend((!volumes.is_empty()).then(create));
    }
    if steps.is_empty() {
        return Ok(Work::default());
    }
    Ok(Work {
        interface,
        logical_disks: logical_disks(hardware.unwrap_or_default(), wanted_software, hints),
        steps,
    })
}

fn step(interface: &str, name: &str) -> Step {
    Step {
        interface: interface.to_owned(),
        step: name.to_owned(),
        args: Map::new(),
    }
}

/// What admission rejects or warns of, for objects that no webhook has seen.
fn check(config: &RaidConfig, hints: Option<&RootDeviceHints>) -> Result<(), String> {
    let problem = errors(config, hints).into_iter().chain(doubts(config)).next();
    problem.map_or(Ok(()), |problem| Err(problem.to_string()))
}

/// What upstream's webhook rejects.
pub fn errors(config: &RaidConfig, hints: Option<&RootDeviceHints>) -> Vec<FieldError> {
    let hardware = config.hardware_raid_volumes.as_deref().unwrap_or_default();
    let software = config.software_raid_volumes.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    if !hardware.is_empty() && !software.is_empty() {
        let message = "hardwareRAIDVolumes and softwareRAIDVolumes exclude each other";
        errors.push(FieldError::new("spec.raid", message));
    }
    for (i, volume) in hardware.iter().enumerate() {
        let field = |name: &str| format!("spec.raid.hardwareRAIDVolumes[{i}].{name}");
        let disks = i64::try_from(volume.physical_disks.len()).unwrap_or(i64::MAX);
        if disks > 0 && volume.controller.is_empty() {
            let message = "is missing: physicalDisks are named as a controller knows them";
            errors.push(FieldError::new(field("controller"), message));
        }
        if let Some(number) = volume.number_of_physical_disks.filter(|n| disks > 0 && *n != disks) {
            let message = format!("is {number}, but physicalDisks has {disks} entries");
            errors.push(FieldError::new(field("numberOfPhysicalDisks"), message));
        }
    }
    errors.extend(root_errors(software, hints));
    errors
}

fn root_errors(software: &[SoftwareRaidVolume], hints: Option<&RootDeviceHints>) -> Vec<FieldError> {
    let field = |i: usize, name: &str| format!("spec.raid.softwareRAIDVolumes[{i}].{name}");
    let roots: Vec<_> = software.iter().enumerate().filter(|(_, v)| v.root_volume).collect();
    let mut errors = Vec::new();
    if roots.len() > 1 {
        let message = "only one volume can have rootVolume";
        errors.push(FieldError::new("spec.raid.softwareRAIDVolumes", message));
    }
    for (i, root) in &roots {
        if root.level != SoftwareRaidLevel::Raid1 {
            errors.push(FieldError::new(field(*i, "level"), "must be 1 for the rootVolume"));
        }
        if hints.is_some() && roots.len() == 1 {
            let message = "and spec.rootDeviceHints exclude each other";
            errors.push(FieldError::new(field(*i, "rootVolume"), message));
        }
    }
    errors
}

/// What upstream's webhook admits, and what fails later.
pub fn doubts(config: &RaidConfig) -> Vec<FieldError> {
    let hardware = config.hardware_raid_volumes.as_deref().unwrap_or_default();
    let (mut doubts, mut names) = (Vec::new(), HashSet::new());
    for (i, volume) in hardware.iter().enumerate() {
        if !volume.name.is_empty() && !names.insert(&volume.name) {
            let field = format!("spec.raid.hardwareRAIDVolumes[{i}].name");
            doubts.push(FieldError::new(
                field,
                format!("{:?} is taken by another volume", volume.name),
            ));
        }
    }
    let first = config.software_raid_volumes.as_deref().unwrap_or_default().first();
    if first.is_some_and(|first| first.level != SoftwareRaidLevel::Raid1) {
        let message = "must be 1: the host boots from it";
        doubts.push(FieldError::new("spec.raid.softwareRAIDVolumes[0].level", message));
    }
    doubts
}

fn logical_disks(
    hardware: &[HardwareRaidVolume],
    software: &[SoftwareRaidVolume],
    hints: Option<&RootDeviceHints>,
) -> Vec<Value> {
    let mut disks: Vec<Value> = if hardware.is_empty() {
        software.iter().map(software_disk).collect()
    } else {
        hardware.iter().map(hardware_disk).collect()
    };
    let has_root = software.iter().any(|v| v.root_volume);
    if hints.is_none()
        && !has_root
        && let Some(first) = disks.first_mut()
    {
        first["is_root_volume"] = true.into();
    }
    disks
}

/// Nothing means all that is free.
fn size(gibibytes: Option<i64>) -> Value {
    gibibytes
        .filter(|size| *size > 0)
        .map_or_else(|| "MAX".into(), Value::from)
}

fn hardware_disk(volume: &HardwareRaidVolume) -> Value {
    let mut disk = json!({"size_gb": size(volume.size_gibibytes), "raid_level": volume.level.as_str()});
    if !volume.name.is_empty() {
        disk["volume_name"] = volume.name.clone().into();
    }
    if !volume.controller.is_empty() {
        disk["controller"] = volume.controller.clone().into();
    }
    if !volume.physical_disks.is_empty() {
        disk["physical_disks"] = volume.physical_disks.clone().into();
    }
    if let Some(rotational) = volume.rotational {
        disk["disk_type"] = if rotational { "hdd" } else { "ssd" }.into();
    }
    if let Some(number) = volume.number_of_physical_disks {
        disk["number_of_physical_disks"] = number.into();
    }
    disk
}

fn software_disk(volume: &SoftwareRaidVolume) -> Value {
    let mut disk = json!({"size_gb": size(volume.size_gibibytes), "raid_level": volume.level.as_str(),
        "controller": "software"});
    if volume.root_volume {
        disk["is_root_volume"] = true.into();
    }
    if !volume.physical_disks.is_empty() {
        disk["physical_disks"] = volume
            .physical_disks
            .iter()
            .map(|h| hints::root_device(Some(h)))
            .collect();
    }
    disk
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn config(value: Value) -> Option<RaidConfig> {
        serde_json::from_value(value).unwrap()
    }

    fn recorded(raid: &Value) -> BareMetalHostStatus {
        let mut status = BareMetalHostStatus::default();
        status.provisioning.raid = config(raid.clone());
        status
    }

    // OWN 31sp: each volume was compared with all before it. Of so many, that took seconds.
    #[test]
    fn many_volumes_are_judged_in_one_pass() {
        let volume = |number: usize| json!({"level": "0", "name": format!("{number:x}")});
        let mut volumes: Vec<Value> = (0..40_000).map(volume).collect();
        volumes.push(volume(7));
        let config = serde_json::from_value(json!({"hardwareRAIDVolumes": volumes})).unwrap();
        let doubts = doubts(&config);
        assert_eq!(doubts.len(), 1);
        assert_eq!(doubts[0].field, "spec.raid.hardwareRAIDVolumes[40000].name");
    }

    /// Null and empty lists, written as Go writes them.
    #[rstest]
    #[case::never_any(json!(null), json!(null), json!(null))]
    #[case::empty_object(json!({}), json!(null), json!(null))]
    #[case::new(json!({"softwareRAIDVolumes": []}), json!(null), json!({"hardwareRAIDVolumes": null, "softwareRAIDVolumes": []}))]
    #[case::software_given_up(json!(null), json!({"softwareRAIDVolumes": [{"level": "1"}]}),
        json!({"hardwareRAIDVolumes": null, "softwareRAIDVolumes": []}))]
    #[case::hardware_stays(json!({}), json!({"hardwareRAIDVolumes": [{"level": "1"}]}),
        json!({"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": []}))]
    #[case::no_hardware_is_nothing(json!(null), json!({"hardwareRAIDVolumes": []}),
        json!({"hardwareRAIDVolumes": null, "softwareRAIDVolumes": []}))]
    #[case::at_rest(json!(null), json!({"softwareRAIDVolumes": []}), json!({"hardwareRAIDVolumes": null, "softwareRAIDVolumes": []}))]
    fn what_is_wanted(#[case] spec: Value, #[case] status: Value, #[case] expected: Value) {
        let spec: BareMetalHostSpec = serde_json::from_value(json!({"online": true, "raid": spec})).unwrap();
        let status = recorded(&status);
        let found = wanted(&spec, &status);
        assert_eq!(json!(found), expected);
        // It does not change again once it is recorded.
        let mut next = status;
        next.provisioning.raid.clone_from(&found);
        assert_eq!(wanted(&spec, &next), found);
    }

    fn names(work: &Work) -> Vec<String> {
        work.steps
            .iter()
            .map(|s| format!("{}.{}", s.interface, s.step))
            .collect()
    }

    const DELETE: &str = "raid.delete_configuration";
    const ERASE: &str = "deploy.erase_devices_metadata";
    const CREATE: &str = "raid.create_configuration";

    #[rstest]
    #[case::software_new(json!({"softwareRAIDVolumes": [{"level": "1"}]}), json!(null), "redfish", &[DELETE, ERASE, CREATE], "agent")]
    #[case::software_same(json!({"softwareRAIDVolumes": [{"level": "1"}]}), json!({"softwareRAIDVolumes": [{"level": "1"}]}), "redfish", &[], "")]
    #[case::software_other(json!({"softwareRAIDVolumes": [{"level": "1"}, {"level": "0"}]}), json!({"softwareRAIDVolumes": [{"level": "1"}]}),
        "no-raid", &[DELETE, ERASE, CREATE], "agent")]
    #[case::software_deleted(json!({"softwareRAIDVolumes": []}), json!({"softwareRAIDVolumes": [{"level": "1"}]}), "redfish", &[DELETE, ERASE], "agent")]
    #[case::software_never_there(json!({"softwareRAIDVolumes": []}), json!(null), "redfish", &[], "")]
    #[case::software_left_alone(json!({"softwareRAIDVolumes": null}), json!({"softwareRAIDVolumes": [{"level": "1"}]}), "redfish", &[], "")]
    #[case::hardware_new(json!({"hardwareRAIDVolumes": [{"level": "5"}]}), json!(null), "redfish", &[DELETE, CREATE], "redfish")]
    #[case::hardware_same(json!({"hardwareRAIDVolumes": [{"level": "5"}]}), json!({"hardwareRAIDVolumes": [{"level": "5"}]}), "redfish", &[], "")]
    #[case::hardware_deleted(json!({"hardwareRAIDVolumes": []}), json!({"hardwareRAIDVolumes": [{"level": "5"}]}), "redfish", &[DELETE], "redfish")]
    #[case::hardware_deleted_unseen(json!({"hardwareRAIDVolumes": []}), json!(null), "redfish", &[DELETE], "redfish")]
    #[case::hardware_deletion_without_controller(json!({"hardwareRAIDVolumes": []}), json!(null), "no-raid", &[], "")]
    #[case::hardware_kept(json!({"hardwareRAIDVolumes": [{"level": "5"}], "softwareRAIDVolumes": []}),
        json!({"hardwareRAIDVolumes": [{"level": "5"}]}), "redfish", &[], "")]
    fn steps(
        #[case] target: Value,
        #[case] actual: Value,
        #[case] driver: &'static str,
        #[case] expected: &[&str],
        #[case] interface: &str,
    ) {
        let found = work(&config(target).unwrap(), config(actual).as_ref(), None, Some(driver)).unwrap();
        assert_eq!(names(&found), expected);
        assert_eq!(found.interface, interface);
    }

    #[rstest]
    #[case::hardware(json!({"hardwareRAIDVolumes": [
            {"level": "1+0", "name": "root", "sizeGibibytes": 100, "rotational": false, "numberOfPhysicalDisks": 2,
             "controller": "c", "physicalDisks": ["a", "b"]},
            {"level": "0", "rotational": true, "sizeGibibytes": 0}]}), None,
        json!([{"raid_level": "1+0", "volume_name": "root", "size_gb": 100, "disk_type": "ssd", "number_of_physical_disks": 2,
                "controller": "c", "physical_disks": ["a", "b"], "is_root_volume": true},
               {"raid_level": "0", "size_gb": "MAX", "disk_type": "hdd"}]))]
    #[case::software(json!({"softwareRAIDVolumes": [
            {"level": "1", "physicalDisks": [{"deviceName": "/dev/sda"}, {"minSizeGigabytes": 10}]},
            {"level": "1", "rootVolume": true, "sizeGibibytes": 5}]}), None,
        json!([{"raid_level": "1", "size_gb": "MAX", "controller": "software", "physical_disks": [{"name": "s== /dev/sda"}, {"size": ">= 10"}]},
               {"raid_level": "1", "size_gb": 5, "controller": "software", "is_root_volume": true}]))]
    #[case::hinted(json!({"softwareRAIDVolumes": [{"level": "1"}]}), Some("/dev/md0"),
        json!([{"raid_level": "1", "size_gb": "MAX", "controller": "software"}]))]
    fn volumes_in_ironics_words(#[case] target: Value, #[case] hint: Option<&str>, #[case] expected: Value) {
        let hints = hint.map(|name| RootDeviceHints {
            device_name: name.to_owned(),
            ..RootDeviceHints::default()
        });
        let found = work(&config(target).unwrap(), None, hints.as_ref(), Some("redfish")).unwrap();
        assert_eq!(json!(found.logical_disks), expected);
    }

    #[rstest]
    #[case::both(json!({"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}), "exclude each other")]
    #[case::no_controller(json!({"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a"]}]}), "hardwareRAIDVolumes[0].controller")]
    #[case::other_number(json!({"hardwareRAIDVolumes": [{"level": "1", "controller": "c", "physicalDisks": ["a"], "numberOfPhysicalDisks": 2}]}),
        "hardwareRAIDVolumes[0].numberOfPhysicalDisks: is 2")]
    #[case::same_name(json!({"hardwareRAIDVolumes": [{"level": "1", "name": "a"}, {"level": "1", "name": "a"}]}), "hardwareRAIDVolumes[1].name")]
    #[case::first_not_mirrored(json!({"softwareRAIDVolumes": [{"level": "0"}]}), "softwareRAIDVolumes[0].level: must be 1")]
    #[case::two_roots(json!({"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}, {"level": "1", "rootVolume": true}]}), "only one")]
    #[case::root_not_mirrored(json!({"softwareRAIDVolumes": [{"level": "1"}, {"level": "0", "rootVolume": true}]}), "softwareRAIDVolumes[1].level")]
    #[case::root_and_hints(json!({"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}), "spec.rootDeviceHints")]
    fn what_cannot_be_followed_is_named(#[case] target: Value, #[case] words: &str) {
        let hints = RootDeviceHints::default();
        let error = work(&config(target).unwrap(), None, Some(&hints), Some("redfish")).unwrap_err();
        assert!(error.starts_with("spec.raid") && error.contains(words), "{error}");
    }

    #[rstest]
    fn volumes_of_controllers_need_a_way_to_them(
        #[values(None, Some("no-raid"), Some("agent"))] driver: Option<&'static str>,
    ) {
        let target = config(json!({"hardwareRAIDVolumes": [{"level": "1"}]})).unwrap();
        assert!(
            work(&target, None, None, driver)
                .unwrap_err()
                .contains("hardwareRAIDVolumes")
        );
    }
}
