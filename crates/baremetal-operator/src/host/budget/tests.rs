//! Budgets over time.

use rstest::rstest;

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-01-02T{text}Z").parse().unwrap()
}

fn status(state: ProvisioningState) -> BareMetalHostStatus {
    let mut status = BareMetalHostStatus::default();
    status.provisioning.state = state;
    status
}

fn phase(state: ProvisioningState) -> Option<Phase> {
    Phase::of(&status(state))
}

/// One pass over a host whose conditions belong to its current state.
fn look(status: &mut BareMetalHostStatus, time: &str) -> Option<Event> {
    let was = Phase::of(status);
    judge(status, was, &Budgets::default(), false, Some(1), at(time))
}

fn says(status: &BareMetalHostStatus) -> String {
    conditions::get(&status.conditions, OVERDUE).map_or_else(String::new, |c| {
        format!("{:?} {} {} {}", c.status, c.reason, c.last_transition_time.0, c.message)
    })
}

#[test]
fn a_host_past_its_budget_says_so_once() {
    // DEFECT 28 of upstream's: a host may wait in a state for ever.
    let mut status = status(ProvisioningState::Inspecting);
    assert_eq!(look(&mut status, "10:00:00.5"), None);
    let in_time = "False Inspecting 2026-01-02T10:00:00Z should be over by 2026-01-02T11:00:00Z";
    assert_eq!(says(&status), in_time);
    assert_eq!(
        left(&status, &Budgets::default(), at("10:20:00")),
        Some(Duration::from_secs(60 * 40))
    );
    assert_eq!(look(&mut status, "10:59:59"), None);
    assert_eq!(says(&status), in_time, "no write while time passes");

    let note = look(&mut status, "11:00:00").unwrap();
    assert_eq!(note.reason, EventReason::Overdue);
    assert!(
        note.message.contains("longer than the 1 h it should take"),
        "{}",
        note.message
    );
    let late = says(&status);
    assert!(
        late.starts_with("True BudgetExceeded 2026-01-02T11:00:00Z in state \"inspecting\""),
        "{late}"
    );
    assert_eq!(left(&status, &Budgets::default(), at("11:00:00")), None);
    assert_eq!(look(&mut status, "12:30:00"), None, "told once");
    assert_eq!(says(&status), late);
}

#[test]
fn another_state_begins_anew_and_a_state_of_rest_has_none() {
    let mut status = status(ProvisioningState::Inspecting);
    look(&mut status, "10:00:00");
    look(&mut status, "11:00:00");
    assert!(is_overdue(&status.conditions));
    status.provisioning.state = ProvisioningState::Preparing;
    judge(
        &mut status,
        phase(ProvisioningState::Inspecting),
        &Budgets::default(),
        false,
        Some(1),
        at("11:05:00"),
    );
    assert!(
        says(&status).starts_with("False Preparing 2026-01-02T11:05:00Z"),
        "{}",
        says(&status)
    );
    status.provisioning.state = ProvisioningState::Available;
    judge(
        &mut status,
        phase(ProvisioningState::Preparing),
        &Budgets::default(),
        false,
        Some(1),
        at("11:06:00"),
    );
    assert_eq!(says(&status), "");
}

#[test]
fn the_queue_costs_no_budget() {
    let mut status = status(ProvisioningState::Provisioning);
    look(&mut status, "10:00:00");
    judge(
        &mut status,
        phase(ProvisioningState::Provisioning),
        &Budgets::default(),
        true,
        Some(1),
        at("10:30:00"),
    );
    assert_eq!(says(&status), "");
    look(&mut status, "15:00:00");
    assert!(says(&status).contains("by 2026-01-02T17:00:00Z"), "{}", says(&status));
}

