use super::*;

const MINUTE_MS: u64 = Time::MINUTE_MS;
const HOUR: u32 = 120;
const START: Epoch = Epoch(1_000_000);

/// A rule that starts at boot time 0, with epochs of half a minute.
fn rule() -> FloorRule {
    FloorRule::new(Life::Minute.epoch_ms(), START, ClockTrust::GOOD, 0)
}

/// Returns the floor that the rule computes for a clock that shows this number of epochs after the
/// start.
fn asked(rule: &mut FloorRule, epochs: u32, boot_ms: u64) -> (u32, Option<FloorHeld>) {
    let (floor, held) = rule.update_floor(Some(START.plus(epochs + 1)), boot_ms);
    (floor.0 - START.0, held)
}

#[test]
fn a_clock_that_stands_holds_erasure_for_the_slack_alone() {
    let mut rule = rule();
    assert_eq!(asked(&mut rule, 0, MINUTE_MS), (0, None));
    assert_eq!(asked(&mut rule, 0, 11 * MINUTE_MS), (20, None));
    // A device without a clock has the same floor as one with a stopped clock, and a clock that
    // goes back does not lower the floor.
    assert_eq!(rule.update_floor(None, 12 * MINUTE_MS), (START.plus(22), None));
    assert_eq!(rule.update_floor(Some(Epoch(0)), 13 * MINUTE_MS), (START.plus(24), None));
}

#[test]
fn an_hour_is_believed_at_once_and_all_jumps_count_together() {
    let mut rule = rule();
    assert_eq!(asked(&mut rule, HOUR + 1, 0), (HOUR + 1, None));
    // Together with the first jump, the second one exceeds the limit of jumps since the start.
    let until = FloorHeld::Stands(JUMP_STANDS_MS);
    assert_eq!(asked(&mut rule, 2 * HOUR, 0), (HOUR + 1, Some(until)));
}

#[test]
fn a_jump_of_hours_is_believed_after_it_stood_ten_minutes() {
    let mut rule = rule();
    let until = Some(FloorHeld::Stands(JUMP_STANDS_MS));
    for minute in 0..10 {
        let shown = 5 * HOUR + 2 * minute;
        assert_eq!(asked(&mut rule, shown, u64::from(minute) * MINUTE_MS).1, until);
    }
    assert_eq!(asked(&mut rule, 5 * HOUR + 20, JUMP_STANDS_MS), (5 * HOUR + 20, None));
}

#[test]
fn a_jump_that_grows_while_it_stands_stands_anew() {
    let mut rule = rule();
    assert!(asked(&mut rule, 2 * HOUR, 0).1.is_some());
    let until = Some(FloorHeld::Stands(9 * MINUTE_MS + JUMP_STANDS_MS));
    assert_eq!(asked(&mut rule, 20 * HOUR, 9 * MINUTE_MS).1, until);
    assert_eq!(asked(&mut rule, 20 * HOUR, JUMP_STANDS_MS).1, until);
    // A time that the clock has shown for ten minutes is accepted, and no later one.
    assert_eq!(asked(&mut rule, 20 * HOUR, 19 * MINUTE_MS), (20 * HOUR, None));
}

#[test]
fn a_jump_of_more_than_a_day_needs_a_person() {
    let mut rule = rule();
    for hour in 0..3 {
        let held = asked(&mut rule, 200 * HOUR, hour * Time::HOUR_MS);
        assert_eq!(held.1, Some(FloorHeld::Confirm));
    }
    let boot_ms = 3 * Time::HOUR_MS;
    let shown = START.plus(200 * HOUR + 1);
    rule.confirm_epoch(shown, boot_ms);
    assert_eq!(rule.update_floor(Some(shown), boot_ms), (START.plus(200 * HOUR), None));
}

#[test]
fn a_clock_that_is_not_settled_may_be_ahead() {
    assert_eq!(ClockTrust::POOR.earliest_tick(Tick(100), false), Tick(80));
    assert_eq!(ClockTrust::POOR.earliest_tick(Tick(100), true), Tick(100));
    assert_eq!(ClockTrust::FAIR.earliest_tick(Tick(3), false), Tick(0));
}

#[test]
fn a_bound_that_is_known_gives_slack_and_uncertainty_between_those_of_the_grades() {
    assert_eq!(ClockTrust::within(2_500), ClockTrust::GOOD);
    assert_eq!(ClockTrust::within(11_140), ClockTrust::GOOD);
    assert_eq!(ClockTrust::within(150_000), ClockTrust::FAIR);
    assert_eq!(ClockTrust::within(600_000), ClockTrust::POOR);
    assert_eq!(ClockTrust::within(u64::MAX), ClockTrust::POOR);
    let week = ClockTrust::within(62_980);
    assert_eq!((week.slack_ms, week.uncertainty_ticks), (62_980, 3));
}

/// The maximum error of the clock is known only once the node reports it.
#[test]
fn hibe_74_a_slack_that_becomes_known_counts_from_the_start() {
    let mut rule = FloorRule::new(Life::Minute.epoch_ms(), START, ClockTrust::POOR, 0);
    assert_eq!(rule.update_floor(None, 5 * MINUTE_MS), (START, None));
    rule.set_trust(ClockTrust::GOOD);
    assert_eq!(rule.update_floor(None, 5 * MINUTE_MS), (START.plus(8), None));
    rule.set_trust(ClockTrust::POOR);
    assert_eq!(rule.update_floor(None, 6 * MINUTE_MS), (START.plus(8), None), "it never goes back");
}

/// Epochs of half a day: a stored floor and boot time explain one epoch. A day of absence is
/// accepted once the clock has shown the new date for ten minutes.
#[test]
fn hibe_82_the_floor_of_half_a_day_follows_its_own_epochs() {
    let mut rule = FloorRule::new(Life::HalfDay.epoch_ms(), START, ClockTrust::GOOD, 0);
    let hour_ms = Time::HOUR_MS;
    assert_eq!(rule.update_floor(Some(START.plus(1)), hour_ms), (START, None));
    assert_eq!(rule.update_floor(Some(START.plus(2)), 7 * hour_ms), (START.plus(1), None));
    // Boot time alone: an epoch is over twelve hours and the slack later.
    let mut rule = FloorRule::new(Life::HalfDay.epoch_ms(), START, ClockTrust::GOOD, 0);
    assert_eq!(rule.update_floor(None, 12 * hour_ms).0, START);
    assert_eq!(rule.update_floor(None, 12 * hour_ms + MINUTE_MS).0, START.plus(1));
    // After three days of absence the user confirms the date.
    let mut rule = FloorRule::new(Life::HalfDay.epoch_ms(), START, ClockTrust::GOOD, 0);
    assert_eq!(rule.update_floor(Some(START.plus(7)), 0), (START, Some(FloorHeld::Confirm)));
}
