//! The costs of a config for its clients, and its promises to them.

use mezza_mixnet::Service;
use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::noise::Law;
use mezza_mixnet::service::{INVITATION_BYTES, reply_bytes};

/// Bytes of a frame before its body: length, type, service, round.
const HEAD_BYTES: u64 = 14;
/// The overhead of TLS for a frame (RFC 8446, section 5.2): header, content type, tag.
const RECORD_BYTES: u64 = 22;
/// Bits of one token in a call bucket.
const TOKEN_BITS: f64 = 25.6;
/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Returns the mean number of noise messages of one mix in one round.
pub fn noise_messages(law: Law, service: Service, buckets: u32) -> u64 {
    match service {
        Service::Conversation => 2 * u64::from(law.mu),
        _ => (u64::from(buckets) + 1) * u64::from(law.mu),
    }
}

/// Returns the bytes that a client sends and receives in one round of a service, TLS included.
pub fn round_bytes(config: &Config, policy: &ServicePolicy) -> u64 {
    let n = config.mixes.len();
    let slots = u64::from(policy.slots);
    let frame = |body: u64| HEAD_BYTES + RECORD_BYTES + body;
    let settings = frame((53 + 96 * n + 4) as u64);
    let submit = frame(slots * policy.service.onion_bytes(n) as u64);
    let replies = if policy.service.has_replies() { slots * reply_bytes(n) as u64 } else { 0 };
    let returned = frame(4 + replies);
    let fetched = if policy.service.has_replies() {
        0
    } else {
        let manifest = 13 + 36 * u64::from(policy.buckets) + 64;
        frame(4) + frame(manifest) + frame(8 + object_bytes(config, policy))
    };
    settings + submit + returned + fetched
}

/// Returns the mean bytes of one bucket that holds only noise.
#[expect(clippy::cast_sign_loss, reason = "a number of bytes")]
fn object_bytes(config: &Config, policy: &ServicePolicy) -> u64 {
    let entries = config.mixes.len() as u64 * u64::from(policy.mu);
    4 + match policy.service {
        Service::Invitation => entries * INVITATION_BYTES as u64,
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        _ => (entries as f64 * TOKEN_BITS / 8.0) as u64,
    }
}

/// Returns the bytes that a client sends and receives per day.
pub fn day_bytes(config: &Config, policy: &ServicePolicy) -> u64 {
    round_bytes(config, policy) * DAY_MS / u64::from(policy.interval_ms.max(1))
}

/// Returns epsilon and delta as the config states them for a service.
pub fn promised(policy: &ServicePolicy) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "a delta is at most 10^12 units")]
    let delta = policy.delta_pico as f64 / 1e12;
    (f64::from(policy.epsilon_micro) / 1e6, delta)
}
