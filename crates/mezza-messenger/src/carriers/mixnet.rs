//! The mixnet carrier: at most one joined network with one client machine, whose messages are
//! parcels.
//!
//! ```text
//! both cards name the network, the session is open, we began it
//!     -> a note with `meet` (root, rounds) -> both clients hold the root -> parcels may take cells
//! a card alone -> invitation (208 B) -> they call -> hello and card in cells
//! an invitation for us -> inviter -AskWho-> chains, a call -> their hello and card in cells
//! ```

mod apart;
mod carrier;
mod cover;
mod invitations;
mod inviter;
mod io;
mod left;
mod machine;
mod membership;
mod network;
mod peer;
mod stored;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Backend, Secret, Time, Wiping, snapshot};
use mezza_lanes::Kernel;
use mezza_mixnet::Service;
use mezza_mixnet::client::{self, Invite, NewRoot, StartRounds};
use mezza_mixnet::contact::{Role, assign_bucket};
use mezza_mixnet::wire::invitation::BODY_BYTES;
use mezza_ratchet::{Exporter, Padding, SuiteList};

use crate::evidence::WaitReason;
use crate::io::{
    CarrierId, ContactFacts, ContactId, Ctx, DeliveryProblem, Due, Effects, Event, FirstTerms,
    Handover, Leaving, Missing, News, ParcelId, RecordKind, Route, key32,
};
use crate::note::{Item, MixnetStart};
use crate::view::NetworkView;
use left::LeftNetworks;
use network::{JoinedNetwork, LENGTH_BYTES, PIECE_BYTES, PIECES_MAX};

pub use crate::io::NetworkAddress;
pub use cover::{MixnetCover, MixnetLine};
pub(crate) use inviter::{Inviter, read_owner};
pub use io::{MixnetInput, MixnetOutput};
pub(crate) use left::LeftNetwork;
pub(crate) use network::Membership;
pub(crate) use peer::{MixnetPeer, Talk};

/// Label under which the exporter of a session returns the root secret of the chains, the pair's
/// round keys.
const ROOT: &str = "mezza mix root";
/// Milliseconds until a parcel is offered again after the client had no room for it.
const FULL_AGAIN_MS: u64 = Time::MINUTE_MS;
/// Longest pause between two repetitions of an invitation, in milliseconds.
const INVITED_AGAIN_MS: u64 = 12 * Time::HOUR_MS;
/// Extra lifetime of a first message after the end of its bundle, in milliseconds (messenger 4.2).
const BEYOND_BUNDLE_MS: u64 = 16 * Time::DAY_MS;
/// Divisor of a year's rounds: one contact may take 1/8 of them while the user does not write to
/// it.
const TALK_PART: u64 = 8;

/// Subjects of timers; the number of the inviter or contact is added to the constant.
const CLIENT: u64 = 0;
const INVITER: u64 = 1 << 32;
const YEAR: u64 = 2 << 32;
const APART: u64 = 4 << 32;

/// Paddings of a message: whole cells, so that the length reveals nothing. The length field of the
/// stream and the header of the parcel fill the rest of the cells.
pub(super) static PADDINGS: [Padding; PIECES_MAX + 1] = {
    let mut all = [Padding::Blocks; PIECES_MAX + 1];
    let mut pieces = 1;
    while pieces <= PIECES_MAX {
        all[pieces - 1] = Padding::To(pieces * PIECE_BYTES - LENGTH_BYTES - 1);
        pieces += 1;
    }
    all
};

const fn timer(number: u64) -> Due {
    Due::Carrier(CarrierId::MIXNET, number)
}

/// A parcel that was handed to the client.
struct ParcelOut {
    parcel: ParcelId,
    contact: ContactId,
    /// Number of earlier repetitions, if the parcel is an invitation.
    times: Option<u8>,
}

snapshot!(struct ParcelOut { parcel, contact, times });

