//! The config of a network as the operator writes it: TOML whose keys are the names of the
//! specification.

use data_encoding::HEXLOWER_PERMISSIVE;
use mezza_core::Time;
use mezza_mixnet::Service;
use mezza_mixnet::config::{Config, MixServer, Mode, NetworkId, Server, ServicePolicy, Traps};
use mezza_mixnet::privacy::{NoisePreset, PresetNoise};
use serde::Deserialize;
use toml::value::{Datetime, Offset};

use mezza_host::api::{Exit, Fault};

/// A complete example config.
pub const EXAMPLE: &str = include_str!("net.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigToml {
    network_id: Hex<16>,
    seq: u64,
    prev: Option<Hex<32>>,
    valid_from: Datetime,
    valid_until: Datetime,
    users_max: u32,
    threshold: u8,
    guardians: Vec<Hex<32>>,
    /// Older files name this table `coordinator`.
    #[serde(alias = "coordinator")]
    entry: WrittenServer,
    bucket: WrittenServer,
    mix: Vec<WrittenMix>,
    service: Vec<WrittenService>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenServer {
    key: Hex<32>,
    address: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMix {
    key: Hex<32>,
    address: String,
    #[serde(default)]
    operator: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenService {
    id: Name,
    base_round: Option<u64>,
    base_time: Option<Datetime>,
    interval: u32,
    ask: u32,
    lead: u32,
    collect: u32,
    mix_limit: u32,
    slots: Option<u8>,
    buckets: Option<u32>,
    preset: Option<Preset>,
    mode: Option<WrittenMode>,
    mu: Option<u32>,
    scale: Option<u32>,
    eps: Option<f64>,
    delta: Option<f64>,
    rounds: Option<u64>,
    trap_singles: Option<u16>,
    trap_pairs: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Conversation,
    Call,
    Invitation,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenMode {
    Paper,
    Gauss,
}

/// The presets of the specification (section "Noise and privacy").
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Preset {
    Standard,
    Relaxed,
    Small,
}

/// Bytes as hex digits.
struct Hex<const N: usize>([u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom(format!("not {} hex digits", 2 * N)))
    }
}

/// The name of a service in a config as people write it.
pub const fn service_name(service: Service) -> &'static str {
    match service {
        Service::Conversation => "conversation",
        Service::Call => "call",
        Service::Invitation => "invitation",
    }
}

/// The config before the one that is read, and the present time.
#[derive(Clone, Copy, Debug)]
pub struct Predecessor<'a> {
    /// The config.
    pub config: &'a Config,
    /// The time of this machine, which determines the rounds that the config before has run.
    pub now: Time,
}

impl Name {
    const fn service(self) -> Service {
        match self {
            Self::Conversation => Service::Conversation,
            Self::Call => Service::Call,
            Self::Invitation => Service::Invitation,
        }
    }
}

impl Preset {
    const fn noise(self, service: Service) -> PresetNoise {
        match self {
            Self::Standard => NoisePreset::Standard,
            Self::Relaxed => NoisePreset::Relaxed,
            Self::Small => NoisePreset::Small,
        }
        .noise(service)
    }
}

/// Reads a config in TOML, without the config before it.
///
/// # Errors
/// As [`read_after`].
pub fn parse_config(text: &str) -> Result<Config, Fault> {
    read_after(text, None)
}

/// Reads a config in TOML. A missing `prev` or `base_round` is computed from the config before it
/// (MIX-86).
///
/// # Errors
/// 65, with the number of the malformed line, or with the values that contradict each other.
pub fn read_after(text: &str, before: Option<Predecessor<'_>>) -> Result<Config, Fault> {
    let written = toml::from_str::<ConfigToml>(text).map_err(|error| {
        let place = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let place = place.map_or_else(String::new, |line| format!(" in line {line}"));
        malformed_config(format!("{}{place}", error.message()))
    })?;
    let config = written.into_config(before)?;
    Config::decode(&config.encode()).map_err(|_| {
        malformed_config(
            "a value is outside its limits, an address is not host:port, guardians are more than \
             16 or fewer than the threshold, or a key stands there twice",
        )
    })
}

fn malformed_config(text: impl std::fmt::Display) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("config: {text}"),
        "compare with `mezza mixnet config example`",
    )
}

/// Returns the hash of the config before, or zeros if there is none.
fn hash_of(before: Option<Predecessor<'_>>) -> [u8; 32] {
    before.map_or([0; 32], |before| before.config.hash())
}

