use super::*;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

fn seconds(s: f64) -> i64 {
    (s * 1e6) as i64
}

/// A clock that has heard these offsets, in seconds.
fn heard(grade: Grade, samples: &[f64]) -> MeshClock {
    let mut clock = MeshClock::new(ClockMode::Anchored, grade, 0);
    clock.samples = samples.iter().zip(0..).map(|(s, n)| (n, seconds(*s))).collect();
    clock
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

#[test]
fn mesh_22_two_samples_move_nothing() {
    for (samples, state) in [([40.0, 40.0], ClockState::Doubtful), ([1.0, 1.0], ClockState::Alone)]
    {
        let mut clock = heard(Grade::Poor, &samples);
        assert!(!clock.vote(2, &mut rng(0)));
        assert_eq!((clock.offset(), clock.state()), (0, state));
    }
}

#[test]
fn mesh_23_one_sample_a_name() {
    let mut clock = MeshClock::new(ClockMode::Anchored, Grade::Poor, 0);
    for _ in 0..5 {
        clock.hear(7, 800, 0, 0);
    }
    assert_eq!(clock.samples.len(), 1);
    assert!(!clock.vote(4, &mut rng(0)));
}

#[test]
fn a_stamp_is_the_middle_of_its_quantum_and_as_old_as_the_link_takes() {
    let mut clock = MeshClock::new(ClockMode::Anchored, Grade::Poor, 0);
    clock.hear(1, 80, 20_000, 5 * SECOND);
    assert_eq!(clock.samples, [(1, seconds(10.0 + 0.0625 + 0.02 - 5.0))]);
}

#[test]
fn a_clock_in_place_drifts_by_a_tenth_of_a_millisecond() {
    let mut clock = heard(Grade::Fair, &[0.3, 0.2, 0.4, 90.0]);
    for n in 1..=12_u32 {
        clock.samples = heard(Grade::Fair, &[0.3, 0.2, 0.4, 90.0]).samples;
        clock.vote(4, &mut rng(u64::from(n)));
        assert_eq!(clock.offset(), 100 * i64::from(n));
    }
    assert_eq!(clock.state(), ClockState::Agreed);
}

#[test]
fn a_pinned_clock_does_not_hear_a_minute() {
    let mut clock = heard(Grade::Good, &[60.0, 60.1, 60.2, 60.0]);
    clock.vote(4, &mut rng(1));
    assert_eq!((clock.offset(), clock.state()), (0, ClockState::Doubtful));
    assert_eq!(clock.elsewhere(), Some(seconds(60.05)));
}

#[test]
fn mesh_26_a_doubtful_clock_stays_until_the_person_decides() {
    let mut clock = heard(Grade::Fair, &[400.0, 400.1, 400.2]);
    for n in 0..100 {
        clock.samples = heard(Grade::Fair, &[400.0, 400.1, 400.2]).samples;
        clock.vote(4, &mut rng(n));
        assert_eq!((clock.state(), clock.offset()), (ClockState::Doubtful, 0));
    }
    assert!(clock.trust_neighbours());
    assert_eq!((clock.offset(), clock.grade()), (seconds(400.1), Grade::Poor));
    assert!(!clock.trust_neighbours());
}

#[test]
fn the_group_nearest_to_the_own_clock_wins() {
    let clock = heard(Grade::Poor, &[]);
    let mut samples = heard(Grade::Poor, &[-9.0, -9.1, -9.2, 5.0, 5.1, 5.2, 5.3, 1.0, 1.1]).samples;
    assert_eq!(clock.group(&mut samples), Some(seconds(5.15)));
    assert_eq!(clock.group(&mut samples[..2]), None);
}

#[test]
fn of_a_few_samples_those_that_agree_most_count() {
    let clock = heard(Grade::Poor, &[]);
    let vote =
        |samples: &[f64]| clock.draw_some(&mut heard(Grade::Poor, samples).samples, &mut rng(3));
    assert_eq!(vote(&[7.0, 90.0, 7.4]), seconds(7.2));
    assert_eq!(vote(&[7.0, 90.0, 7.4, 1.0, 7.2]), seconds(7.2), "three against the nearest one");
    assert_eq!(vote(&[60.0, 7.0, 60.4, 7.4, 1.0]), seconds(7.2), "of two pairs the nearer one");
    assert_eq!(vote(&[-50.0, 20.0, 80.0]), seconds(20.0));
}

#[test]
fn mesh_24_a_step_of_the_system_clock_moves_network_time_by_the_bound_alone() {
    let mut clock = heard(Grade::Good, &[]);
    clock.read(seconds(1.0), Grade::Good);
    assert_eq!(clock.offset(), 0);
    clock.read(seconds(100.0), Grade::Good);
    assert_eq!(clock.offset(), seconds(97.5));
}

#[test]
fn mesh_25_the_mode_of_the_paper_is_not_the_default() {
    assert_eq!(ClockMode::default(), ClockMode::Anchored);
    let mut clock = MeshClock::new(ClockMode::Paper, Grade::Good, 0);
    clock.samples = heard(Grade::Good, &[900.0, 900.1, 900.2]).samples;
    clock.vote(4, &mut rng(1));
    assert!(clock.offset() >= seconds(900.0), "the paper's vote knows no bound");
    assert_eq!(clock.mode(), ClockMode::Paper);
}

#[test]
fn a_device_without_a_time_does_not_vote() {
    let mut clock = heard(Grade::None, &[5.0, 5.0, 5.0]);
    assert!(!clock.vote(4, &mut rng(1)));
}

proptest! {
    /// W3: whatever is heard, and however the own clock steps.
    #[test]
    fn mesh_20_no_clock_leaves_its_bound(
        seed: u64,
        votes in proptest::collection::vec(
            (proptest::collection::vec((0u32..40, -2_000_000_000i64..2_000_000_000), 0..40), -400i64..400, 1usize..4),
            1..60,
        ),
    ) {
        let mut rng = rng(seed);
        let mut clock = MeshClock::new(ClockMode::Anchored, Grade::Poor, 0);
        for (samples, step, grade) in votes {
            let grade = [Grade::None, Grade::Poor, Grade::Fair, Grade::Good][grade];
            clock.read(clock.anchor + step * 1_000_000, grade);
            prop_assert!(clock.moved().abs() <= grade.bound());
            for (name, sample) in samples {
                clock.forget(name);
                clock.samples.push((name, sample));
            }
            clock.vote(4, &mut rng);
            prop_assert!(clock.moved().abs() <= grade.bound());
        }
    }
}
