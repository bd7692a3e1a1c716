//! Bounds of an entry: frames of clients and of the first mix, and rounds under way.

use super::*;

#[test]
fn mix_30_an_entry_has_four_rounds_of_a_service_under_way() {
    let mut config = config(3);
    // Six rounds would be asked for ahead.
    config.services.iter_mut().for_each(|policy| policy.lead_ms = 28_000);
    let mut city = City::with_config(config);
    let mut most = 0;
    for second in 0..90 {
        city.run_until(OPEN.plus_ms(1_000 * second));
        for service in Service::ALL {
            let of = city.entry.rounds().filter(|id| id.service == service).count();
            assert!(of <= 4, "{service:?} after {second} s: {of}");
            most = most.max(of);
        }
    }
    assert_eq!(most, 4);
    assert_eq!(city.net.refused, [], "no mix is asked for a fifth");
}

/// The wake at the close may come after a SUBMIT that was late.
#[test]
fn mix_28_a_submit_at_the_close_is_late_before_the_entry_wakes_too() {
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let submit = Frame::Round(TALK, FrameBody::Submit(vec![7; 416]));
    let close = OPEN.plus_ms(4_000);
    city.entry.handle(Input::FromClient(1, submit), close, &mut rng).expect("a client");
    let late = Frame::Round(TALK, FrameBody::Missed(MissedReason::Late));
    let told = std::iter::from_fn(|| city.entry.poll());
    assert!(
        told.into_iter().any(|output| matches!(output, Output::ToClient(1, said) if said == late))
    );
}

#[test]
fn mix_28_configs_are_asked_for_twice_for_each_newest_one() {
    let mut city = City::new();
    let asks = |city: &mut City| {
        let before = city.refused.len();
        for _ in 0..4 {
            city.input(Input::FromClient(1, Frame::FetchConfig { from: [0; 32] }));
        }
        4 - (city.refused.len() - before)
    };
    assert_eq!(asks(&mut city), 2);
    let next = successor(&city, OPEN.plus_ms(Time::HOUR_MS));
    city.input(Input::Config(next));
    assert_eq!(asks(&mut city), 2, "there is a newer one");
    assert!(city.refused.iter().all(|error| *error == CoordinatorError::TooOften));
}

#[test]
fn mix_11_replies_of_another_offset_end_the_round_at_the_entry() {
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    city.net.meddler = Some(Box::new(|at, to, mut frame| {
        if let (0, Neighbour::Previous, Frame::Round(TALK, FrameBody::Replies(items))) =
            (at, to, &mut frame)
        {
            items.offset += 1;
        }
        Some(frame)
    }));
    city.send_onions(1, TALK, &[7; 416]);
    city.run_until(OPEN.plus_ms(5_000));
    let ending = city.over.iter().find(|(id, _)| *id == TALK).map(|(_, ending)| *ending);
    assert_eq!(ending, Some(Ending::Aborted(AbortReason::Malformed, AbortCause::Replies)));
}