fn no_base_round(service: Service) -> Fault {
    let name = service_name(service);
    let text = format!("config: the service {name} of a later config has no base_round");
    let next = "name the config before it with `--after`, which computes it";
    Fault::new(Exit::Malformed, text, next)
}

impl ConfigToml {
    fn into_config(self, before: Option<Predecessor<'_>>) -> Result<Config, Fault> {
        let valid_from = parse_time(&self.valid_from)?;
        let first = |service| match before {
            None if self.seq == 0 => Ok(1),
            None => Err(no_base_round(service)),
            Some(Predecessor { config, now }) => {
                // A service that is new in this config begins with round 1.
                Ok(config.base_round_after(service, valid_from, now).unwrap_or(1))
            }
        };
        let services =
            self.service.into_iter().map(|service| service.into_policy(valid_from, first));
        let mut services = services.collect::<Result<Vec<_>, _>>()?;
        services.sort_by_key(|policy| policy.service);
        let mut guardians: Vec<_> = self.guardians.into_iter().map(|key| key.0).collect();
        guardians.sort_unstable();
        let mix = |mix: WrittenMix| MixServer {
            server: Server { key: mix.key.0, address: mix.address },
            operator: mix.operator,
        };
        Ok(Config {
            network: NetworkId(self.network_id.0),
            seq: self.seq,
            prev: self.prev.map_or_else(|| hash_of(before), |prev| prev.0),
            valid_from,
            valid_until: parse_time(&self.valid_until)?,
            threshold: self.threshold,
            guardians,
            coordinator: self.entry.into_server(),
            bucket: self.bucket.into_server(),
            mixes: self.mix.into_iter().map(mix).collect(),
            users_max: self.users_max,
            services,
        })
    }
}

impl WrittenServer {
    fn into_server(self) -> Server {
        Server { key: self.key.0, address: self.address }
    }
}

impl WrittenService {
    fn into_policy(
        self,
        valid_from: Time,
        first: impl Fn(Service) -> Result<u64, Fault>,
    ) -> Result<ServicePolicy, Fault> {
        let service = self.id.service();
        let base_round = self.base_round.map_or_else(|| first(service), Ok)?;
        let noise = self.preset.map(|preset| preset.noise(service));
        let slots = self.slots.unwrap_or(1);
        // s slots take s times the noise (section "Noise and privacy").
        let scaled = |n: u32| n.saturating_mul(slots.into());
        let missing =
            |what: &str| malformed_config(format!("a service has neither a preset nor `{what}`"));
        let preset_mu = noise.map(|noise| scaled(noise.mu));
        let preset_scale = noise.map(|noise| scaled(noise.scale));
        let eps = self.eps.or(noise.map(|noise| noise.epsilon)).ok_or_else(|| missing("eps"))?;
        let delta =
            self.delta.or(noise.map(|noise| noise.delta)).ok_or_else(|| missing("delta"))?;
        let traps = noise.map_or(Traps::NONE, |noise| noise.traps);
        let base_time = self.base_time.as_ref().map_or(Ok(valid_from), parse_time)?;
        Ok(ServicePolicy {
            service,
            base_round,
            base_time,
            interval_ms: self.interval,
            ask_ms: self.ask,
            lead_ms: self.lead,
            collect_ms: self.collect,
            mix_limit_ms: self.mix_limit,
            slots,
            buckets: self.buckets.unwrap_or(1),
            mode: match self.mode {
                Some(WrittenMode::Paper) => Mode::Paper,
                _ => Mode::Gauss,
            },
            mu: self.mu.or(preset_mu).ok_or_else(|| missing("mu"))?,
            scale: self.scale.or(preset_scale).ok_or_else(|| missing("scale"))?,
            epsilon_micro: round_whole(eps * 1e6)? as u32,
            delta_pico: round_whole(delta * 1e12)?,
            rounds: self
                .rounds
                .or(noise.map(|noise| noise.rounds))
                .ok_or_else(|| missing("rounds"))?,
            traps: Traps {
                singles: self.trap_singles.unwrap_or(traps.singles),
                pairs: self.trap_pairs.unwrap_or(traps.pairs),
            },
        })
    }
}

/// Rounds a number to an integer; rejects negative and too large numbers.
#[expect(clippy::cast_sign_loss, reason = "what is negative was refused")]
fn round_whole(number: f64) -> Result<u64, Fault> {
    let fits = (0.0..f64::from(u32::MAX)).contains(&number) || (0.0..=1e12).contains(&number);
    if fits { Ok(number.round() as u64) } else { Err(malformed_config("eps or delta cannot be")) }
}

