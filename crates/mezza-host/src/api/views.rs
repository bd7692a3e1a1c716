//! Converts views of the device into the types of the interface.

use data_encoding::HEXLOWER;
use mezza_core::Time;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::evidence::{Fact, NoteState};
use mezza_messenger::policy::{Fallback, NoteLife, Policy};
use mezza_messenger::view::{
    BudgetView, CarrierEstimate, ConnectionView, ContactState, ContactView, IdentityView,
    InvitationView, NetworkView, NoteContent, NoteView, PrekeysView, VerificationMethod,
};
use mezza_messenger::{CarrierId, ContactId, NoteId};
use mezza_mixnet::privacy::{NetworkPromise, fifty_becomes};
use mezza_ratchet::SessionSummary;

use super::refused::Refused;
use super::words;
use crate::api::network_uri::NetworkUri;
use crate::api::{Exit, Fault, json};

/// Describes our identity.
pub fn describe_identity(me: &IdentityView) -> json::MeJson {
    json::MeJson {
        name: me.name.clone(),
        id: HEXLOWER.encode(&me.ik[..16]),
        card_serial: me.serial,
        issued_days: me.issued,
        suites: me.suites.iter().map(|s| format_suite(s.0)).collect(),
        relays: me.relays.iter().map(describe_relay).collect(),
        one_time_stock: me.one_time_stock,
    }
}

/// Describes the active session with a contact.
pub fn describe_session(contact: ContactId, session: &SessionSummary) -> json::RatchetSession {
    json::RatchetSession {
        contact: contact.0.to_string(),
        suite: format_suite(session.suite.0),
        initiator: session.initiator,
        pending: session.pending,
        our_turn: session.our_turn,
        sent: session.sent,
        received: session.received,
        skipped: session.skipped,
        archived: session.archived,
        last_opened_ms: session.last_opened.map(Time::as_ms),
    }
}

/// Describes our prekeys, grouped by suite, newest first.
pub fn describe_prekeys(held: &PrekeysView) -> json::PrekeysJson {
    let signed = held.signed.iter().map(|(id, made, wiped)| json::SignedPrekey {
        suite: format_suite(id.0),
        made_ms: made.as_ms(),
        wiped_ms: wiped.as_ms(),
    });
    let mut signed = signed.collect::<Vec<_>>();
    signed.sort_by(|a, b| a.suite.cmp(&b.suite).then(b.made_ms.cmp(&a.made_ms)));
    json::PrekeysJson {
        signed,
        bundle_until_ms: held.until.map(Time::as_ms),
        one_time_held: held.one_time_held,
        one_time_stock: held.one_time_stock,
        sessions_today: held.sessions_today,
        without_one_time: held.without_one_time,
    }
}

fn format_suite(number: u16) -> String {
    format!("0x{number:04x}")
}

/// Describes a relay, with its key as users compare it.
pub fn describe_relay(entry: &RelayEntry) -> json::RelayJson {
    json::RelayJson {
        key: words::key_digits(&entry.key),
        host: entry.host.clone(),
        port: entry.port,
    }
}

/// Describes a contact, with its newest note.
pub fn describe_contact(view: &ContactView, last: Option<json::NoteJson>) -> json::ContactJson {
    json::ContactJson {
        id: view.id.0.to_string(),
        name: view.name.clone(),
        claimed_name: view.claimed.clone(),
        standing: describe_standing(view.standing),
        verified: view.verified.map(|(proof, at)| json::Verified {
            how: match proof {
                VerificationMethod::InPerson => json::VerifiedHow::InPerson,
                VerificationMethod::Number => json::VerifiedHow::Number,
            },
            at_ms: at.as_ms(),
        }),
        policy: describe_policy(&view.policy),
        suites: view.suites.iter().map(|s| format_suite(s.0)).collect(),
        relay: view.relay.as_ref().map(describe_relay),
        absent_parts: view.absent_parts.clone(),
        unread: view.unread,
        missing: view.missing,
        trouble: view.trouble.map(|trouble| words::trouble_words(trouble, &view.name)),
        namesake: view.namesake,
        restored: view.restored.as_ref().and_then(words::restored),
        last,
    }
}

