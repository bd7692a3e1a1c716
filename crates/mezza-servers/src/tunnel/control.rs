//! Requests over the control socket, and the response to `show`.

use mezza_core::Time;
use mezza_seka::peer::PeerStatus;
use mezza_seka::{LinkRole, PeerRecord};
use serde::{Deserialize, Serialize};

use super::config::CarrierKind;
use super::link::{Link, SHARE_PERCENT_MIN};
use super::shared::{Drop, LinkShared};

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub enum LinkAsk {
    /// Returns the links, or one link; with `follow` repeatedly.
    Show {
        /// The name of the link; `None`: all links.
        name: Option<String>,
        /// True if the response continues until the client disconnects.
        follow: bool,
    },
    /// Requests new keys now.
    Rekey {
        /// The name of the link.
        name: String,
    },
    /// Ends a pairing and erases it.
    Forget {
        /// The name of the link.
        name: String,
    },
    /// Opens a pairing window; the response has a line for each event.
    Pair(PairAsk),
    /// The user's decision if the digits are equal.
    Confirm {
        /// The digits that the user compared.
        digits: String,
        /// True if the digits are equal.
        equal: bool,
    },
}

/// The pairing that a user asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairAsk {
    /// The interface to pair on.
    pub on: String,
    /// The name of the new link.
    pub name: String,
    /// Length of the window in seconds.
    pub window_s: u64,
    /// True for pairing with six digits.
    pub sas: bool,
    /// Pair only in this role.
    pub role: Option<RoleName>,
    /// Pair only with this device.
    pub peer: Option<String>,
    /// The address to ask, instead of all devices on the link.
    pub to: Option<String>,
    /// The carrier of the link.
    pub carrier: CarrierKind,
    /// True if a pairing of this name may be replaced.
    pub replace: bool,
}

/// A role in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// Begins every exchange.
    Initiator,
    /// Answers.
    Responder,
}

impl From<RoleName> for LinkRole {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Initiator => Self::Initiator,
            RoleName::Responder => Self::Responder,
        }
    }
}

/// The words for the trouble of a link, in order of precedence.
pub const TROUBLES: [&str; 7] =
    ["aside", "not recognised", "refused here", "no answer", "silent", "loss", "none"];

/// A link in `show --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkJson {
    /// The name of the link and of its interface.
    pub name: String,
    /// The peer's name on links.
    pub peer: String,
    /// Our name on links.
    pub own: String,
    /// Our role.
    pub role: RoleName,
    /// True if a session is open and frames of the peer come: what was proven, not what was asked for.
    pub up: bool,
    /// Why the link cannot run now, and the next step.
    pub aside: Option<AsideJson>,
    /// How the pairing was made: `digits` or `unverified`.
    pub pairing: String,
    /// The carrier of the link.
    pub carrier: CarrierKind,
    /// The interface that carries the link.
    pub on: String,
    /// The last address of the peer.
    pub endpoint: Option<String>,
    /// Bytes of a frame without Ethernet header; 0 if the interface is missing.
    pub mtu: u16,
    /// Bytes of an Ethernet frame that one frame of the carrier takes on the present path.
    pub room: usize,
    /// The offloads in use in each direction.
    pub offload: OffloadJson,
    /// The share of recently sent frames that arrived, as the peer reports, percent.
    pub delivered_percent: Option<u8>,
    /// How long the daemon has run the link, ms.
    pub running_ms: u64,
    /// Age of the present session, ms.
    pub key_age_ms: Option<u64>,
    /// Time until the next exchange if frames flow, ms.
    pub rekey_in_ms: Option<u64>,
    /// Exchanges accepted since the pairing was made.
    pub rekeys: u64,
    /// Duration of the last exchange, ms.
    pub exchange_ms: Option<u64>,
    /// When the pairing was made, ms since 1970.
    pub paired_ms: u64,
    /// Time when the peer was authenticated last, ms since 1970.
    pub accepted_ms: u64,
    /// The suite.
    pub suite: String,
    /// Frames and bytes of the interface, by direction.
    pub traffic: TrafficJson,
    /// Frames dropped, by reason.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// Exchange frames under the peer's name that were refused.
    pub refused: u64,
    /// One of [`TROUBLES`].
    pub trouble: String,
}

