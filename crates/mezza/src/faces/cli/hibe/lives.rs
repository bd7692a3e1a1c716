//! Lives in words: their names, and what each one risks.

use mezza_core::Time;
use mezza_hibe::{CardBlock, Life};
use mezza_host::api::json::MeshLifeJson;
use serde_json::{Value, json};

/// Returns the name of a life (lifetime class of keys), as options and JSON contain it.
pub(crate) const fn life_name(life: Life) -> &'static str {
    match life {
        Life::Minute => "minute",
        Life::FiveMinutes => "five-minutes",
        Life::HalfHour => "half-hour",
        Life::HalfDay => "half-day",
    }
}

/// Returns the life of a choice for a conversation or a note.
pub(crate) const fn life_of(choice: MeshLifeJson) -> Life {
    match choice {
        MeshLifeJson::Minute => Life::Minute,
        MeshLifeJson::HalfHour => Life::HalfHour,
        MeshLifeJson::HalfDay => Life::HalfDay,
    }
}

/// Returns the longest time after sealing for which a thief of the receiver's device can read a
/// note of this life (HIBE-88): the current epoch and the one before, by the receiver's clock.
pub(crate) fn describe_risk(life: Life) -> String {
    let most = format_span(2 * life.epoch_ms());
    format!("a thief of the receiver's device reads it for up to {most}, and what its clock is off")
}

/// Returns the same for our own device, which holds the keys.
pub(super) fn describe_own_risk(life: Life) -> String {
    let least = format_span(life.epoch_ms());
    let most = format_span(2 * life.epoch_ms());
    format!("whoever takes this device and its passphrase reads the last {least} to {most}")
}

/// Formats a time span: `30 s`, `1 min`, `12 h`.
fn format_span(ms: u64) -> String {
    match ms {
        0..Time::MINUTE_MS => format!("{} s", ms / Time::SECOND_MS),
        Time::MINUTE_MS..Time::HOUR_MS if ms.is_multiple_of(Time::MINUTE_MS) => {
            format!("{} min", ms / Time::MINUTE_MS)
        }
        Time::MINUTE_MS..Time::HOUR_MS => format!("{} s", ms / Time::SECOND_MS),
        _ => format!("{} h", ms / Time::HOUR_MS),
    }
}

/// Returns the names of the lives of a card.
pub(super) fn list_lives(card: &CardBlock) -> String {
    card.lives().map(life_name).collect::<Vec<_>>().join(", ")
}

/// Returns the lives of a card as JSON.
pub(super) fn describe_lives(card: &CardBlock) -> Value {
    let branches = card.calendar().branches();
    let lives = branches.map(|branch| {
        let name = life_name(branch.life);
        json!({ "life": name, "epoch_s": branch.epoch_ms() / Time::SECOND_MS })
    });
    lives.collect()
}