/// Describes an inviter of the mixnet.
pub fn describe_invitation(view: &InvitationView) -> json::InvitationJson {
    json::InvitationJson { id: view.id.0.to_string(), at_ms: view.at.as_ms(), asked: view.asked }
}

fn describe_standing(standing: ContactState) -> json::StandingJson {
    match standing {
        ContactState::Held => json::StandingJson::Held,
        ContactState::Asked => json::StandingJson::Asked,
        ContactState::Open => json::StandingJson::Open,
        ContactState::Request => json::StandingJson::Request,
        ContactState::Blocked => json::StandingJson::Blocked,
    }
}

fn describe_policy(policy: &Policy) -> json::PolicyJson {
    json::PolicyJson {
        carriers: policy.carriers.iter().map(|c| c.name().into()).collect(),
        pin: policy.level_min,
        fallback: match policy.fallback {
            Fallback::None => json::FallbackJson::None,
            Fallback::Listed => json::FallbackJson::Listed,
        },
        timer_s: policy.timer_s,
        delivered: policy.delivered,
        read: policy.read,
        mesh_life: policy.life.map(describe_life),
    }
}

/// Describes the life of a note.
pub fn describe_life(life: NoteLife) -> json::MeshLifeJson {
    match life {
        NoteLife::Minute => json::MeshLifeJson::Minute,
        NoteLife::HalfHour => json::MeshLifeJson::HalfHour,
        NoteLife::HalfDay => json::MeshLifeJson::HalfDay,
    }
}

/// Converts a requested life.
pub fn life_of(life: json::MeshLifeJson) -> NoteLife {
    match life {
        json::MeshLifeJson::Minute => NoteLife::Minute,
        json::MeshLifeJson::HalfHour => NoteLife::HalfHour,
        json::MeshLifeJson::HalfDay => NoteLife::HalfDay,
    }
}

/// Converts a requested policy.
///
/// # Errors
/// If a carrier is unknown. The device checks the rest.
pub fn policy_of(policy: &json::PolicyJson) -> Result<Policy, Refused> {
    let carrier = |name: &String| {
        let known = CarrierId::ALL.into_iter().find(|c| c.name() == name);
        known.ok_or_else(|| {
            let text = "there is no carrier of that name";
            Fault::new(Exit::Usage, text, "use relay, link, mesh or mixnet")
        })
    };
    Ok(Policy {
        carriers: policy.carriers.iter().map(carrier).collect::<Result<_, _>>()?,
        level_min: policy.pin,
        fallback: match policy.fallback {
            json::FallbackJson::None => Fallback::None,
            json::FallbackJson::Listed => Fallback::Listed,
        },
        timer_s: policy.timer_s,
        delivered: policy.delivered,
        read: policy.read,
        life: policy.mesh_life.map(life_of),
    })
}

/// Describes a note.
pub fn describe_note(view: &NoteView) -> json::NoteJson {
    let (kind, text) = match &view.body {
        NoteContent::Text(text) => (json::NoteKind::Text, Some(text.clone())),
        NoteContent::Newer => (json::NoteKind::Newer, None),
    };
    let why = match view.state {
        NoteState::Queued(why) => Some(words::describe_reason(why).0.to_owned()),
        _ => None,
    };
    let (state, words) = words::describe_state(view.state);
    json::NoteJson {
        id: view.id.0.to_string(),
        contact: view.contact.0.to_string(),
        incoming: view.incoming,
        kind,
        text,
        sent_ms: view.sent.as_ms(),
        at_ms: view.at.as_ms(),
        state,
        why,
        words,
        carrier: view.carrier.map(|c| c.name().into()),
        level: view.level,
        pin: view.level_min,
        facts: view.facts.iter().map(describe_fact).collect(),
        due_ms: view.due.map(mezza_core::Time::as_ms),
        announced: match view.state {
            NoteState::Carried(names) => Some(names),
            _ => None,
        },
        carried_until_ms: view.carried_until.map(mezza_core::Time::as_ms),
        mesh_life: view.life.map(describe_life),
        mark: view.mark.map(words::restore_mark),
    }
}

