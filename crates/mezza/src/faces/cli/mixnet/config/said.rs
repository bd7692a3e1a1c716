//! All values that guardians sign, one line per value or group: the content of a config, and its
//! changes from the config before.

use mezza_core::Time;
use mezza_mixnet::config::{Config, Server, ServicePolicy};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::privacy::{NetworkPromise, fifty_becomes};

use super::hex;
use crate::faces::cli::show;
use mezza_host::api::figures;
use mezza_host::api::words::mixnet::law_name;

/// Returns every value of a config, in the order of the signed bytes.
pub(super) fn list_values(config: &Config) -> Vec<String> {
    let mut lines = vec![
        format!("network  {}", hex(&config.network.0)),
        match config.seq {
            0 => "config   0, the first of its network".into(),
            seq => format!("config   {seq}, behind {}", hex(&config.prev)),
        },
        format!("from     {}", format_utc(config.valid_from)),
        format!("until    {}", format_utc(config.valid_until)),
        format!(
            "needs    {} of {} guardians to sign the next config",
            config.threshold,
            config.guardians.len()
        ),
    ];
    lines.extend(config.guardians.iter().map(|key| format!("guardian {}", hex(key))));
    lines.extend(server_lines("entry", &config.coordinator));
    lines.extend(server_lines("bucket", &config.bucket));
    for (mix, at) in config.mixes.iter().zip(0..) {
        let name = format!("mix {at}");
        lines.extend(server_lines(&name, &mix.server));
        lines.push(format!("{name:<8} operator {:?}", mix.operator));
    }
    lines.push(format!("users    {} at most", config.users_max));
    lines.extend(config.services.iter().flat_map(service_lines));
    lines
}

/// The lines that `next` lacks (minus) and adds (plus), compared with `before`.
pub(super) fn list_changes(before: &Config, next: &Config) -> Vec<String> {
    let before = list_values(before);
    let next = list_values(next);
    let gone = before.iter().filter(|line| !next.contains(line)).map(|line| format!("- {line}"));
    let new = next.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    let same = next.iter().filter(|line| before.contains(line)).count();
    let mut lines: Vec<String> = gone.chain(new).collect();
    lines.push(format!("as before: the other {same} lines of `mezza mixnet config show`"));
    lines
}

/// Returns the consequences of a config for its users; these lines are not signed.
pub(super) fn list_consequences(config: &Config) -> Vec<String> {
    let services = config.services.iter().flat_map(|policy| service_consequences(config, policy));
    services.chain(promise_lines(config)).collect()
}

fn service_consequences(config: &Config, policy: &ServicePolicy) -> Vec<String> {
    let name = short_name(policy);
    #[expect(clippy::cast_precision_loss, reason = "people read megabytes")]
    let megabytes = figures::day_bytes(config, policy) as f64 / 1e6;
    let mut lines = vec![format!("{name:<8} {megabytes:.1} MB a client and day")];
    if policy.buckets > 1 {
        lines.push(format!(
            "{name:<8} who has a card knows which of {} parts of the clients its owner is in",
            policy.buckets
        ));
    }
    lines
}

/// Returns the promise over all services in words (MIX-70).
fn promise_lines(config: &Config) -> Vec<String> {
    let promise = NetworkPromise::from_config(config);
    if promise.is_none() {
        return vec!["promise  none: a service has rounds without end".into()];
    }
    let becomes = 100.0 * fifty_becomes(promise.epsilon);
    let [one, two] = [1, 2].map(|years| promise.reached_after(years));
    let kept = if promise.is_kept() { "is kept" } else { "is NOT kept by this noise" };
    let mut lines = vec![
        format!(
            "promise  over a year of all services 50 % becomes at most {becomes:.0} %, but with \
             delta {:.2e}: it {kept} (delta {one:.2e})",
            promise.delta
        ),
        format!("promise  after two years whose budgets are used up delta is {two:.2e}"),
    ];
    if !NoiseFloor::STANDARD.allows_config(config) {
        lines.push("promise  the noise is below `standard`: mixes that ask for it refuse".into());
    }
    lines
}

fn server_lines(name: &str, server: &Server) -> [String; 2] {
    [format!("{name:<8} {}", server.address), format!("{name:<8} key {}", hex(&server.key))]
}

fn service_lines(policy: &ServicePolicy) -> [String; 6] {
    let name = short_name(policy);
    let epsilon = format_decimal(policy.epsilon_micro.into(), 6);
    let delta = format_decimal(policy.delta_pico, 12);
    [
        format!(
            "{name:<8} round {} opens {}, then one every {} ms",
            policy.base_round,
            format_utc(policy.base_time),
            policy.interval_ms
        ),
        format!(
            "{name:<8} ask {}, lead {}, collect {}, mix limit {} ms",
            policy.ask_ms, policy.lead_ms, policy.collect_ms, policy.mix_limit_ms
        ),
        format!("{name:<8} slots {}, buckets {}", policy.slots, policy.buckets),
        format!(
            "{name:<8} noise {}, mean {}, scale {}",
            law_name(policy.mode),
            policy.mu,
            policy.scale
        ),
        format!("{name:<8} traps {} singles, {} pairs", policy.traps.singles, policy.traps.pairs),
        format!("{name:<8} promise eps {epsilon}, delta {delta}, {} rounds", policy.rounds),
    ]
}

