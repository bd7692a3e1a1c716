//! The date of a node, which ignores jumps of the wall clock (MSG-99).

use std::mem::replace;

use mezza_core::Time;
use mezza_messenger::card::RelayKey;

use super::NodeShell;
use mezza_host::api::json::HealthLine;
use mezza_host::api::words;

impl NodeShell {
    /// Returns the date that vault and device use (MSG-99). It follows the clock after all
    /// dependent times were moved (MSG-104).
    pub(super) fn date(&self) -> Time {
        let clock = &self.options.clock;
        self.open.as_ref().map_or_else(|| clock.date(), |open| open.date.current_date(clock.boot()))
    }

    /// Checks the clocks, and publishes an event when doubt about the wall clock begins or ends.
    pub(super) fn look_at_clock(&mut self) {
        let seen = self.options.clock.check_wall();
        if replace(&mut self.doubts, seen.is_err()) == seen.is_err() {
            return;
        }
        match seen {
            Ok(()) => tracing::info!("the clock of this machine is believed again"),
            Err(doubt) => tracing::warn!(
                clock_h = doubt.wall.as_hours(),
                expected_h = doubt.expected.as_hours(),
                left_h = doubt.left_ms.div_ceil(Time::HOUR_MS),
                "the clock of this machine has jumped by more than a day: nothing expires by it until \
                 it has stood for a day; if it is right, say `mezza node trust-clock`"
            ),
        }
    }

    /// Stores the user's confirmation that the wall clock is right.
    pub fn trust_clock(&mut self) {
        self.options.clock.trust_wall();
    }

    /// Compares the time of a relay on our card, if it is on another machine: if it equals the wall
    /// clock's, both are right. A contact's relay is ignored, because it must not influence what is
    /// erased here.
    pub(super) fn hear_time(&self, relay: RelayKey, time: Time) {
        let relays =
            self.open.as_ref().map(|open| open.device.own_identity().relays).unwrap_or_default();
        if relays.iter().any(|own| own.key == relay) {
            self.options.clock.note_peer_time(time);
        }
    }

    /// Returns the health line about a doubted wall clock (MSG-99).
    pub(super) fn clock_line(&self) -> Option<HealthLine> {
        let doubt = self.options.clock.check_wall().err()?;
        let days = |ms: u64| words::format_count(ms / Time::DAY_MS, "day", "days");
        let ahead = doubt.wall.since_ms(doubt.expected);
        let behind = doubt.expected.since_ms(doubt.wall);
        let apart = if ahead > 0 { days(ahead) + " ahead of" } else { days(behind) + " behind" };
        let hours = words::format_count(doubt.left_ms.div_ceil(Time::HOUR_MS), "hour", "hours");
        let text = format!(
            "the clock of this machine is {apart} what was expected: nothing expires by it until it has \
             stood for {hours} more, or another machine with your relay says the same"
        );
        let next = "set it if it is wrong; if it is right, say `mezza node trust-clock`";
        Some(HealthLine::bad("clock", &text, next))
    }
}