/// State of the mixnet carrier.
pub(crate) struct Mixnet<B: Backend> {
    kernel: &'static dyn Kernel,
    network: Option<JoinedNetwork<B>>,
    /// The line (connection and rounds) that stayed open while the device was locked; `start` takes
    /// it.
    live: Option<MixnetLine>,
    /// True if the stored network does not load. No other network may replace it.
    set_aside: bool,
    left: LeftNetworks,
    peers: BTreeMap<ContactId, MixnetPeer>,
    inviters: BTreeMap<ContactId, Inviter>,
    out: BTreeMap<u64, ParcelOut>,
    next_ticket: u64,
    unopened: u64,
    news: VecDeque<News>,
    outputs: VecDeque<MixnetOutput>,
}

snapshot!(struct Mixnet<B> {
    kernel => String::from(kernel.name()), network, live, set_aside, left, peers, inviters, out,
    next_ticket, unopened, news, outputs,
});

impl<B: Backend> Mixnet<B> {
    /// Creates the carrier without a network; the client computes on `kernel`.
    pub fn new(kernel: &'static dyn Kernel) -> Self {
        Self {
            kernel,
            network: None,
            live: None,
            set_aside: false,
            left: LeftNetworks::default(),
            peers: BTreeMap::new(),
            inviters: BTreeMap::new(),
            out: BTreeMap::new(),
            next_ticket: 1,
            unopened: 0,
            news: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Sets the line that `start` continues.
    pub fn set_line(&mut self, line: MixnetLine) {
        self.live = Some(line);
    }

    /// Returns the line of a device that is being locked, or `None` if no network was joined.
    pub fn into_line(self, now: Time) -> Option<MixnetLine> {
        let net = self.network?;
        Some(MixnetLine { link: net.member.link, line: net.client.into_live_line(now) })
    }

    /// Continues the line that was open while the device was locked. A line of another network is
    /// closed.
    fn attach_line(&mut self, ctx: &mut Ctx<'_>) {
        let Some(MixnetLine { line, .. }) = self.live.take() else { return };
        let attached =
            self.network.as_mut().is_some_and(|net| net.client.attach_line(line, ctx.now, ctx.rng));
        // A line of another network would reveal a membership that has ended.
        if !attached {
            self.outputs.push_back(MixnetOutput::Leave);
        }
    }

    /// Returns the view of the joined network, or `None` if there is none.
    pub fn view(&self, now: Time) -> Option<NetworkView> {
        self.network.as_ref().map(|net| net.view(now))
    }

    fn is_muted(&self, contact: ContactId) -> bool {
        self.peers.get(&contact).is_some_and(|peer| peer.muted)
    }

    /// Returns the route to a contact that has not called yet: first an invitation. Waiting notes
    /// follow once the contact calls.
    fn find_first_route(&self, to: &ContactFacts<'_>, now: Time) -> Result<Route, Missing> {
        // The invitation is repeated by its own timer. A second one would waste a prekey (4.4).
        if to.invited {
            return Err(Missing::Wait(WaitReason::Answer));
        }
        // Without a config or a card with our network an invitation cannot be addressed.
        let meeting = self.rounds_now(now).filter(|_| self.can_invite(to, now));
        let Some(meeting) = meeting else { return Err(Missing::Wait(WaitReason::Keys)) };
        let items = [Item::Meet(meeting)].into();
        Err(Missing::First(FirstTerms {
            suites: SuiteList::without_kem(),
            bytes: BODY_BYTES,
            items,
            beyond_ms: BEYOND_BUNDLE_MS,
        }))
    }

    /// Returns true if a contact can be invited. Its card must name our network. In addition we
    /// hold only its card, or it sent a bundle before its chains were lost here (MSG-121).
    fn can_invite(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        let Some(net) = &self.network else { return false };
        let Some(config) = net.config(now) else { return false };
        let begins = if to.is_open {
            to.session.bundle && !net.client.has_contact(to.id.0)
        } else {
            !to.session.is_usable()
        };
        to.card.mixnet().is_some_and(|entry| entry.network == config.network)
            && begins
            && to.is_ours
            && config.find_policy(Service::Invitation).is_some()
    }

    /// Hands an invitation to the client for the next invitation round.
    fn hand_invitation(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        let body = <[u8; BODY_BYTES]>::try_from(parcel.bytes);
        // All invitations have one size, so a message of another length cannot leave as one.
        let (Some(entry), Ok(body)) = (parcel.to.card.mixnet(), body) else {
            return Handover::Waits;
        };
        let times = Some(parcel.times);
        let ticket =
            self.assign_ticket(ParcelOut { parcel: parcel.id, contact: parcel.to.id, times });
        let invite = Invite { ticket, to: entry.dialling, body: Wiping::new(body) };
        // The client reports the result of `Invite` as an output.
        let _ = self.feed_client(client::Input::Invite(invite), ctx);
        Handover::Out
    }

    fn assign_ticket(&mut self, out: ParcelOut) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.out.insert(ticket, out);
        ticket
    }

    /// Suspends or resumes a contact in the client by comparing its lowest level with the current
    /// level. The client refuses an unknown contact, which it does not serve anyway.
    fn update_suspension(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let level = self.network.as_ref().map_or(1, |net| net.level);
        let level_min = self.peers.get(&id).map_or(Some(1), |peer| peer.level_min);
        // Below its lowest level a contact is served in neither direction (MSG-20).
        let suspended = level_min.is_none_or(|level_min| level_min > level);
        let _ = self.feed_client(client::Input::Suspend(id.0, suspended), ctx);
    }

    /// Applies a new level after a change or after a start of the client. Parcels above the new
    /// level are returned by the client.
    fn level_changed(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.update_suspension(id, ctx);
        }
        let level = self.network.as_ref().map_or(1, |net| net.level);
        self.news.push_back(News::Level(CarrierId::MIXNET, level));
    }

