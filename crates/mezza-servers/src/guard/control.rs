//! Requests over the control socket, and the response to `status`.

use std::collections::VecDeque;
use std::time::Duration;

use mezza_core::Time;
use mezza_guard::guard::GuardEvent;
use mezza_guard::keys::GuardClientId;
use mezza_guard::ledger::{REFUSALS_BLOCK, SlotLedger};
use serde::{Deserialize, Serialize};

use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control;

use super::folder::GuardFolder;
use super::peers::{PeerList, format_id};
use super::settings::PolicyName;
use super::short_id;

/// Events that are kept for `status`.
const EVENTS_MAX: usize = 64;
/// How long the running guard may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// A request to the running guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum GuardAsk {
    /// Returns the status.
    Status,
    /// Reads the lists of clients and destinations again.
    Reload,
    /// Ends the block of a destination after refused handshakes.
    Unblock {
        /// The number of the destination.
        dest: u16,
    },
    /// Resets a slot of a client that lost its state.
    ResetSlot {
        /// The client, 32 hex digits.
        client: String,
        /// The number of the destination.
        dest: u16,
        /// The purpose: 1 dialling, 2 answering.
        purpose: u8,
    },
}

/// The status of a guard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardStatusJson {
    /// True if the guard runs.
    pub running: bool,
    /// The treatment of what no rule covers.
    pub policy: PolicyName,
    /// Sessions in progress.
    pub sessions: usize,
    /// Handshakes over the life of the ledger.
    pub handshakes: u32,
    /// Refused handshakes over the life of the ledger, each with up to 128 bits.
    pub refused: u32,
    /// Slots that were reset.
    pub resets: u32,
    /// True if the last write of the ledger failed.
    pub ledger_fails: bool,
    /// Clients.
    pub clients: Vec<ClientStatusJson>,
    /// Destinations.
    pub destinations: Vec<DestStatusJson>,
    /// Slots whose point is stored and whose key was not sent yet.
    pub open_slots: Vec<SlotJson>,
    /// The last notices and alarms since the start.
    pub events: Vec<String>,
}

/// A client in the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientStatusJson {
    /// The id, 32 hex digits.
    pub id: String,
    /// Refused handshakes over the life of the ledger.
    pub refused_ever: u32,
}

/// A destination in the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DestStatusJson {
    /// The owner's name for it.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// True if the owner has blocked it.
    pub blocked: bool,
    /// Clients with refused handshakes of the last 24 hours.
    pub refusals: Vec<RefusalsJson>,
}

/// Refused handshakes of a client with a destination in the last 24 hours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RefusalsJson {
    /// The client, 8 hex digits.
    pub client: String,
    /// The number of refused handshakes.
    pub count: usize,
    /// True if the destination is blocked for the client because of them.
    pub blocked: bool,
}

/// An open slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotJson {
    /// The client, 8 hex digits.
    pub client: String,
    /// The destination or lane.
    pub dest: u16,
    /// The number of the slot.
    pub index: u64,
}

/// Reads the status of a guard: of the running one, or else from its files. A guard whose files do not
/// load is closed. `next` is the step that starts a guard.
///
/// # Errors
/// The fault that keeps the guard closed.
pub fn read_status(folder: &GuardFolder, next: &str) -> Result<GuardStatusJson, Fault> {
    match control::ask_server(&folder.socket_path(), &GuardAsk::Status, next) {
        Ok(lines) => {
            let silent = || Fault::new(Exit::Unreachable, "the guard does not answer", next);
            let line = lines.limit_wait(ANSWER)?.next().ok_or_else(silent)??;
            serde_json::from_value(line).map_err(|error| Fault::bug(error.to_string()))
        }
        Err(fault) if fault.code == Exit::Unreachable => {
            let ledger = folder.load_ledger()?;
            let policy = folder.read_settings()?.policy;
            let now = Clock::system().boot();
            Ok(GuardStatusJson { policy, ..describe_ledger(&ledger, &folder.read_peers()?, now) })
        }
        Err(fault) => Err(fault),
    }
}

