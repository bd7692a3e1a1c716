//! When a note comes over the mixnet, while people write with pauses and are away for a while (MSG-94).

use mezza_core::Time;
use mezza_messenger::ContactId;
use mezza_mixnet::Service;
use mezza_sim::{SimRng, for_each_seed};

use super::recalled::met_in;
use crate::town::{ROUND_MS, Town, config};

/// Hours of each story.
const HOURS: u64 = 6;
/// From one round of calls to the next: four rounds of conversation, as in the network of `mezza up`.
const CALL_MS: u64 = 4 * ROUND_MS;
/// The lateness that hardly any note exceeds: three rounds of calls; and the one that none does, ms.
const P99_MS: u64 = 3 * CALL_MS;
const WORST_MS: u64 = 10 * Time::MINUTE_MS;

/// The pause that half of all are below, ms.
const MEDIAN_MS: u32 = 600_000;

/// A note that has not arrived: its reader, and for how long both could have been reached, ms.
struct Open {
    reader: usize,
    text: String,
    late_ms: u64,
}

/// A pause as people make them: half of them below ten minutes, some of hours.
fn pause_ms(dice: &mut SimRng) -> u64 {
    dice.pause_ms(MEDIAN_MS, 1.5, 2 * Time::SECOND_MS..=2 * Time::HOUR_MS)
}

/// One person of a story.
struct Writer {
    contact: ContactId,
    writes_at: Time,
    /// When the person goes away, or comes back.
    turns_at: Time,
    written: u8,
}

/// Lets a person do what is due.
fn act(town: &mut Town, who: usize, person: &mut Writer, dice: &mut SimRng) -> Option<Open> {
    let now = town.now();
    if now >= person.turns_at {
        let away = town.members[who].net;
        town.members[who].net = !away;
        if away {
            town.hang_up(who);
        }
        // Half an hour here, some minutes away.
        let pause = if away { pause_ms(dice) / 4 } else { 3 * pause_ms(dice) };
        person.turns_at = now.plus_ms(pause);
    }
    if now < person.writes_at || person.written >= 100 {
        return None;
    }
    person.writes_at = now.plus_ms(pause_ms(dice));
    person.written += 1;
    let text = format!("{} of {who}", person.written);
    town.say(who, person.contact, &text);
    Some(Open { reader: 1 - who, text, late_ms: 0 })
}

/// One story; the lateness of what arrived, and what did not.
fn story(seed: u64) -> (Vec<u64>, Vec<String>) {
    let mut config = config();
    for policy in config.services.iter_mut().filter(|policy| policy.service == Service::Call) {
        policy.interval_ms = CALL_MS as u32;
    }
    let (mut town, ben, ann) = met_in(config);
    let dice = &mut SimRng::new(seed, 0);
    let mut people = [ben, ann].map(|contact| Writer {
        contact,
        writes_at: town.now().plus_ms(pause_ms(dice)),
        turns_at: town.now().plus_ms(pause_ms(dice)),
        written: 0,
    });
    let mut open = Vec::<Open>::new();
    let mut late = Vec::new();
    for _ in 0..HOURS * Time::HOUR_MS / ROUND_MS {
        for (who, person) in people.iter_mut().enumerate() {
            open.extend(act(&mut town, who, person, dice));
        }
        let reachable = town.members.iter().all(|member| member.net);
        town.pass(ROUND_MS);
        if open.is_empty() {
            continue;
        }
        let texts = [town.texts(0, ben), town.texts(1, ann)];
        open.retain_mut(|note| {
            let here = texts[note.reader].contains(&note.text);
            note.late_ms += if reachable { ROUND_MS } else { 0 };
            if here {
                late.push(note.late_ms);
            }
            !here
        });
    }
    // What was written last may still be under way.
    let lost = open.into_iter().filter(|note| note.late_ms > WORST_MS).map(|note| note.text);
    (late, lost.collect())
}

#[test]
fn msg_94_slow_a_note_in_the_mixnet_comes_in_time() {
    let mut all = Vec::new();
    for_each_seed(1, |seed| {
        let (late, lost) = story(seed);
        assert_eq!(lost, [""; 0], "never arrived");
        let worst = late.iter().max().copied().unwrap_or(0);
        println!("seed {seed}: {} notes, worst {} s", late.len(), worst / 1_000);
        all.extend(late);
    });
    all.sort_unstable();
    let at = |permille: usize| all[(all.len() - 1) * permille / 1_000] / 1_000;
    println!(
        "{} notes: median {} s, 99 of 100 within {} s, worst {} s",
        all.len(),
        at(500),
        at(990),
        at(1_000)
    );
    assert!(at(990) * 1_000 <= P99_MS && at(1_000) * 1_000 <= WORST_MS);
}
