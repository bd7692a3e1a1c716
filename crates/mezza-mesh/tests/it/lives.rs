//! Users of a crowd who meet long after a message was written, for each life of its cell.

use mezza_mesh::crew::{Crew, CrewSettings};
use mezza_mesh::limits::{NEVER, SECOND};
use mezza_mesh::{CellLife, Grade};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;

/// Time at which a message is written: the start of an epoch of every life, µs since 1970.
const START: u64 = 1_800_057_600_000_000;

/// Writes a message at [`START`] and brings its receiver into range `after_s` seconds later. Returns
/// the number of messages that arrived while the receiver had the key.
fn count_arrived(life: CellLife, after_s: u64) -> u64 {
    let settings = CrewSettings { life, every: NEVER, ring: 128, ..CrewSettings::default() };
    let mut crew = Crew::new(settings, 2);
    for seed in 0..2 {
        crew.add(Grade::Good, 0, ChaCha20Rng::seed_from_u64(seed), START);
    }
    crew.count_from(START);
    crew.send_message(0, 1, START);
    let mut from = None;
    for ms in 0..1_000 * (after_s + 30) {
        let now = START + ms * 1_000;
        if ms == 1_000 * after_s {
            from = Some(crew.add_contact(0, 1, now));
        }
        for device in 0..2 {
            while crew.due(device) <= now {
                let Some((frame, _)) = crew.next_frame(device, now) else { break };
                if let Some([at_first, at_second]) = from {
                    // The first number names device 1 at device 0.
                    let contact = if device == 0 { at_second } else { at_first };
                    crew.handle_frame(1 - device, contact, &frame, now);
                }
            }
        }
    }
    crew.deliveries().arrived
}

#[test]
fn mesh_2_a_crowd_opens_a_carried_cell_until_its_life_ends() {
    assert_eq!(START / SECOND % 43_200, 0);
    for (life, after_s, arrived) in [
        (CellLife::Minute, 0, 1),
        (CellLife::Minute, 70, 0),
        (CellLife::FiveMinutes, 200, 1),
        (CellLife::HalfHour, 1_900, 1),
        (CellLife::HalfHour, 3_610, 0),
    ] {
        assert_eq!(count_arrived(life, after_s), arrived, "{life:?} after {after_s} s");
    }
}