/// Describes the ledger for the owner. Addresses are not part of it (GUARD-34).
pub fn describe_ledger(ledger: &SlotLedger, peers: &PeerList, now: Time) -> GuardStatusJson {
    let totals = ledger.totals();
    let clients: Vec<GuardClientId> = peers.client_ids().collect();
    let describe_client = |client: &GuardClientId| ClientStatusJson {
        id: format_id(*client),
        refused_ever: ledger.refused_ever(*client),
    };
    let refusals = |dest: u16| {
        let of_client = |client: &GuardClientId| {
            let count = ledger.count_refusals(*client, dest, now);
            let blocked = count >= REFUSALS_BLOCK;
            RefusalsJson { client: short_id(*client), count, blocked }
        };
        clients.iter().map(of_client).filter(|refusals| refusals.count > 0).collect()
    };
    let destinations = peers.dest.iter().map(|(name, dest)| DestStatusJson {
        name: name.clone(),
        number: dest.number,
        blocked: dest.blocked,
        refusals: refusals(dest.number),
    });
    let open_slots = ledger.open_slots().map(|slot| SlotJson {
        client: short_id(slot.name.client),
        dest: slot.name.dest,
        index: slot.index,
    });
    GuardStatusJson {
        handshakes: totals.handshakes,
        refused: totals.refused,
        resets: totals.resets,
        clients: clients.iter().map(describe_client).collect(),
        destinations: destinations.collect(),
        open_slots: open_slots.collect(),
        ..GuardStatusJson::default()
    }
}

/// The last events, for the owner.
#[derive(Debug, Default)]
pub(crate) struct EventLog(VecDeque<String>);

impl EventLog {
    /// Adds an event, and logs it.
    pub(crate) fn add(&mut self, event: &GuardEvent) {
        let text = describe_event(event);
        tracing::warn!(target: "mezza", "{text}");
        // Only the last events are kept, because a client causes them.
        if self.0.len() >= EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(text);
    }

    /// Returns the events, oldest first.
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }
}

/// Describes an event for the owner, with the next step.
fn describe_event(event: &GuardEvent) -> String {
    match event {
        GuardEvent::Notice(client, dest) => format!(
            "notice: a handshake of client {} with destination {dest} was refused; it may have carried 128 \
             bits, unseen if the reader also answers",
            short_id(*client)
        ),
        GuardEvent::Alarm { client, dest, refusals, is_blocked } => format!(
            "alarm: {refusals} handshakes of client {} with destination {dest} were refused in 24 h, each with \
             up to 128 bits{}",
            short_id(*client),
            if *is_blocked {
                "; the destination is blocked for this client, end it with `mezza guard dest unblock`"
            } else {
                "; if it goes on, stop using the device"
            }
        ),
        GuardEvent::Worn(client, count) => format!(
            "alarm: {count} handshakes of client {} were refused since the ledger began; replace the device \
             and its keys",
            short_id(*client)
        ),
        GuardEvent::Uncovered(conn) => {
            format!("notice: connection {} sent a frame that no rule covers; it passed", conn.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_guard::guard::GuardConnection;

    #[test]
    fn guard_36_only_the_last_events_are_kept() {
        let mut log = EventLog::default();
        for number in 0..200 {
            log.add(&GuardEvent::Uncovered(GuardConnection(number)));
        }
        let events = log.list();
        assert_eq!(events.len(), EVENTS_MAX);
        assert!(events.last().is_some_and(|event| event.contains("connection 199")));
    }

    #[test]
    fn requests_have_one_form() {
        let ask = GuardAsk::ResetSlot { client: "7f".into(), dest: 2, purpose: 1 };
        let text = serde_json::to_string(&ask).expect("JSON");
        assert_eq!(text, r#"{"ask":"reset-slot","client":"7f","dest":2,"purpose":1}"#);
        assert_eq!(serde_json::from_str::<GuardAsk>(&text).expect("the same"), ask);
        let more = r#"{"ask":"unblock","dest":2,"more":1}"#;
        assert!(serde_json::from_str::<GuardAsk>(more).is_err());
    }
}
