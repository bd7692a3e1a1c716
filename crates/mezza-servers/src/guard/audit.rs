//! The audit of a guard for its owner: the bits that stay open, computed from the rules in force,
//! and the parts of the program that no guard sees.

use mezza_guard::audit::{
    AuditRow, ChannelBits, ProtectionLevel, Surroundings, audit_table, protection_level,
};
use mezza_guard::ledger::SlotLedger;
use mezza_guard::rule::Pins;
use mezza_seka::wire::{Ke1, Ke2, Ke3};
use serde::Serialize;

use mezza_host::api::Fault;

use super::peers::{DestEntry, PeerList};
use super::settings::GuardConfig;
use super::table::{RECORD_LENGTHS, link_rules};

/// The audit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditJson {
    /// The level of the handshake with learned names, or with pinned names if all are pinned.
    pub level: u8,
    /// The level of each destination.
    pub destinations: Vec<DestAuditJson>,
    /// Channels of a handshake and around it.
    pub rows: Vec<AuditRowJson>,
    /// Parts of the program that the guard does not see.
    pub unguarded: Vec<UnguardedJson>,
}

/// A destination in the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DestAuditJson {
    /// The owner's name for it.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// The level of its handshakes.
    pub level: u8,
    /// True if the names of the link are pinned.
    pub pinned: bool,
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditRowJson {
    /// The frame: `KE1`, `KE2`, `KE3`, or empty.
    pub frame: &'static str,
    /// The offset of the field.
    pub at: u16,
    /// The meaning of the field or channel.
    pub what: &'static str,
    /// Bits in an accepted handshake; `null`: no bound.
    pub accepted: Option<f64>,
    /// Bits in a refused handshake; `null`: no bound.
    pub refused: Option<f64>,
    /// The attack that uses the channel, or fails because it is closed.
    pub attack: &'static str,
    /// The measure that would close the channel.
    pub closed_by: &'static str,
}

/// A part without a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnguardedJson {
    /// The part.
    pub part: &'static str,
    /// Its level: 0, nothing is negotiated.
    pub level: u8,
    /// The freedom of a tampered device.
    pub freedom: &'static str,
}

/// Parts of the program that do not pass a guard, and the freedom of a tampered device in each.
const UNGUARDED: [(&str, &str); 7] = [
    ("X3DH", "252 bits in each ephemeral key"),
    ("ratchet", "252 bits in each ratchet key"),
    ("signed prekeys", "252 bits in each nonce of a signature"),
    ("mixnet", "252 bits in each onion and round"),
    ("mesh", "about 500 bytes in each cell"),
    ("post-quantum keys", "at least 256 bits; no measure is known"),
    ("records of the link", "the bodies, which the device encrypts itself"),
];

/// Returns the parts of the program that no guard sees.
pub fn list_unguarded() -> Vec<UnguardedJson> {
    let level = ProtectionLevel::Open.number();
    UNGUARDED.map(|(part, freedom)| UnguardedJson { part, level, freedom }).into()
}

/// Computes the audit.
///
/// # Errors
/// Only for a bug.
pub fn compute_audit(
    config: &GuardConfig,
    peers: &PeerList,
    ledger: &SlotLedger,
) -> Result<AuditJson, Fault> {
    let table = link_rules()?;
    let level_of = |pins: Option<&Pins>| protection_level(&table, pins).number();
    let pins_of = |dest: &DestEntry| dest.for_machine().pins;
    let has_inbound = peers.client.values().any(|client| client.inbound.is_some());
    // Names of callers are learned, so one inbound listener leaves their bits open.
    let all_pinned = peers.dest.values().all(|dest| pins_of(dest).is_some()) && !has_inbound;
    let pins = peers.dest.values().find_map(pins_of).filter(|_| all_pinned);
    let free = peers.dest.values().filter(|dest| dest.counter.is_none()).count();
    // The first counter is free once for each client and destination.
    let free_counters = free.saturating_mul(peers.client.len());
    let around = Surroundings {
        destinations: u16::try_from(peers.dest.len()).unwrap_or(u16::MAX).max(1),
        lengths: RECORD_LENGTHS.len() as u16,
        tick_ms: u32::try_from(config.tick_ms).unwrap_or(u32::MAX),
        totals: ledger.totals(),
        free_counters: u32::try_from(free_counters).unwrap_or(u32::MAX),
    };
    let rows = audit_table(&table, pins.as_ref(), &around).iter().map(describe_row).collect();
    let destinations = peers.dest.iter().map(|(name, dest)| {
        let pins = pins_of(dest);
        let level = level_of(pins.as_ref());
        DestAuditJson { name: name.clone(), number: dest.number, level, pinned: pins.is_some() }
    });
    Ok(AuditJson {
        level: level_of(pins.as_ref()),
        destinations: destinations.collect(),
        rows,
        unguarded: list_unguarded(),
    })
}

fn describe_row(row: &AuditRow) -> AuditRowJson {
    let bits = |bits: ChannelBits| match bits {
        ChannelBits::Free => None,
        ChannelBits::Hundredths(hundredths) => Some(f64::from(hundredths) / 100.0),
    };
    AuditRowJson {
        frame: match row.kind {
            Ke1::KIND => "KE1",
            Ke2::KIND => "KE2",
            Ke3::KIND => "KE3",
            _ => "",
        },
        at: row.at,
        what: row.what,
        accepted: bits(row.accepted),
        refused: bits(row.refused),
        attack: row.attack,
        closed_by: row.closed_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::peers::{ClientEntry, PinEntry};
    use mezza_guard::keys::GuardClientId;

    fn list(pins: Option<PinEntry>) -> PeerList {
        let mut list = PeerList::default();
        let host = "192.0.2.7".into();
        let counter = pins.as_ref().map(|_| 40);
        let dest = DestEntry { number: 0, host, port: 1, blocked: false, counter, pins };
        list.add_dest("bob", dest).expect("added");
        list.put_client(GuardClientId([1; 16]), ClientEntry::default()).expect("room");
        list
    }

    #[test]
    fn guard_46_pinned_names_give_level_3_and_learned_ones_level_2() {
        let ledger = SlotLedger::default();
        let config = GuardConfig::default();
        let learned = compute_audit(&config, &list(None), &ledger).expect("an audit");
        assert_eq!((learned.level, learned.destinations[0].level), (2, 2));
        let names = |byte: u8| format!("02000000000{byte}");
        let pins = PinEntry { own: names(1), peer: names(2), link: 7 };
        let pinned = compute_audit(&config, &list(Some(pins)), &ledger).expect("an audit");
        assert_eq!((pinned.level, pinned.destinations[0].level), (3, 3));
        let macs = pinned.rows.iter().filter(|row| row.refused == Some(128.0));
        assert_eq!(macs.filter(|row| row.accepted == Some(0.0)).count(), 3, "t1, t2 and t3");
        let first = |audit: &AuditJson| {
            audit.rows.iter().find(|row| row.what == "first counter").and_then(|row| row.accepted)
        };
        assert_eq!((first(&learned), first(&pinned)), (Some(32.0), Some(0.0)));
        assert!(pinned.unguarded.iter().all(|part| part.level == 0));
    }
}