    /// Returns the current rounds, at which the chains start if their root comes from the session.
    fn rounds_now(&self, now: Time) -> Option<MixnetStart> {
        let config = self.network.as_ref()?.config(now)?;
        let round = |service| config.find_policy(service)?.1.round_at(now);
        Some(MixnetStart {
            network: config.network,
            conversation: round(Service::Conversation)?,
            call: round(Service::Call)?,
            root: None,
        })
    }

    fn root_for(&self, id: ContactId) -> Option<[u8; 16]> {
        self.peers.get(&id)?.root_for
    }

    fn add_root(
        &mut self,
        of: &ContactFacts<'_>,
        meet: &MixnetStart,
        role: Role,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(config) = self.network.as_ref().and_then(|net| net.config(ctx.now)) else {
            return;
        };
        let (Some(root), Some(entry)) = (&meet.root, of.card.mixnet()) else { return };
        // A root names the network for which it was made, and has no use in another one.
        if config.network != meet.network {
            return;
        }
        let buckets = config.find_policy(Service::Call).map_or(1, |(_, policy)| policy.buckets);
        let root = NewRoot {
            contact: of.id.0,
            root: Secret::copy_from(root),
            role,
            start: StartRounds { conversation: meet.conversation, call: meet.call },
            bucket: assign_bucket(&entry.dialling, &meet.network, buckets),
        };
        // An error means that the rounds are out of reach, so the item is ignored.
        if self.feed_client(client::Input::Add(root), ctx).is_ok() {
            let session = of.session.id;
            let dialling = Some(entry.dialling);
            self.update_peer(of.id, ctx.effects, |peer| {
                (peer.root_for, peer.dialling) = (session, dialling);
            });
            self.update_suspension(of.id, ctx);
        }
    }

