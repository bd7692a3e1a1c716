//! Control frames and the pairing code.

use mezza_guard::coin::CoinPurpose;
use mezza_guard::keys::{GuardClientId, PAIRING_CODE_CHARS, PairingKey};
use mezza_guard::wire::control::{Control, ControlChannel, GuardMode, RefusalCode, SlotValue};
use mezza_sim::SimRng;

fn slot(index: u64) -> SlotValue {
    SlotValue { purpose: CoinPurpose::LinkAnswering, index, value: [7; 32] }
}

/// Each frame with its bytes on the inside wire.
pub fn all() -> Vec<(Control, usize)> {
    vec![
        (Control::Hail { client: GuardClientId([3; 16]), nonce: [4; 32] }, 52),
        (Control::Hello { nonce: [5; 32] }, 36),
        (Control::Open { mode: GuardMode::Coins, dest: 7 }, 23),
        (Control::Slot(slot(1)), 61),
        (Control::Point(slot(2)), 61),
        (Control::Coin(slot(3)), 61),
        (Control::Seed([9; 32]), 52),
        (Control::Ready, 20),
        (Control::Refused(RefusalCode::SlotTaken), 21),
    ]
}

fn channels() -> [ControlChannel; 2] {
    let key = PairingKey::random(SimRng::new(1, 0).rng());
    [
        ControlChannel::of_guard(&key, &[1; 32], &[2; 32]),
        ControlChannel::of_client(&key, &[1; 32], &[2; 32]),
    ]
}

#[test]
fn control_frames_have_their_sizes_and_are_read_again() {
    let [mut guard, mut client] = channels();
    for (control, bytes) in all() {
        let is_clear = matches!(control, Control::Hail { .. } | Control::Hello { .. });
        let frame = if is_clear { control.encode_clear() } else { guard.seal(&control) };
        assert_eq!(frame.len(), bytes, "{control:?}");
        let read = if is_clear { Control::read_clear(&frame) } else { client.open(&frame) };
        assert_eq!(read, Ok(control));
    }
}

#[test]
fn forged_repeated_and_reflected_frames_are_refused_and_move_nothing() {
    let [mut guard, mut client] = channels();
    let first = guard.seal(&Control::Ready);
    for at in 0..first.len() {
        let mut forged = first.clone();
        forged[at] ^= 1;
        assert!(client.open(&forged).is_err(), "{at}");
    }
    assert!(guard.open(&first).is_err(), "reflected");
    assert_eq!(client.open(&first), Ok(Control::Ready));
    assert!(client.open(&first).is_err(), "repeated");
    assert!(
        client.open(&Control::Hello { nonce: [0; 32] }.encode_clear()).is_err(),
        "clear in a sealed channel"
    );
    assert!(Control::read_clear(&first).is_err());
    let back = client.seal(&Control::Open { mode: GuardMode::Blind, dest: 1 });
    assert_eq!(guard.open(&back), Ok(Control::Open { mode: GuardMode::Blind, dest: 1 }));
}

#[test]
fn a_pairing_code_is_read_again_and_a_mistyped_one_is_not() {
    let key = PairingKey::random(SimRng::new(2, 0).rng());
    let code = String::from_utf8(key.pairing_code().expose().to_vec()).expect("letters");
    assert_eq!(code.len(), PAIRING_CODE_CHARS);
    let typed = format!("{} {}", code[..28].to_lowercase(), &code[28..]);
    assert_eq!(PairingKey::from_code(&typed).expect("the code").client_id(), key.client_id());
    for at in 0..code.len() {
        let other = if code.as_bytes()[at] == b'A' { "B" } else { "A" };
        let wrong = [&code[..at], other, &code[at + 1..]].concat();
        assert!(PairingKey::from_code(&wrong).is_err(), "{at}");
    }
    for wrong in ["", "A", "hello", &code[1..]] {
        assert!(PairingKey::from_code(wrong).is_err());
    }
}