/// Why a link cannot run now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsideJson {
    /// The reason.
    pub reason: String,
    /// The next step for the user.
    pub next: String,
    /// Time until the next try, ms.
    pub retry_ms: u64,
}

/// Offloads in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadJson {
    /// True if many datagrams are sent in one call.
    pub send: bool,
    /// True if received segments are written to the interface as one frame.
    pub receive: bool,
}

/// Frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficJson {
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes received.
    pub rx_bytes: u64,
}

/// Describes a link for `show`: proven facts, not requested ones.
pub(super) fn describe_link(link: &Link, now: Time) -> LinkJson {
    let record: &PeerRecord = link.peer.record();
    let status = link.peer.status();
    let age = |since: Time| now.since_ms(since);
    let [tx_frames, rx_frames, tx_bytes, rx_bytes] = link.counters.totals();
    let drops = Drop::ALL.iter().map(|(why, word)| ((*word).to_owned(), link.counters.drops(*why)));
    let shared = link.shared.as_deref();
    let aside = link.aside.as_ref().map(|aside| AsideJson {
        reason: aside.fault.text.clone(),
        next: aside.fault.next.clone(),
        retry_ms: aside.next.since_ms(now),
    });
    let endpoint = shared.and_then(|shared| shared.endpoint.load_full());
    let is_passing = status.session.is_some() && aside.is_none() && !link.traffic.is_silent;
    LinkJson {
        name: link.plan.name.clone(),
        peer: record.peer.to_string(),
        own: record.own.to_string(),
        role: match record.role {
            LinkRole::Initiator => RoleName::Initiator,
            LinkRole::Responder => RoleName::Responder,
        },
        up: is_passing,
        trouble: name_trouble(link, &status, now).to_owned(),
        aside,
        pairing: if record.compared { "digits" } else { "unverified" }.to_owned(),
        carrier: link.plan.carrier,
        on: link.plan.on.clone(),
        endpoint: endpoint.map(|endpoint| endpoint.to_string()),
        mtu: shared.map_or(0, |shared| shared.tap.mtu()),
        room: shared.map_or(0, LinkShared::room),
        offload: OffloadJson {
            send: link.road().is_some_and(|road| road.carrier.joins()),
            receive: shared.is_some_and(LinkShared::joins),
        },
        delivered_percent: link.traffic.delivered_percent,
        running_ms: age(link.since),
        key_age_ms: status.session.map(|(_, since)| age(since)),
        rekey_in_ms: status.rekey.map(|at| at.since_ms(now)),
        rekeys: record.rekeys,
        exchange_ms: link.exchange_ms,
        paired_ms: record.created_ms,
        accepted_ms: record.accepted_ms,
        suite: "default".to_owned(),
        traffic: TrafficJson { tx_frames, rx_frames, tx_bytes, rx_bytes },
        dropped: drops.collect(),
        refused: status.refused,
    }
}

fn name_trouble(link: &Link, status: &PeerStatus, now: Time) -> &'static str {
    let loss = link.traffic.delivered_percent.is_some_and(|percent| percent < SHARE_PERCENT_MIN);
    if link.aside.is_some() {
        "aside"
    } else if status.alarm {
        "not recognised"
    } else if link.traffic.is_refused_here(now) {
        "refused here"
    } else if status.unanswered >= mezza_seka::limits::MISFITS_MAX {
        "no answer"
    } else if link.traffic.is_silent {
        "silent"
    } else if loss {
        "loss"
    } else {
        "none"
    }
}
