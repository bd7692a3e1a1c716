//! The mixnet carrier: one network that was joined, one client machine in it, its messages parcels.
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
use mezza_mixnet::client::{self, Invite, NewRoot};
use mezza_mixnet::contact::{Role, assign_bucket};
use mezza_mixnet::wire::invitation::BODY_BYTES;
use mezza_ratchet::{Exporter, Padding, SuiteList};

use crate::evidence::WaitReason;
use crate::io::{
    At, CarrierId, ContactFacts, ContactId, DeliveryProblem, Due, Event, FirstTerms, Handover,
    Leaving, Missing, News, ParcelId, RecordKind, Route, Step, key32,
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

/// Under which name the exporter of a session gives the root of the pair's chains.
const ROOT: &str = "mezza mix root";
/// Milliseconds until a parcel that the client had no room for is offered again.
const FULL_AGAIN_MS: u64 = Time::MINUTE_MS;
/// The longest that an invitation waits before it goes again.
const INVITED_AGAIN_MS: u64 = 12 * Time::HOUR_MS;
/// A first message travels this much longer than the bundle it was made for (messenger 4.2).
const BEYOND_BUNDLE_MS: u64 = 16 * Time::DAY_MS;
/// The part of a year's rounds that may go to one contact while the person does not write to it.
const TALK_PART: u64 = 8;

/// The subject of a timer; an inviter or a contact has its number beside it.
const CLIENT: u64 = 0;
const INVITER: u64 = 1 << 32;
const YEAR: u64 = 2 << 32;
const APART: u64 = 4 << 32;

/// How a message is filled up, so that its length says nothing: whole cells. What the stream and
/// the parcel add are the other bytes of them.
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

/// A parcel that the client has.
struct ParcelOut {
    parcel: ParcelId,
    contact: ContactId,
    /// How often it was taken, if it is an invitation.
    times: Option<u8>,
}

snapshot!(struct ParcelOut { parcel, contact, times });

/// Everything about the mixnet.
pub(crate) struct Mixnet<B: Backend> {
    kernel: &'static dyn Kernel,
    network: Option<JoinedNetwork<B>>,
    /// The line that went on while the device was locked, until the start.
    live: Option<MixnetLine>,
    /// True if the stored network does not load, so that no other one may replace it.
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
    /// No network yet; the client computes on this.
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

    /// Goes on with this line at the start.
    pub fn set_line(&mut self, line: MixnetLine) {
        self.live = Some(line);
    }

    /// Takes the line off a device that is locked; `None` if no network was joined.
    pub fn into_line(self, now: Time) -> Option<MixnetLine> {
        let net = self.network?;
        Some(MixnetLine { link: net.member.link, line: net.client.into_live_line(now) })
    }

    /// Goes on with the line of the time in which the device was locked. One of another network ends.
    fn attach_line(&mut self, at: &mut At<'_>) {
        let Some(MixnetLine { line, .. }) = self.live.take() else { return };
        let attached =
            self.network.as_mut().is_some_and(|net| net.client.attach_line(line, at.now, at.rng));
        // A line of another network would reveal a membership that has ended.
        if !attached {
            self.outputs.push_back(MixnetOutput::Leave);
        }
    }

    /// The network that was joined.
    pub fn view(&self, now: Time) -> Option<NetworkView> {
        self.network.as_ref().map(|net| net.view(now))
    }

    fn is_muted(&self, contact: ContactId) -> bool {
        self.peers.get(&contact).is_some_and(|peer| peer.muted)
    }

    /// To somebody who has not answered: an invitation first, then whatever waits once they have
    /// asked who it was.
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

    /// Returns true if a contact can be invited: its card names our network, and we hold its card alone, or it
    /// sent a bundle before its chains were lost here (MSG-121).
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

    /// Hands an invitation to the client, for the next round of them.
    fn hand_invitation(&mut self, parcel: &Leaving<'_>, at: &mut At<'_>) -> Handover {
        let body = <[u8; BODY_BYTES]>::try_from(parcel.bytes);
        // All invitations have one size, so a message of another length cannot leave as one.
        let (Some(entry), Ok(body)) = (parcel.to.card.mixnet(), body) else {
            return Handover::Waits;
        };
        let times = Some(parcel.times);
        let ticket =
            self.assign_ticket(ParcelOut { parcel: parcel.id, contact: parcel.to.id, times });
        let invite = Invite { ticket, to: entry.dialling, body: Wiping::new(body) };
        // The answer comes as an output.
        let _ = self.feed_client(client::Input::Invite(invite), at);
        Handover::Out
    }

    fn assign_ticket(&mut self, out: ParcelOut) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.out.insert(ticket, out);
        ticket
    }

    /// Tells the client whether a contact may be served at the level of now. Whom it does not know it
    /// does not serve.
    fn update_suspension(&mut self, id: ContactId, at: &mut At<'_>) {
        let level = self.network.as_ref().map_or(1, |net| net.level);
        let level_min = self.peers.get(&id).map_or(Some(1), |peer| peer.level_min);
        // Below its lowest level a contact is served in neither direction (MSG-20).
        let suspended = level_min.is_none_or(|level_min| level_min > level);
        let _ = self.feed_client(client::Input::Suspend(id.0, suspended), at);
    }

    /// The level is another one, or the client has started: what may be served at it is, and nothing
    /// else; what is under way above it comes back.
    fn level_changed(&mut self, at: &mut At<'_>) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.update_suspension(id, at);
        }
        let level = self.network.as_ref().map_or(1, |net| net.level);
        self.news.push_back(News::Level(CarrierId::MIXNET, level));
    }

    /// Rounds of now, for chains whose root comes from the session.
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

    fn add_root(&mut self, of: &ContactFacts<'_>, meet: &MixnetStart, role: Role, at: &mut At<'_>) {
        let Some(config) = self.network.as_ref().and_then(|net| net.config(at.now)) else { return };
        let (Some(root), Some(entry)) = (&meet.root, of.card.mixnet()) else { return };
        // A root for another network is of no use here.
        if config.network != meet.network {
            return;
        }
        let buckets = config.find_policy(Service::Call).map_or(1, |(_, policy)| policy.buckets);
        let root = NewRoot {
            contact: of.id.0,
            root: Secret::copy_from(root),
            role,
            start: (meet.conversation, meet.call),
            bucket: assign_bucket(&entry.dialling, &meet.network, buckets),
        };
        // Rounds out of reach: the item is ignored.
        if self.feed_client(client::Input::Add(root), at).is_ok() {
            let session = of.session.id;
            let dialling = Some(entry.dialling);
            self.update_peer(of.id, at.step, |peer| {
                (peer.root_for, peer.dialling) = (session, dialling);
            });
            self.update_suspension(of.id, at);
        }
    }

    fn update_peer(
        &mut self,
        id: ContactId,
        step: &mut Step,
        change: impl FnOnce(&mut MixnetPeer),
    ) {
        let peer = self.peers.entry(id).or_default();
        change(peer);
        match peer.stored_form() {
            Some(value) => {
                step.put(RecordKind::MixnetPeer, key32(id.0), value);
            }
            None => step.drop_row(RecordKind::MixnetPeer, key32(id.0)),
        }
    }

    /// A contact said something in the mixnet, or calls.
    fn record_activity(&mut self, id: ContactId, at: &mut At<'_>) {
        // Inviters have no share: the user has not accepted them, and they are served on request
        // only.
        if self.inviters.contains_key(&id) {
            return;
        }
        if self.peers.entry(id).or_default().record_activity(at.now) {
            self.update_peer(id, at.step, |_| {});
            self.update_mute(id, at);
        }
    }

    /// How long the mixnet may serve one contact in a year for its talk alone.
    fn talk_max_ms(&self, now: Time) -> Option<u64> {
        let policy = self.network.as_ref()?.policy(now)?;
        Some((policy.rounds / TALK_PART).saturating_mul(policy.interval_ms.into()))
    }

    /// Tells the client whether what a contact says has it served.
    fn update_mute(&mut self, id: ContactId, at: &mut At<'_>) {
        let Some(most_ms) = self.talk_max_ms(at.now) else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // Above its share a contact is served for notes of the user only (MSG-54).
        let muted = peer.talk.ms(at.now) >= most_ms && !peer.is_talked_to(at.now);
        let news = core::mem::replace(&mut peer.muted, muted) != muted;
        let year_end = muted.then(|| peer.talk.year_end());
        if news || muted {
            // Whom the client does not know it does not serve.
            let _ = self.feed_client(client::Input::Mute(id.0, muted), at);
        }
        if news {
            at.step.set_timer(timer(YEAR | u64::from(id.0)), year_end);
            at.step.show(Event::Contact(id));
        }
        // The user is notified when the share ends, not when it returns.
        if news && muted {
            at.step.show(Event::Trouble(id, DeliveryProblem::Talk));
        }
    }

    /// A year is over, and a contact has its part of the next one.
    fn turn_year(&mut self, id: ContactId, at: &mut At<'_>) {
        let now = at.now;
        self.update_peer(id, at.step, |peer| peer.talk.add(0, now));
        self.update_mute(id, at);
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<MixnetOutput> {
        self.outputs.pop_front()
    }
}

/// Returns true if such a note invites: it says where chains begin, and no root.
pub(super) fn is_invitation(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Meet(meet) if meet.root.is_none()))
}

/// The root of a pair's chains, where no `meet` brings one.
fn derive_root(exporter: Exporter) -> Secret<32> {
    let [root] = exporter.export_secrets([ROOT]);
    root
}

/// The last root of a note; one without a root gets that of the session that the note began.
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
