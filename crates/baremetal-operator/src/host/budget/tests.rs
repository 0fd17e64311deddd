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

/// One pass over a host whose conditions belong to its current state.
fn look(status: &mut BareMetalHostStatus, time: &str) -> Option<Event> {
    let was = status.provisioning.state.clone();
    judge(status, Some(&was), &Budgets::default(), false, Some(1), at(time))
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
    let was = ProvisioningState::Inspecting;
    judge(
        &mut status,
        Some(&was),
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
        Some(&ProvisioningState::Preparing),
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
    let was = Some(ProvisioningState::Provisioning);
    judge(
        &mut status,
        was.as_ref(),
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
#[case("inspecting", Err("state=duration"))]
#[case("available=1h", Err("no state with a budget"))]
#[case("inspecting=0s", Err("more than nothing"))]
fn budgets_are_written_as_a_list(#[case] text: &str, #[case] seconds: Result<u64, &str>) {
    let parsed = text.parse::<Budgets>();
    match (parsed, seconds) {
        (Ok(budgets), Ok(seconds)) => {
            assert_eq!(
                budgets.of(&ProvisioningState::Inspecting),
                Some(Duration::from_secs(seconds))
            );
        }
        (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
        (parsed, _) => panic!("{parsed:?}"),
    }
}