/// Returns the time of a date and time in UTC.
fn parse_time(written: &Datetime) -> Result<Time, Fault> {
    let wrong = || malformed_config("a time is not written like 2026-11-01T00:00:00Z");
    let (Some(date), Some(of_day), Some(Offset::Z)) = (written.date, written.time, written.offset)
    else {
        return Err(wrong());
    };
    // Count years from March, so that the leap day is the last.
    let year = u64::from(date.year);
    let month = u64::from(date.month);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.max(1) - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    let days = days + (153 * month + 2) / 5 + u64::from(date.day) - 1;
    let days = days.checked_sub(719_468).ok_or_else(wrong)?;
    let seconds = u64::from(of_day.hour) * 3_600
        + u64::from(of_day.minute) * 60
        + u64::from(of_day.second.unwrap_or(0));
    Ok(Time::from_ms((days * 86_400 + seconds) * 1_000))
}

#[cfg(test)]
mod tests {
    use mezza_host::api::figures;

    use super::*;
    use mezza_mixnet::privacy::NetworkPromise;

    #[test]
    fn the_example_is_sound_and_says_what_it_says() {
        let config = parse_config(EXAMPLE).unwrap();
        assert_eq!(config.valid_from, Time::from_ms(1_793_491_200_000));
        assert_eq!(config.mixes.len(), 3);
        let [talk, call, invitation] = &config.services[..] else { panic!("three services") };
        assert_eq!((talk.mu, talk.scale, talk.rounds), (51_962, 7_784, 240_000));
        assert_eq!(talk.traps, Traps { singles: 256, pairs: 128 });
        assert_eq!((call.mu, call.delta_pico), (8_000, 100_000_000));
        assert_eq!((invitation.scale, invitation.epsilon_micro), (670, 693_147));
        assert_eq!(talk.base_time, config.valid_from);
    }

    #[test]
    fn dates_of_leap_years() {
        let ms = |text: &str| parse_time(&text.parse().unwrap()).unwrap().as_ms();
        assert_eq!(ms("1970-01-01T00:00:00Z"), 0);
        assert_eq!(ms("2000-02-29T00:00:01Z"), 11_016 * 86_400_000 + 1_000);
        assert_eq!(ms("2026-11-21T13:05:00Z"), 1_795_266_300_000);
        assert_eq!(ms("2100-03-01T00:00:00Z"), 47_541 * 86_400_000);
        assert!(parse_time(&"2026-11-21".parse().unwrap()).is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (("seq = 0", "sequence = 0"), "unknown field `sequence`"),
            (("users_max = 10_000", "users_max = 0"), "outside its limits"),
            (("threshold = 2", "threshold = 4"), "outside its limits"),
            (("mu = 4_150", ""), "neither a preset nor `mu`"),
            (("\"entry.example:7000\"", "\"entry.example\""), "host:port"),
            (("00112233445566778899aabbccddeeff", "0011"), "not 32 hex digits in line 4"),
        ];
        for ((from, to), expected) in cases {
            let fault = parse_config(&EXAMPLE.replace(from, to)).unwrap_err();
            assert_eq!(fault.code, Exit::Malformed);
            assert!(fault.text.contains(expected), "{}", fault.text);
        }
    }
    /// The values of the table in section "Noise and privacy".
    #[test]
    fn mix_55_the_standard_keeps_less_against_talking_with_somebody_else() {
        let config = parse_config(EXAMPLE).unwrap();
        let promise = NetworkPromise::from_config(&config);
        let [idle, other] = [promise.reached_after(1), promise.reached_by_other_story()];
        assert!((9.9e-5..1e-4).contains(&idle) && (2.9e-3..3.1e-3).contains(&other));
    }

    /// The values of section "Limits": 1.2 KB a round; 20, 112 and 78 MB a day.
    #[test]
    fn bytes_of_a_day_are_those_of_the_specification() {
        let config = parse_config(EXAMPLE).unwrap();
        // Megabytes, rounded as in the guide.
        let day = |policy| (figures::day_bytes(&config, policy) + 500_000) / 1_000_000;
        assert_eq!(config.services.iter().map(day).collect::<Vec<_>>(), [20, 112, 78]);
        assert_eq!(figures::round_bytes(&config, &config.services[0]), 1_177);
    }
}