fn describe_fact(fact: &Fact) -> json::FactJson {
    let (what, words) = words::fact_words(fact);
    json::FactJson { what, carrier: fact.carrier.name().into(), at_ms: fact.at.as_ms(), words }
}

/// Describes a carrier.
pub fn describe_carrier(road: &ConnectionView) -> json::CarrierJson {
    let caps = &road.caps;
    json::CarrierJson {
        carrier: road.carrier.name().into(),
        up: road.up,
        level: caps.level,
        relay: road.relay.as_ref().map(describe_relay),
        delay_ms: caps.delay_ms,
        delay_p99_ms: caps.delay_p99_ms,
        piece_bytes: caps.piece_bytes,
        pieces_max: caps.pieces_max,
        store_h: caps.store_h,
        receipts: caps.receipts,
        demo: caps.demo,
        noise_grade: caps.noise.map(|grade| words::mixnet::grade_name(grade).into()),
        hides: words::list_hidden(caps),
    }
}

/// A config with this number of rounds has no budget: the network makes no promise, for any time.
const NO_BUDGET: u64 = u32::MAX as u64;

/// Describes the mixnet.
pub fn describe_mixnet(view: &NetworkView) -> json::Mixnet {
    let uri = NetworkUri { genesis: view.link.pin, address: view.link.address.clone() };
    let policy = view.policy.as_ref();
    json::Mixnet {
        link: uri.to_string(),
        network: view.network.map(|network| HEXLOWER.encode(&network.0)),
        up: view.up,
        level: view.level,
        noise_grade: view.noise.map(|grade| words::mixnet::grade_name(grade).into()),
        trouble: view.trouble.map(|trouble| words::mixnet::describe_trouble(trouble).0),
        round: view.round,
        interval_ms: policy.map(|policy| policy.interval_ms),
        users: view.users,
        mixes: view.mixes,
        law: policy.map(|policy| words::mixnet::law_name(policy.mode).into()),
        noise: policy.map(|policy| [policy.mu, policy.scale]),
        rounds_used: view.rounds_used,
        rounds_max: policy.map(|policy| policy.rounds).filter(|rounds| *rounds < NO_BUDGET),
        promise: view.promise.as_ref().map(describe_promise),
        budgets: view.budgets.iter().map(describe_budget).collect(),
        spent: view.spent,
        alarms: view.alarms,
        clock_off: view.clock_off,
    }
}

fn describe_promise(promise: &NetworkPromise) -> json::Promise {
    json::Promise {
        likely: 100.0 * fifty_becomes(promise.epsilon),
        idle: promise.reached_after(1),
        other: promise.reached_by_other_story(),
        two_years: promise.reached_after(2),
    }
}

fn describe_budget(budget: &BudgetView) -> json::Budget {
    json::Budget {
        service: words::mixnet::service_name(budget.service).into(),
        used: budget.used,
        max: Some(budget.rounds).filter(|rounds| *rounds < NO_BUDGET),
    }
}

/// Describes an estimate for sending a text over one carrier.
pub fn describe_offer(offer: &CarrierEstimate) -> json::OfferJson {
    json::OfferJson {
        carrier: offer.carrier.name().into(),
        fits: offer.fits,
        up: offer.up.is_ok(),
        level: offer.caps.level,
        pieces: offer.pieces,
        cost: words::cost_words(&offer.caps, offer.pieces, offer.up.is_ok()),
    }
}

/// Parses the number of a contact.
///
/// # Errors
/// If the text is no contact number.
pub fn contact_id(text: &str) -> Result<ContactId, Refused> {
    text.parse().map(ContactId).map_err(|_| Refused::no_contact())
}

/// Parses the number of a note.
///
/// # Errors
/// If the text is no note number.
pub fn note_id(text: &str) -> Result<NoteId, Refused> {
    text.parse().map(NoteId).map_err(|_| Refused::no_note())
}