const fn short_name(policy: &ServicePolicy) -> &'static str {
    match policy.service.number() {
        1 => "talk",
        2 => "call",
        _ => "invite",
    }
}

/// Formats `number * 10^-digits` as an exact decimal fraction.
fn format_decimal(number: u64, digits: u32) -> String {
    let unit = 10_u64.pow(digits);
    let fraction = format!("{:0width$}", number % unit, width = digits as usize);
    format!("{}.{}", number / unit, fraction.trim_end_matches('0')).trim_end_matches('.').into()
}

/// Formats a time for the user, and exactly in ms.
fn format_utc(time: Time) -> String {
    format!("{} ({} ms)", show::format_utc(time.as_ms()), time.as_ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_servers::mixnet::written;

    /// Changes of a config, each to one value that is signed.
    const CHANGES: [fn(&mut Config); 36] = [
        |c| c.network.0[0] ^= 1,
        |c| (c.seq, c.prev) = (1, [1; 32]),
        |c| c.valid_from = c.valid_from.plus_ms(1),
        |c| c.valid_until = c.valid_until.plus_ms(1),
        |c| c.threshold = 1,
        |c| c.guardians[0][0] ^= 1,
        |c| c.guardians.truncate(2),
        |c| c.coordinator.key[0] ^= 1,
        |c| c.coordinator.address = "elsewhere:1".into(),
        |c| c.bucket.key[0] ^= 1,
        |c| c.bucket.address = "elsewhere:1".into(),
        |c| c.mixes.swap(0, 1),
        |c| c.mixes.truncate(2),
        |c| c.mixes[2].server.key[0] ^= 1,
        |c| c.mixes[2].server.address = "elsewhere:1".into(),
        |c| c.mixes[2].operator = "Eve".into(),
        |c| c.users_max += 1,
        |c| c.services.truncate(2),
        |c| c.services[0].base_round += 1,
        |c| c.services[0].base_time = c.valid_from.plus_ms(1),
        |c| c.services[0].interval_ms += 1,
        |c| c.services[0].ask_ms += 1,
        |c| c.services[0].lead_ms += 1,
        |c| c.services[0].collect_ms += 1,
        |c| c.services[0].mix_limit_ms += 1,
        |c| c.services[0].slots += 1,
        |c| c.services[1].buckets *= 2,
        |c| c.services[0].mode = mezza_mixnet::config::Mode::Paper,
        |c| c.services[0].mu += 2,
        |c| c.services[0].scale += 2,
        |c| c.services[0].traps.singles += 1,
        |c| c.services[0].traps.pairs += 1,
        |c| c.services[0].epsilon_micro += 1,
        |c| c.services[0].delta_pico += 1,
        |c| c.services[0].rounds += 1,
        |c| c.services[2].rounds += 1,
    ];

    #[test]
    fn mix_47_whatever_is_signed_is_shown_and_no_change_is_hidden() {
        let config = written::parse_config(written::EXAMPLE).unwrap();
        for (number, change) in CHANGES.iter().enumerate() {
            let mut next = config.clone();
            change(&mut next);
            assert_ne!(next.hash(), config.hash(), "change {number} changes nothing");
            let told = list_changes(&config, &next);
            assert!(told.len() > 1, "change {number} is hidden");
            assert!(told.iter().any(|line| line.starts_with(['-', '+'])), "{told:?}");
        }
        assert_eq!(list_changes(&config, &config).len(), 1);
    }

    #[test]
    fn promises_are_shown_exactly() {
        let cases = [(0, "0"), (1, "0.000001"), (693_147, "0.693147"), (2_500_000, "2.5")];
        for (micro, shown) in cases {
            assert_eq!(format_decimal(micro, 6), shown);
        }
        assert_ne!(format_decimal(u64::MAX, 12), format_decimal(u64::MAX - 1, 12));
    }

    #[test]
    fn an_operator_forges_no_line() {
        let mut config = written::parse_config(written::EXAMPLE).unwrap();
        let lines_before = list_values(&config).len();
        config.mixes[0].operator = "Ada\nusers    1 at most\u{1b}[2J".into();
        let shown = list_values(&config);
        assert_eq!(shown.len(), lines_before);
        assert!(shown.iter().all(|line| !line.contains(['\n', '\u{1b}'])));
        let unseen = |name: &str| {
            config.mixes[0].operator = name.into();
            list_values(&config)
        };
        let [one, two] = ["Ada\u{1}", "Ada\u{2}"].map(unseen);
        assert_ne!(one, two);
    }
}
