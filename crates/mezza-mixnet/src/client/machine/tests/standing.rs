//! The level, one condition at a time (MIX-31, MIX-75, MIX-83).

use super::partners::rng;
use super::*;
use crate::config::ServicePolicy;
use crate::config::tests::successor;

/// A config with the noise of `standard`.
fn standard() -> Config {
    let mut config = config(3);
    config.services.iter_mut().for_each(|policy| NoisePreset::Standard.fill_policy(policy));
    config
}

/// A client in this network for which everything holds but perhaps the noise.
fn proven(config: &Config, round_of: [u8; 32]) -> Client {
    let mut client = joined(config);
    client.link =
        Link::Joined { trusted: true, failed: 0, asked: None, fetching: false, until: None };
    client.standing.verified = true;
    client.standing.draw_needed(&mut rng());
    (0..8).for_each(|_| client.on_round_returned(128, 5_000, round_of, NOW));
    client.outputs.clear();
    client
}

fn level(client: &mut Client, now: Time) -> Option<u8> {
    client.standing.forget_told();
    client.notify_changes(now);
    core::iter::from_fn(|| client.poll()).find_map(|output| match output {
        Output::Level(level) => Some(level),
        _ => None,
    })
}

#[test]
fn mix_31_level_4_needs_a_line_and_settings_that_verified() {
    let config = standard();
    let mut client = proven(&config, config.hash());
    assert_eq!(level(&mut client, NOW), Some(4));
    client.link = Link::Down { at: NOW, failed: 0 };
    assert_eq!(level(&mut client, NOW), Some(1), "no line");
    let mut client = proven(&config, config.hash());
    client.standing.verified = false;
    assert_eq!(level(&mut client, NOW), Some(1), "the last settings did not verify");
}

#[test]
fn mix_31_the_number_of_rounds_is_uniform_in_3_to_8() {
    let config = standard();
    let mut seen = [0_u32; 9];
    for seed in 0..1_200 {
        let mut client = joined(&config);
        client.link =
            Link::Joined { trusted: true, failed: 0, asked: None, fetching: false, until: None };
        client.standing.verified = true;
        client.standing.draw_needed(&mut ChaCha20Rng::seed_from_u64(seed));
        let needed = (1..=8).find(|_| {
            client.on_round_returned(128, 5_000, config.hash(), NOW);
            level(&mut client, NOW) == Some(4)
        });
        seen[needed.expect("after eight it is there")] += 1;
    }
    // Five standard deviations of a count of 200.
    assert!(seen[3..].iter().all(|count| count.abs_diff(200) < 65), "{seen:?}");
}

#[test]
fn mix_75_a_config_that_is_over_proves_no_level() {
    let config = standard();
    let mut client = proven(&config, config.hash());
    assert_eq!(level(&mut client, config.valid_until.minus_ms(1)), Some(4));
    assert_eq!(level(&mut client, config.valid_until), Some(1));
}

/// Rounds run under a successor with less noise, and by a clock that was put back the noisier config before
/// it is in force. Locks and unlocks in between forget what was told, and not what the rounds proved.
#[test]
fn mix_83_a_lock_does_not_forget_the_noise_of_the_last_round() {
    let strong = standard();
    let mut weak = successor(&strong);
    for (policy, little) in weak.services.iter_mut().zip(config(3).services) {
        let base_round = policy.base_round;
        *policy = ServicePolicy { base_round, base_time: policy.base_time, ..little };
    }
    let mut client = proven(&strong, strong.hash());
    let signed = signed(&weak, SignatureSet::Predecessor, &[0, 1]);
    client.chain.as_mut().expect("it joined").accept_config(&signed, NOW).expect("a successor");
    client.on_round_returned(128, 5_000, weak.hash(), NOW);
    assert_eq!(level(&mut client, NOW), Some(1), "after a lock");
    // The line goes to a client that idles, and back.
    let dice = &mut rng();
    let mut unlocked = joined(&strong);
    unlocked.chain.clone_from(&client.chain);
    let locked: Client = Client::idle(client.into_live_line(NOW), portable(), NOW, dice);
    assert!(unlocked.attach_line(locked.into_live_line(NOW), NOW, dice), "the same network");
    assert_eq!(level(&mut unlocked, NOW), Some(1), "after an unlock");
    // Rounds of the config in force raise it at once: enough of them came back.
    unlocked.on_round_returned(128, 5_000, strong.hash(), NOW);
    assert_eq!(level(&mut unlocked, NOW), Some(4));
}

/// Rounds of a successor with more noise came back, and by a clock that was put back the config before it
/// is in force.
#[test]
fn mix_83_the_level_counts_the_noise_of_the_config_in_force() {
    let weak = config(3);
    let mut strong = successor(&weak);
    strong.services.iter_mut().for_each(|policy| NoisePreset::Standard.fill_policy(policy));
    let mut client = proven(&weak, weak.hash());
    let signed = signed(&strong, SignatureSet::Predecessor, &[0, 1]);
    client.chain.as_mut().expect("it joined").accept_config(&signed, NOW).expect("a successor");
    client.on_round_returned(128, 5_000, strong.hash(), NOW);
    client.outputs.clear();
    client.notify_changes(NOW);
    assert!(matches!(client.poll(), Some(Output::Level(1))));
    client.notify_changes(strong.valid_from);
    assert!(matches!(client.poll(), Some(Output::Level(4))), "its own noise counts from then on");
}
