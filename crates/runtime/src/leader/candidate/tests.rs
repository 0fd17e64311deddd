use super::*;
use rstest::rstest;

fn held_by(holder: Option<&str>, seconds: Option<i32>) -> LeaseSpec {
    LeaseSpec {
        holder_identity: holder.map(Into::into),
        lease_duration_seconds: seconds,
        renew_time: Some(MicroTime(Timestamp::MAX)), // a clock far ahead of ours must not matter
        ..LeaseSpec::default()
    }
}

#[rstest]
#[case(None, 100, Verdict::Free)]
#[case(Some(held_by(None, Some(15))), 0, Verdict::Free)]
#[case(Some(held_by(Some(""), Some(15))), 0, Verdict::Free)]
#[case(Some(held_by(Some("me"), Some(15))), 100, Verdict::Mine)]
#[case(Some(held_by(Some("you"), Some(15))), 0, Verdict::Held(Duration::from_secs(15)))]
#[case(Some(held_by(Some("you"), Some(15))), 14, Verdict::Held(Duration::from_secs(1)))]
#[case(Some(held_by(Some("you"), Some(15))), 15, Verdict::Expired)]
#[case(Some(held_by(Some("you"), Some(60))), 15, Verdict::Held(Duration::from_secs(45)))]
#[case(Some(held_by(Some("you"), None)), 14, Verdict::Held(Duration::from_secs(1)))]
#[case(Some(held_by(Some("you"), Some(-5))), 14, Verdict::Held(Duration::from_secs(1)))]
fn a_lease_is_read_on_our_clock(#[case] lease: Option<LeaseSpec>, #[case] later: u64, #[case] verdict: Verdict) {
    let first_seen = Duration::from_secs(1000);
    assert_eq!(
        evaluate(
            lease.as_ref(),
            "me",
            first_seen,
            first_seen + Duration::from_secs(later)
        ),
        verdict
    );
}

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn stored(mut lease: Lease, version: &str) -> Lease {
    lease.metadata.resource_version = Some(version.into());
    lease
}

fn written(candidate: &mut Candidate, now: Duration) -> Lease {
    match candidate.step(now, WALL) {
        Step::Write(lease) => *lease,
        other => panic!("expected a write at {now:?}, got {other:?}"),
    }
}

#[test]
fn transitions_count_holders_and_survive_renewal_and_release() {
    let mut first = Candidate::new("first".into(), Timing::default(), 1);
    assert!(matches!(first.step(at(0), WALL), Step::Read));
    first.on_read(at(0), Some(None));
    let lease = stored(written(&mut first, at(0)), "1");
    assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(0));
    first.on_written(at(1), Some(lease));
    assert!(first.leads(at(9)) && !first.leads(at(10)));
    let lease = stored(written(&mut first, at(4)), "2");
    first.on_written(at(4), Some(lease));
    let released = stored(first.released(at(5), WALL).unwrap(), "3");

    let mut second = Candidate::new("second".into(), Timing::default(), 2);
    assert!(matches!(second.step(at(0), WALL), Step::Read));
    second.on_read(at(0), Some(Some(released)));
    let lease = written(&mut second, at(0));
    let spec = lease.spec.unwrap();
    assert_eq!(
        (spec.lease_transitions, spec.holder_identity.as_deref()),
        (Some(1), Some("second"))
    );
    assert_eq!(lease.metadata.resource_version.as_deref(), Some("3"));
}

#[test]
fn a_leader_that_sees_another_holder_stops() {
    let mut candidate = Candidate::new("me".into(), Timing::default(), 1);
    candidate.step(at(0), WALL);
    candidate.on_read(at(0), Some(None));
    let lease = stored(written(&mut candidate, at(0)), "1");
    candidate.on_written(at(0), Some(lease.clone()));
    written(&mut candidate, at(2));
    candidate.on_written(at(2), None);
    assert!(matches!(candidate.step(at(3), WALL), Step::Read));
    let mut theirs = stored(lease, "2");
    theirs.spec.as_mut().unwrap().holder_identity = Some("you".into());
    candidate.on_read(at(3), Some(Some(theirs)));
    assert!(matches!(candidate.step(at(3), WALL), Step::Lost(Lost::TakenBy(holder)) if holder == "you"));
    assert!(!candidate.leads(at(3)) && candidate.released(at(3), WALL).is_none());
}