#[rstest]
#[case("", Ok(3600))]
#[case("inspecting=90s", Ok(90))]
#[case(" deleting=1h , inspecting=30m", Ok(1800))]
#[case("servicing=12h,changing disc=5m", Ok(3600))]
#[case("inspecting", Err("state=duration"))]
#[case("available=1h", Err("no state with a budget"))]
#[case("inspecting=0s", Err("more than nothing"))]
fn budgets_are_written_as_a_list(#[case] text: &str, #[case] seconds: Result<u64, &str>) {
    let parsed = text.parse::<Budgets>();
    match (parsed, seconds) {
        (Ok(budgets), Ok(seconds)) => {
            assert_eq!(
                budgets.of(phase(ProvisioningState::Inspecting).unwrap()),
                Duration::from_secs(seconds)
            );
        }
        (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
        (parsed, _) => panic!("{parsed:?}"),
    }
}

fn provisioned() -> BareMetalHostStatus {
    status(ProvisioningState::Provisioned)
}

fn waits(mut status: BareMetalHostStatus, reason: &str) -> BareMetalHostStatus {
    let waits = Claim {
        type_: WAITING,
        status: ConditionStatus::True,
        reason,
        message: "",
    };
    conditions::set(&mut status.conditions, &waits, None, at("10:00:00"));
    status
}

fn serviced(failed: bool) -> BareMetalHostStatus {
    let mut status = provisioned();
    if failed {
        (status.operational_status, status.error_type) = (OperationalStatus::Error, Some(ErrorType::Servicing));
    } else {
        status.operational_status = OperationalStatus::Servicing;
    }
    status
}

// OWN 31xr: a servicing that hung, and a disc that did not come, had no budget: the server was off, and nothing said that it took long.
#[rstest]
#[case::serviced(serviced(false), "servicing", "12:59:59", "13:00:00")]
#[case::failed(serviced(true), "servicing", "12:59:59", "13:00:00")]
#[case::serviced_with_a_disc(waits(serviced(false), "DataImageChanging"), "servicing", "12:59:59", "13:00:00")]
#[case::disc(waits(provisioned(), "DataImageChanging"), "changing disc", "10:29:59", "10:30:00")]
#[case::disc_failing(waits(provisioned(), "DataImageFailing"), "changing disc", "10:29:59", "10:30:00")]
#[case::disc_of_a_free_host(
    waits(status(ProvisioningState::Available), "DataImageChanging"),
    "changing disc",
    "10:29:59",
    "10:30:00"
)]
#[case::disc_in_a_state_with_a_budget(
    waits(status(ProvisioningState::Deleting), "DataImageChanging"),
    "deleting",
    "10:29:59",
    "10:30:00"
)]
fn a_host_in_use_that_is_changed_for_too_long_says_so(
    #[case] mut status: BareMetalHostStatus,
    #[case] name: &str,
    #[case] in_time: &str,
    #[case] late: &str,
) {
    assert_eq!(look(&mut status, "10:00:00"), None);
    assert_eq!(look(&mut status, in_time), None);
    assert!(!is_overdue(&status.conditions) && left(&status, &Budgets::default(), at(in_time)).is_some());
    let event = look(&mut status, late).unwrap();
    assert!(
        event.message.starts_with(&format!("in state {name:?} since")),
        "{}",
        event.message
    );
    assert!(is_overdue(&status.conditions));
}

#[test]
fn a_host_that_is_in_use_again_has_no_budget() {
    let mut status = serviced(false);
    look(&mut status, "10:00:00");
    look(&mut status, "13:00:00");
    let was = Phase::of(&status);
    status.operational_status = OperationalStatus::Ok;
    judge(&mut status, was, &Budgets::default(), false, Some(1), at("13:01:00"));
    assert_eq!(says(&status), "");
    status = waits(status, "RebootAnnotation");
    assert_eq!((look(&mut status, "13:02:00"), says(&status)), (None, String::new()));
}

#[rstest]
#[case("IronicUnreachable")]
#[case("NodeLocked")]
fn an_outage_starts_no_new_budget_for_a_disc(#[case] reason: &str) {
    let mut status = waits(provisioned(), "DataImageChanging");
    look(&mut status, "10:00:00");
    let mut interrupted = waits(status, reason);
    look(&mut interrupted, "10:20:00");
    let mut again = waits(interrupted, "DataImageChanging");
    assert!(look(&mut again, "10:30:00").is_some());
    // By itself it has none.
    assert_eq!(Phase::of(&waits(provisioned(), reason)), None);
}