    /// Handles the loss of a parcel with a root of ours, which the contact may not know. Chains with
    /// one root in which the contact was never met end, because the contact would be called in them
    /// in vain. Another root is owed (MSG-155).
    fn on_root_lost(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let Some(net) = &self.network else { return };
        // A meeting proves that the contact has the root in use: then an older one was lost.
        if net.client.has_unproven_root(id.0) {
            // The client has the contact, so it refuses nothing.
            let _ = self.feed_client(client::Input::Remove(id.0), ctx);
            self.return_parcels(|out| out.contact == id && out.times.is_none());
        }
        self.update_peer(id, ctx.effects, |peer| peer.root_for = None);
        ctx.effects.touch(id);
    }

    fn update_peer(
        &mut self,
        id: ContactId,
        effects: &mut Effects,
        change: impl FnOnce(&mut MixnetPeer),
    ) {
        let peer = self.peers.entry(id).or_default();
        change(peer);
        match peer.stored_form() {
            Some(value) => {
                effects.put(RecordKind::MixnetPeer, key32(id.0), value);
            }
            None => effects.drop_row(RecordKind::MixnetPeer, key32(id.0)),
        }
    }

    /// Counts activity of a contact in the mixnet: a parcel or a call.
    fn record_activity(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        // Inviters have no share: the user has not accepted them, and they are served on request
        // only.
        if self.inviters.contains_key(&id) {
            return;
        }
        if self.peers.entry(id).or_default().record_activity(ctx.now) {
            self.update_peer(id, ctx.effects, |_| {});
            self.update_mute(id, ctx);
        }
    }

    /// Returns the milliseconds per year for which the mixnet serves one contact that only writes
    /// to us, without a note of the user.
    fn talk_max_ms(&self, now: Time) -> Option<u64> {
        let policy = self.network.as_ref()?.policy(now)?;
        Some((policy.rounds / TALK_PART).saturating_mul(policy.interval_ms.into()))
    }

    /// Mutes or unmutes a contact in the client by its share of rounds.
    fn update_mute(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let Some(most_ms) = self.talk_max_ms(ctx.now) else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // Above its share a contact is served for notes of the user only (MSG-54).
        let muted = peer.talk.ms(ctx.now) >= most_ms && !peer.is_talked_to(ctx.now);
        let news = core::mem::replace(&mut peer.muted, muted) != muted;
        let year_end = muted.then(|| peer.talk.year_end());
        if news || muted {
            // The client refuses an unknown contact, which it does not serve anyway.
            let _ = self.feed_client(client::Input::Mute(id.0, muted), ctx);
        }
        if news {
            ctx.effects.set_timer(timer(YEAR | u64::from(id.0)), year_end);
            ctx.effects.show(Event::Contact(id));
        }
        // The user is notified when the share ends, not when it returns.
        if news && muted {
            ctx.effects.show(Event::Trouble(id, DeliveryProblem::Talk));
        }
    }

    /// Starts the new yearly share of a contact.
    fn turn_year(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        self.update_peer(id, ctx.effects, |peer| peer.talk.add(0, now));
        self.update_mute(id, ctx);
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<MixnetOutput> {
        self.outputs.pop_front()
    }
}

/// Returns true if a note with these items is an invitation: a `meet` item names rounds and
/// contains no root.
pub(super) fn is_invitation(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Meet(meet) if meet.root.is_none()))
}

/// Derives the root of a pair's chains from the session, for a `meet` item without a root.
fn derive_root(exporter: Exporter) -> Secret<32> {
    let [root] = exporter.export_secrets([ROOT]);
    root
}

/// Returns the last `meet` item of a note. If the item has no root, the root is derived from the
/// session that the note began.
fn last_meet(items: &[Item], exporter: Option<Exporter>) -> Option<MixnetStart> {
    let mut meet = items.iter().rev().find_map(|item| match item {
        Item::Meet(meet) => Some(meet.clone()),
        _ => None,
    })?;
    // Without a root in the item both sides use the exporter of the session (4.4).
    if meet.root.is_none() {
        meet.root = exporter.map(|exporter| Wiping::new(*derive_root(exporter).expose()));
    }
    Some(meet)
}
