use super::*;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

fn seconds(s: f64) -> i64 {
    (s * 1e6) as i64
}

/// Returns a clock with samples of these offsets, in seconds.
fn heard(grade: Grade, samples: &[f64]) -> MeshClock {
    let mut clock = MeshClock::new(ClockMode::Level, grade, 0);
    say(&mut clock, samples, 0);
    clock
}

/// Adds samples of neighbours with these offsets at `now`.
fn say(clock: &mut MeshClock, samples: &[f64], now: u64) {
    for (offset, name) in samples.iter().zip(0..) {
        clock.forget_name(name);
        clock.samples.push(ClockSample { name, offset: seconds(*offset), at: now });
    }
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Returns the clock after one vote.
fn voted(samples: &[f64]) -> MeshClock {
    let mut clock = heard(Grade::Poor, samples);
    clock.vote(samples.len(), 0, &mut rng(0));
    clock
}

#[test]
fn mesh_22_two_samples_move_nothing() {
    for (samples, state) in [([40.0, 40.0], ClockState::Doubtful), ([1.0, 1.0], ClockState::Alone)]
    {
        let mut clock = heard(Grade::Poor, &samples);
        assert!(!clock.vote(2, 0, &mut rng(0)));
        assert_eq!((clock.offset(), clock.state()), (0, state));
    }
}

#[test]
fn mesh_23_one_sample_a_name() {
    let mut clock = MeshClock::new(ClockMode::Level, Grade::Poor, 0);
    for _ in 0..5 {
        clock.add_sample(7, 800, 0, 0);
    }
    assert_eq!(clock.samples.len(), 1);
    assert!(!clock.vote(4, 0, &mut rng(0)));
}

#[test]
fn a_stamp_is_the_middle_of_its_quantum_and_as_old_as_the_link_takes() {
    let mut clock = MeshClock::new(ClockMode::Level, Grade::Poor, 0);
    clock.add_sample(1, 80, 20_000, 5 * SECOND);
    let offset = seconds(10.0 + 0.0625 + 0.02 - 5.0);
    assert_eq!(clock.samples, [ClockSample { name: 1, offset, at: 5 * SECOND }]);
}

#[test]
fn the_farthest_quarter_of_each_side_is_left_out() {
    let quiet = voted(&[10.0, 14.0, 6.0, 10.0, 18.0, 22.0]).offset();
    let with_liars = voted(&[10.0, 14.0, 6.0, 10.0, 18.0, 22.0, 500.0, 590.0]).offset();
    assert!((quiet - with_liars).abs() < seconds(6.0), "{quiet} {with_liars}");
    // Liars that agree and are a third of all are more than the trimmed quarter. They move the
    // clock, but by no more than the reach, the limit for one sample.
    let third = voted(&[0.0, 0.0, 0.0, 0.0, 0.0, 500.0, 500.0, 500.0]).offset();
    assert!(third > 0 && third < seconds(30.0), "{third}");
}

#[test]
fn one_vote_moves_a_clock_by_no_more_than_its_reach() {
    let moved = voted(&[300.0, 200.0, -10.0, 350.0, 250.0]).offset();
    assert!((0..=seconds(42.0)).contains(&moved), "{moved}");
}

#[test]
fn a_clock_that_joins_devices_that_agree_is_there_at_once() {
    let clock = voted(&[200.0, 200.2, 199.9, 200.1, -30.0]);
    assert_eq!(clock.offset(), seconds(200.0), "the median of all");
}

/// All neighbours show 1.9 s more than the clock, for half a day: the largest difference that is
/// still a hold.
#[test]
fn mesh_55_holds_move_a_clock_less_and_less() {
    let mut clock = heard(Grade::Poor, &[0.0; 4]);
    let mut first_hour = 0;
    for n in 1..=43_200_u64 {
        let offset = clock.offset() + seconds(1.9);
        let now = n * SECOND;
        clock.samples = (0..8).map(|name| ClockSample { name, offset, at: now }).collect();
        clock.vote(8, now, &mut rng(0));
        if n == 3_600 {
            first_hour = clock.offset();
        }
    }
    assert_eq!(clock.state(), ClockState::Agreed);
    assert!(first_hour < seconds(25.0), "{first_hour}");
    assert!(clock.offset() - first_hour < seconds(12.0), "{}", clock.offset());
}

#[test]
fn a_bound_that_is_known_is_a_grade_of_its_own() {
    let mut clock = heard(Grade::None, &[]);
    for (within, grade) in
        [(2.0, Grade::Good), (11.0, Grade::Good), (60.0, Grade::Fair), (9_000.0, Grade::Poor)]
    {
        clock.read_bounded(0, seconds(within));
        assert_eq!(clock.grade(), grade);
    }
    assert_eq!(clock.bound_us(), seconds(600.0));
    clock.read_bounded(0, seconds(11.0));
    say(&mut clock, &[20.0; 5], 0);
    clock.vote(5, 0, &mut rng(0));
    assert_eq!((clock.offset(), clock.state()), (0, ClockState::Doubtful));
}

#[test]
fn a_pinned_clock_does_not_hear_a_minute() {
    let mut clock = heard(Grade::Good, &[60.0, 60.1, 60.2, 60.0]);
    clock.vote(4, 0, &mut rng(1));
    assert_eq!((clock.offset(), clock.state()), (0, ClockState::Doubtful));
    assert_eq!(clock.neighbour_difference(), Some(seconds(60.05)));
}

#[test]
fn mesh_26_a_doubtful_clock_stays_until_the_person_decides() {
    let mut clock = heard(Grade::Fair, &[]);
    for n in 0..100 {
        say(&mut clock, &[400.0, 400.1, 400.2], n * SECOND);
        clock.vote(3, n * SECOND, &mut rng(n));
        assert_eq!((clock.state(), clock.offset()), (ClockState::Doubtful, 0));
    }
    assert!(clock.trust_neighbours(100 * SECOND));
    assert_eq!((clock.offset(), clock.grade()), (seconds(400.1), Grade::Poor));
    assert!(!clock.trust_neighbours(100 * SECOND));
}

/// The device's own clock is read each minute; the user's decision holds for its readings until it
/// is stepped.
#[test]
fn mesh_56_a_decision_lasts_until_the_own_clock_is_stepped() {
    let mut clock = heard(Grade::Fair, &[400.0, 400.1, 400.2]);
    clock.vote(3, 0, &mut rng(0));
    assert!(clock.trust_neighbours(0));
    for _ in 0..60 {
        clock.read_own(seconds(0.2), Grade::Fair);
        assert_eq!(clock.trusted_correction(), Some(seconds(400.1)));
        assert!((clock.offset() - seconds(400.1)).abs() < seconds(1.0));
    }
    clock.read_own(seconds(60.0), Grade::Fair);
    assert_eq!((clock.trusted_correction(), clock.grade()), (None, Grade::Fair));
    assert!(clock.moved_by().abs() <= Grade::Fair.bound_us());
}

#[test]
fn mesh_57_a_doubt_that_nobody_repeats_ends() {
    let mut clock = heard(Grade::Good, &[86_400.0; 4]);
    clock.vote(4, 0, &mut rng(0));
    assert_eq!(clock.state(), ClockState::Doubtful);
    clock.update_state(0, 30 * SECOND);
    assert!(!clock.trust_neighbours(30 * SECOND), "whoever said so was not heard for long");
    clock.update_state(0, 61 * SECOND);
    assert_eq!((clock.neighbour_difference(), clock.state()), (None, ClockState::Alone));
}

#[test]
fn mesh_57_an_agreement_ends_with_those_who_agreed_and_with_a_step() {
    let agreed = || {
        let mut clock = heard(Grade::Poor, &[]);
        for n in 0..12 {
            say(&mut clock, &[0.0; 5], n * SECOND);
            clock.vote(5, n * SECOND, &mut rng(n));
        }
        assert_eq!(clock.state(), ClockState::Agreed);
        clock
    };
    let mut clock = agreed();
    clock.update_state(0, 20 * SECOND);
    assert_eq!(clock.state(), ClockState::Agreed, "a short silence is no farewell");
    clock.update_state(0, 50 * SECOND);
    assert_eq!(clock.state(), ClockState::Alone);
    let mut clock = agreed();
    clock.read_own(seconds(3_600.0), Grade::Poor);
    assert_eq!(clock.state(), ClockState::Seeking);
}

#[test]
fn mesh_58_a_vote_does_not_wait_for_ever_for_a_silent_neighbour() {
    let mut clock = heard(Grade::Poor, &[]);
    let mut first = None;
    for n in 0..30_u64 {
        say(&mut clock, &[120.0; 6], n * SECOND);
        if clock.vote(7, n * SECOND, &mut rng(n)) {
            first = first.or(Some(n));
        }
    }
    assert_eq!((first, clock.state()), (Some(10), ClockState::Seeking));
    assert_eq!(clock.offset(), seconds(120.0));
}

#[test]
fn mesh_24_a_step_of_the_system_clock_moves_network_time_by_the_bound_alone() {
    let mut clock = heard(Grade::Good, &[]);
    clock.read_own(seconds(1.0), Grade::Good);
    assert_eq!(clock.offset(), 0);
    clock.read_own(seconds(100.0), Grade::Good);
    assert_eq!(clock.offset(), seconds(97.5));
}

#[test]
fn mesh_25_the_mode_of_the_paper_is_not_the_default() {
    assert_eq!(ClockMode::default(), ClockMode::Level);
    let mut clock = MeshClock::new(ClockMode::Paper, Grade::Good, 0);
    say(&mut clock, &[900.0, 900.1, 900.2], 0);
    clock.vote(4, 0, &mut rng(1));
    assert!(clock.offset() >= seconds(900.0), "the paper's vote knows no bound");
    assert_eq!(clock.mode(), ClockMode::Paper);
}

#[test]
fn a_device_without_a_time_does_not_vote() {
    let mut clock = heard(Grade::None, &[5.0, 5.0, 5.0]);
    assert!(!clock.vote(4, 0, &mut rng(1)));
}

/// One change of a clock between two checks of the invariant.
#[derive(Clone, Debug)]
struct Turn {
    samples: Vec<(Name, i64)>,
    step_s: i64,
    /// The bound in µs. `None`: the bound is that of a grade, selected by number.
    bound: Option<i64>,
    grade: usize,
    trusts: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let samples = proptest::collection::vec((0u64..40, -2_000_000_000i64..2_000_000_000), 0..40);
    let bound = proptest::option::of(0i64..700_000_000);
    let turn = (samples, -400i64..400, bound, 1usize..4, any::<bool>()).prop_map(
        |(samples, step_s, bound, grade, trusts)| Turn { samples, step_s, bound, grade, trusts },
    );
    proptest::collection::vec(turn, 1..60)
}

proptest! {
    /// Invariant W3, for any samples and any steps of the device's own clock.
    #[test]
    fn mesh_20_no_clock_leaves_its_bound(seed: u64, turns in turns()) {
        let mut rng = rng(seed);
        let mut clock = MeshClock::new(ClockMode::Level, Grade::Poor, 0);
        for (turn, now) in turns.into_iter().zip(0..) {
            let rtc = clock.rtc + turn.step_s * 1_000_000;
            let now = now * SECOND;
            let grade = [Grade::None, Grade::Poor, Grade::Fair, Grade::Good][turn.grade];
            match turn.bound {
                Some(bound) => clock.read_bounded(rtc, bound),
                None => clock.read_own(rtc, grade),
            }
            prop_assert!(clock.moved_by().abs() <= clock.bound_us());
            for (name, offset) in turn.samples {
                clock.forget_name(name);
                clock.samples.push(ClockSample { name, offset, at: now });
            }
            clock.vote(4, now, &mut rng);
            prop_assert!(clock.moved_by().abs() <= clock.bound_us());
            if turn.trusts {
                // The user's decision moves the device's own clock by the difference that the
                // neighbours last showed.
                clock.trust_neighbours(now);
            }
            prop_assert!(clock.moved_by().abs() <= clock.bound_us());
        }
    }
}

/// Returns a clock with a vote of another project, off by `own` seconds.
fn rival(mode: ClockMode, own: f64) -> MeshClock {
    MeshClock::new(mode, Grade::Poor, seconds(own))
}

/// Sends beacons with these names and offsets, in seconds, at `now`.
fn beacons(clock: &mut MeshClock, beacons: &[(Name, f64)], now: u64) {
    for (name, offset) in beacons {
        let stamp = (now.cast_signed() + seconds(*offset)).unsigned_abs() / 125_000;
        clock.add_sample(*name, stamp, 0, now);
    }
}

/// Noon of 2027-01-15, µs since 1970.
const NOON: u64 = 1_800_014_400_000_000;

#[test]
fn a_median_needs_21_beacons_and_leaves_outliers_out() {
    let mut clock = rival(ClockMode::OutlierMedian, -400.0);
    let honest: Vec<(Name, f64)> = (0_u32..18).map(|n| (n.into(), 0.1 * f64::from(n))).collect();
    beacons(&mut clock, &honest, NOON);
    assert!(!clock.vote(18, NOON, &mut rng(1)), "18 beacons are too few");
    beacons(&mut clock, &[(90, 5_000.0), (91, 5_000.0), (92, 5_000.0)], NOON);
    assert!(clock.vote(21, NOON, &mut rng(1)));
    assert!((clock.offset() - seconds(0.9)).abs() < seconds(0.5), "{}", clock.offset());
    // Less than two minutes off: the clock stays, and pauses for a day.
    let near: Vec<(Name, f64)> = (0..21).map(|name| (name, 100.0)).collect();
    beacons(&mut clock, &near, NOON);
    assert!(!clock.vote(21, NOON, &mut rng(1)));
    let far: Vec<(Name, f64)> = (0..21).map(|name| (name, 300.0)).collect();
    beacons(&mut clock, &far, NOON + SECOND);
    assert!(!clock.vote(21, NOON + SECOND, &mut rng(1)), "it pauses");
    assert!(clock.vote(21, NOON + 86_401 * SECOND, &mut rng(1)));
}

#[test]
fn the_first_plausible_time_is_taken_whoever_sends_it() {
    let lost = 1_715_770_351.0 - 1_800_014_400.0;
    let mut clock = rival(ClockMode::FirstPlausible, lost);
    beacons(&mut clock, &[(1, lost)], NOON);
    assert!(!clock.vote(1, NOON, &mut rng(1)), "as lost as this one");
    beacons(&mut clock, &[(2, 86_400.0)], NOON + SECOND);
    beacons(&mut clock, &[(3, 0.0)], NOON + 2 * SECOND);
    assert!(clock.vote(3, NOON + 2 * SECOND, &mut rng(1)));
    assert!((clock.offset() - seconds(86_400.0)).abs() < SECOND.cast_signed());
    beacons(&mut clock, &[(3, 0.0)], NOON + 3 * SECOND);
    assert!(!clock.vote(3, NOON + 3 * SECOND, &mut rng(1)), "a plausible clock is never set again");
}

#[test]
fn a_quorum_is_of_three_different_peers_within_a_minute() {
    let mut clock = rival(ClockMode::PeerQuorum, -400.0);
    beacons(&mut clock, &[(1, 0.0), (1, 1.0), (1, 2.0), (2, 20.0), (3, 500.0)], NOON);
    assert!(!clock.vote(3, NOON, &mut rng(1)), "two peers agree, however often one of them sends");
    beacons(&mut clock, &[(4, 50.0)], NOON);
    assert!(clock.vote(4, NOON, &mut rng(1)));
    assert!((clock.offset() - seconds(20.0)).abs() < SECOND.cast_signed(), "{}", clock.offset());
    beacons(&mut clock, &[(5, 900.0), (6, 900.0), (7, 900.0), (8, 900.0)], NOON + SECOND);
    assert!(!clock.vote(8, NOON + SECOND, &mut rng(1)), "once");
}
