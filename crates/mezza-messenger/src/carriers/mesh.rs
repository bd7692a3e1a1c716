//! The mesh carrier: parcels in sealed envelopes that devices around flood, without internet.
//!
//! ```text
//! parcel -> tag | parcel -> envelope of the contact's card -> Send -> node -> neighbours
//! node -> trial with the keys of now (a thread of the driver) -> Opened -> tag -> contact | stranger
//! ```
//!
//! The driver owns the node, which holds no secret, and tries what arrives. This carrier owns the
//! key tree, the tags and the parcels on their way. A contact without a session gets a knock: a
//! note with our bundle, authenticated by both identity keys (messenger 4.5).

mod carrier;
mod io;
mod life;
mod own_tree;
mod peer;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Reader, Time, Wiping, labelled_hash, snapshot};
use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, EncapsulateError, EnvelopeKey, EnvelopeTime, Life,
    OpenedEnvelope, System, Tick, TreeError,
};

use crate::card::OFFLINE_PART;
use crate::error::{CarrierError, DeviceError, PersonError};
use crate::evidence::WaitReason;
use crate::io::{
    Arrival, ArrivalOrigin, CarrierCaps, CarrierHides, CarrierId, ContactFacts, ContactId, Ctx,
    Due, Effects, Event, Handover, KeyringStep, Leaving, News, ParcelId, RecordKind, RouteTerms,
    key32,
};
pub use io::{MeshInput, MeshOutput, MeshReport, TrialKeys};
use life::choose_life;
use own_tree::OwnTree;
use peer::{MeshPeer, STRANGER, Tag};

/// Most bytes of a parcel: the largest envelope without its tag.
pub const PARCEL_BYTES_MAX: usize = 3_830 - size_of::<Tag>();

/// Properties of the mesh carrier on links with lasting addresses, by which an observer can follow
/// a device.
pub const CAPS: CarrierCaps = CarrierCaps {
    piece_bytes: PARCEL_BYTES_MAX,
    pieces_max: 1,
    around_bytes: 0,
    parcel_bytes_max: PARCEL_BYTES_MAX,
    level: 2,
    delay_ms: 2_000,
    delay_p99_ms: 60_000,
    receipts: true,
    store_h: 0,
    needs_internet: false,
    demo: false,
    hides: CarrierHides {
        partners_from_provider: true,
        partners_from_operator: true,
        talk_from_observer: false,
    },
    noise: None,
};

/// Largest clock error in milliseconds at which a key tree is made without the user's confirmation.
/// With a larger error the first keys could begin in the future, and nothing could be opened until
/// then.
const TREE_CLOCK_MS: u64 = 150_000;
/// Most parcels that may be on their way to one contact at a time.
const OUT_MAX: usize = 8;
/// Milliseconds until a cell that the node refused is offered again.
const REFUSED_MS: u64 = 2 * Time::SECOND_MS;
/// Remembered envelopes, so that no flood is handled twice.
const SEEN_MAX: usize = 4_096;
/// Bytes of the data of a route: lifetime class of the cell (1), tick (4), seed of the envelope's
/// randomness (32).
const ADDRESS_BYTES: usize = 1 + 4 + 32;

/// The encryption randomness of one envelope. It is drawn before the message inside is sealed,
/// because the message authenticates the envelope (HIBE-54).
struct Draft {
    time: EnvelopeTime,
    seed: Wiping<[u8; 32]>,
    binding: [u8; 32],
}

snapshot!(struct Draft { time => (time.life.number(), time.tick.0), seed, binding });

impl Draft {
    /// Draws the encryption randomness and computes the binding of the envelope.
    fn draw(
        system: &System,
        card: &CardBlock,
        time: EnvelopeTime,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, EncapsulateError> {
        let mut seed = Wiping::new([0; 32]);
        rng.fill_bytes(&mut seed[..]);
        let binding = envelope_key(system, card, time, &seed)?.binding().0;
        Ok(Self { time, seed, binding })
    }

    /// Encodes the data of a route: `life u8 | tick u32 | seed[32]`.
    fn address(&self) -> Vec<u8> {
        let mut address = Vec::with_capacity(ADDRESS_BYTES);
        address.push(self.time.life.number());
        address.extend_from_slice(&self.time.tick.0.to_be_bytes());
        address.extend_from_slice(&self.seed[..]);
        address
    }
}

fn read_address(address: &[u8]) -> Option<(EnvelopeTime, Wiping<[u8; 32]>)> {
    let read: Result<_, DecodeError> = Reader::decode_exact(address, |r| {
        Ok((r.read_u8()?, Tick(r.read_u32()?), Wiping::new(r.read_array()?)))
    });
    let (life, tick, seed) = read.ok()?;
    Some((EnvelopeTime { life: Life::from_number(life)?, tick }, seed))
}

/// Returns the envelope key that this seed of encryption randomness gives. One seed seals one
/// parcel only.
fn envelope_key(
    system: &System,
    card: &CardBlock,
    time: EnvelopeTime,
    seed: &[u8; 32],
) -> Result<EnvelopeKey, EncapsulateError> {
    let coins = Wiping::new(labelled_hash::<64>("mezza/mesh coins", &[seed]));
    let key = card.seal_key_for(time.life, time.tick)?;
    EnvelopeKey::from_coins(system, &key, time.tick, &coins)
}

/// A parcel that the node floods.
struct ParcelOut {
    parcel: ParcelId,
    contact: ContactId,
    /// True if the parcel contains a note of the user.
    own: bool,
    /// True for a knock, a first note with our bundle, which the contact answers.
    knocks: bool,
}

snapshot!(struct ParcelOut { parcel, contact, own, knocks });

/// The card block of a contact (the public keys of its mesh key tree), decoded once.
struct KnownBlock {
    bytes: Vec<u8>,
    /// `None` if the part of the card is no card block.
    card: Option<CardBlock>,
}

snapshot!(struct KnownBlock { bytes, card => card.is_some() });

/// State of the mesh carrier.
#[derive(Default)]
pub(crate) struct Mesh {
    /// Tables of the scheme, made when they are needed first.
    system: Option<Arc<System>>,
    tree: Option<OwnTree>,
    /// Keys of the rows of a tree that did not load, and that a new tree replaces.
    lost: Vec<Vec<u8>>,
    /// The last report of the node; `None` while no node answers.
    clock: Option<MeshReport>,
    life: Life,
    peers: BTreeMap<ContactId, MeshPeer>,
    blocks: BTreeMap<ContactId, KnownBlock>,
    drafts: BTreeMap<ContactId, Draft>,
    out: BTreeMap<u64, ParcelOut>,
    last_ticket: u64,
    seen: BTreeSet<[u8; 16]>,
    seen_order: VecDeque<[u8; 16]>,
    rejected: u64,
    news: VecDeque<News>,
    outputs: VecDeque<MeshOutput>,
}

snapshot!(struct Mesh {
    system => true, tree, lost, clock, life => life.number(), peers, blocks, drafts, out, last_ticket,
    seen, seen_order, rejected, news, outputs,
});

impl Mesh {
    /// Handles an input of the driver.
    ///
    /// # Errors
    /// A tree cannot be made now, or the ticket is unknown.
    pub fn handle_input(&mut self, input: MeshInput, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        match input {
            MeshInput::Clock(clock) => self.follow_node(clock, ctx),
            MeshInput::Away { boot_ms } => self.on_node_away(boot_ms, ctx),
            MeshInput::MakeTree { confirmed } => return self.make_tree(confirmed, ctx),
            MeshInput::Life(life) => self.life = life,
            MeshInput::Opened(opened) => self.on_opened(&opened, ctx),
            MeshInput::Announced { ticket, names } => return self.on_announced(ticket, names),
            MeshInput::Expired { ticket } => return self.on_expired(ticket, ctx),
            MeshInput::Refused { ticket } => {
                let out = self.take_out(ticket)?;
                let after = ctx.now.plus_ms(REFUSED_MS);
                let why = WaitReason::Sending;
                self.news.push_back(News::Refused { parcel: out.parcel, why, after });
            }
            MeshInput::KeyringStored { generation } => {
                if let Some(tree) = &mut self.tree {
                    let was_stored = tree.is_stored();
                    tree.on_stored(generation);
                    if !was_stored && tree.is_stored() {
                        self.news.push_back(News::CardPart);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<MeshOutput> {
        self.outputs.pop_front()
    }

    fn system(&mut self) -> Arc<System> {
        Arc::clone(self.system.get_or_insert_with(|| Arc::new(System::new())))
    }

    /// Returns the reason why nothing leaves now, if there is one.
    fn check_up(&self) -> Result<&MeshReport, WaitReason> {
        let clock = self.clock.as_ref().ok_or(WaitReason::NoCarrier)?;
        if clock.around == 0 { Err(WaitReason::NoNeighbours) } else { Ok(clock) }
    }

    fn follow_node(&mut self, clock: MeshReport, ctx: &mut Ctx<'_>) {
        let before = self.clock.replace(clock);
        let was_up = before.is_some_and(|before| before.around > 0);
        self.turn_keys(Some(clock), clock.boot_ms, ctx);
        if was_up != (clock.around > 0) {
            ctx.effects.show_early(Event::Carrier(CarrierId::MESH));
        }
        if !was_up && clock.around > 0 {
            // A neighbour appeared, and contacts may be reachable through it, so the pauses of all
            // contacts end.
            self.peers.values_mut().for_each(MeshPeer::on_sign);
            ctx.effects.touch_all();
        }
        if before.is_some_and(|before| before.level != clock.level) {
            self.news.push_back(News::Level(CarrierId::MESH, clock.level));
        }
    }

    fn on_node_away(&mut self, boot_ms: u64, ctx: &mut Ctx<'_>) {
        self.turn_keys(None, boot_ms, ctx);
        if self.clock.take().is_some() {
            ctx.effects.show_early(Event::Carrier(CarrierId::MESH));
        }
        // A node that was started again does not remember our tickets, so its parcels are offered
        // again.
        let out = core::mem::take(&mut self.out);
        if !out.is_empty() {
            self.news.push_back(News::Returned(out.into_values().map(|out| out.parcel).collect()));
        }
    }

    /// Erases the keys of past epochs, hands the keys of the current epochs to the node, and stores
    /// the tree.
    fn turn_keys(&mut self, clock: Option<MeshReport>, boot_ms: u64, ctx: &mut Ctx<'_>) {
        let system = self.system();
        let Some(tree) = &mut self.tree else { return };
        if tree.follow_clock(clock.as_ref(), boot_ms, &system, ctx.rng) != Ok(()) {
            // A record of the tree without its key is damage. The next start reports its rows.
            self.tree = None;
            let held = mezza_hibe::HeldKeys::new();
            self.outputs.push_back(MeshOutput::Keys(TrialKeys { system, held }));
            self.news.push_back(News::CardPart);
            return;
        }
        let held = tree.held_keys();
        // The step is stored before new keys are handed out, so that keys erased in memory are
        // erased on disk, too.
        if let Some(step) = tree.pending_step() {
            self.outputs.push_back(MeshOutput::Keyring(step));
        }
        self.outputs.push_back(MeshOutput::Keys(TrialKeys { system, held }));
    }

    /// Makes the key tree of this device. If there is one already, this only has an effect once its
    /// card has ended.
    fn make_tree(&mut self, confirmed: bool, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        if let Some(tree) = self.tree.as_mut().filter(|tree| !tree.is_over()) {
            if confirmed {
                tree.on_date_confirmed();
            }
            if tree.is_stored() {
                // A crash after the tree was stored may have left the card without its keys.
                self.news.push_back(News::CardPart);
            } else if let Some(clock) = self.clock {
                // The disk refused the tree before. The user asks for it again.
                self.turn_keys(Some(clock), clock.boot_ms, ctx);
            }
            return Ok(());
        }
        let clock = self.clock.ok_or(DeviceError::Person(PersonError::NotNow))?;
        // With a wrong clock the first key could begin in the future and would open nothing until
        // then (HIBE-92).
        if clock.within_ms > TREE_CLOCK_MS && !confirmed {
            return Err(DeviceError::Person(PersonError::NoClock));
        }
        let system = self.system();
        let tree = OwnTree::create(&system, &clock, ctx.rng);
        self.tree = Some(tree.map_err(|_: TreeError| DeviceError::Person(PersonError::NoClock))?);
        let lost = core::mem::take(&mut self.lost);
        if !lost.is_empty() {
            self.news.push_back(News::KeysReplaced);
        }
        // The card gets the new keys once they are stored.
        self.turn_keys(Some(clock), clock.boot_ms, ctx);
        self.forget_rows(lost);
        Ok(())
    }

    /// Deletes rows of a tree that did not load, after the rows of the new one are durable.
    fn forget_rows(&mut self, lost: Vec<Vec<u8>>) {
        let step = self.outputs.iter_mut().find_map(|output| match output {
            MeshOutput::Keyring(step) => Some(step),
            _ => None,
        });
        let Some(KeyringStep { before, after, .. }) = step else { return };
        let is_new = |key: &[u8]| {
            before.0.iter().chain(&after.0).any(|change| match change {
                crate::io::RecordChange::Put { key: new, .. } => new == key,
                crate::io::RecordChange::Drop { .. } => false,
            })
        };
        let gone: Vec<_> = lost.into_iter().filter(|key| !is_new(key)).collect();
        let kind = RecordKind::Tree;
        after.0.extend(gone.into_iter().map(|key| crate::io::RecordChange::Drop { kind, key }));
    }

    fn update_peer(
        &mut self,
        id: ContactId,
        effects: &mut Effects,
        change: impl FnOnce(&mut MeshPeer),
    ) {
        let peer = self.peers.entry(id).or_default();
        let before = peer.stored_form();
        change(peer);
        let after = peer.stored_form();
        if let Some(row) = after.filter(|row| before.is_none_or(|before| before[..] != row[..])) {
            effects.put(RecordKind::MeshPeer, key32(id.0), row);
        }
    }

    /// Handles an envelope that opened. Its tag names the writer.
    fn on_opened(&mut self, opened: &OpenedEnvelope, ctx: &mut Ctx<'_>) {
        if !self.seen.insert(opened.id.0) {
            // The envelope was handled before: the node reports all its cells again to each program
            // that connects to it.
            return;
        }
        self.seen_order.push_back(opened.id.0);
        while self.seen_order.len() > SEEN_MAX {
            if let Some(oldest) = self.seen_order.pop_front() {
                self.seen.remove(&oldest);
            }
        }
        let Some((tag, parcel)) = opened.payload.split_first_chunk::<{ size_of::<Tag>() }>() else {
            // Anybody with our card can seal an envelope without a tag.
            self.rejected += 1;
            return;
        };
        let from = match self.peers.iter().find(|(_, peer)| peer.own == Some(*tag)) {
            Some((id, _)) => ArrivalOrigin::Contact(*id),
            None if *tag == STRANGER => ArrivalOrigin::Stranger,
            None => {
                // Only a contact that was deleted here can know a tag that we drew and no longer
                // store.
                self.rejected += 1;
                return;
            }
        };
        if let ArrivalOrigin::Contact(id) = from {
            self.update_peer(id, ctx.effects, |peer| {
                (peer.is_used, peer.arrived_with) = (true, Some(opened.life));
            });
        }
        let level = self.clock.map_or(CAPS.level, |clock| clock.level);
        self.news.push_back(News::Arrived(Arrival {
            carrier: CarrierId::MESH,
            level,
            from,
            parcel: Wiping::new(parcel.to_vec()),
            outer: opened.binding.0.to_vec(),
            ack: None,
        }));
    }

    fn take_out(&mut self, ticket: u64) -> Result<ParcelOut, DeviceError> {
        let out = self.out.remove(&ticket);
        out.ok_or(DeviceError::Carrier(CarrierError::NoSuchTicket))
    }

    fn on_announced(&mut self, ticket: u64, names: u16) -> Result<(), DeviceError> {
        let out = self.out.get(&ticket);
        let out = out.ok_or(DeviceError::Carrier(CarrierError::NoSuchTicket))?;
        let parcel = out.parcel;
        // The parcel of a note stays until its receipt, or until the end of its cell. A knock stays as
        // well, because what waits for its answer would cause the next one at once (MSG-138).
        if out.own || out.knocks {
            self.news.push_back(News::Carried { parcel, others: names.max(1) });
        } else {
            // Receipts have no receipts. A lost one is repeated when the note comes again (MSG-138).
            self.out.remove(&ticket);
            self.news.push_back(News::Handed { parcel, again: None });
        }
        Ok(())
    }

    fn on_expired(&mut self, ticket: u64, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        let ParcelOut { parcel, contact, .. } = self.take_out(ticket)?;
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.on_miss(ctx.now);
            ctx.effects.set_timer(timer(contact), peer.rests_until);
        }
        self.news.push_back(News::Expired(parcel));
        ctx.effects.touch(contact);
        Ok(())
    }

    /// Withdraws the knocks (first notes with our bundle) to a contact, because a message of the
    /// contact has arrived. Knocks with a note of the user stay.
    fn end_greetings(&mut self, contact: ContactId) {
        let news = &mut self.news;
        self.out.retain(|_, out| {
            let ends = out.contact == contact && out.knocks && !out.own;
            if ends {
                news.push_back(News::Handed { parcel: out.parcel, again: None });
            }
            !ends
        });
    }

    /// Returns the card block of a contact, which is decoded once for each card.
    fn learn_block(&mut self, to: &ContactFacts<'_>) {
        let Some(part) = to.card.part(OFFLINE_PART) else {
            self.blocks.remove(&to.id);
            return;
        };
        if self.blocks.get(&to.id).is_none_or(|known| known.bytes != part) {
            let card = CardBlock::decode(part, BlockPolicy::Product).ok();
            self.blocks.insert(to.id, KnownBlock { bytes: part.to_vec(), card });
        }
    }

    fn block(&self, id: ContactId) -> Option<&CardBlock> {
        self.blocks.get(&id)?.card.as_ref()
    }

    /// Draws the encryption randomness of the next envelope for a contact.
    fn draw_draft(&mut self, to: &ContactFacts<'_>, terms: RouteTerms, ctx: &mut Ctx<'_>) {
        self.drafts.remove(&to.id);
        self.learn_block(to);
        let Ok(cur) = self.check_up().map(|clock| Tick(clock.cur)) else { return };
        let system = self.system();
        let Some(card) = self.block(to.id) else { return };
        let life = choose_life(card, self.wanted_life(to.id, terms));
        let time = EnvelopeTime { life, tick: cur };
        if let Ok(draft) = Draft::draw(&system, card, time, ctx.rng) {
            self.drafts.insert(to.id, draft);
        }
    }

    /// Returns the life that a parcel to a contact should have (MSG-150, MSG-152).
    fn wanted_life(&self, to: ContactId, terms: RouteTerms) -> Life {
        let arrived = self.peers.get(&to).and_then(|peer| peer.arrived_with);
        match (terms.life, arrived) {
            (Some(life), _) => life.into(),
            // A receipt that ends before a courier is back would make the writer repeat its note.
            (None, Some(arrived)) if !terms.is_user_note => self.life.max(arrived),
            (None, _) => self.life,
        }
    }

    /// Returns true if a contact gets a knock: no session reaches it, or it gave us no tag.
    fn needs_knock(&self, to: &ContactFacts<'_>) -> bool {
        let tagged = self.peers.get(&to.id).is_some_and(|peer| peer.theirs.is_some());
        !to.session.is_usable() || !tagged
    }

    /// Seals a parcel and gives it to the node.
    fn send_parcel(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        let id = parcel.to.id;
        let up = self.check_up().map(|clock| (Tick(clock.cur), clock.level));
        let Ok((cur, level)) = up else { return Handover::Waits };
        // Checked again: the level may have fallen since the route was selected (MSG-20).
        if level < parcel.pin {
            return Handover::Waits;
        }
        self.learn_block(&parcel.to);
        let system = self.system();
        let knocks = parcel.bytes.first() == Some(&crate::io::KNOCK);
        let tag = self.peers.get(&id).and_then(|peer| peer.theirs).filter(|_| !knocks);
        let tag = tag.unwrap_or(STRANGER);
        let payload = Wiping::new([tag.as_slice(), parcel.bytes].concat());
        let sealed = read_address(&parcel.route.address).and_then(|(time, seed)| {
            let key = envelope_key(&system, self.block(id)?, time, &seed).ok()?;
            Some((time, key.seal(&payload, Bucket::SMALLEST, cur).ok()?))
        });
        let Some((time, envelope)) = sealed else {
            // The epoch of the draft is over, or the contact has a new card, so the parcel is
            // sealed again with new randomness.
            self.news.push_back(News::Expired(parcel.id));
            return Handover::Out;
        };
        self.last_ticket += 1;
        let out = ParcelOut { parcel: parcel.id, contact: id, own: parcel.own, knocks };
        self.out.insert(self.last_ticket, out);
        ctx.effects.set_timer(timer(id), None);
        self.outputs.push_back(MeshOutput::Send {
            ticket: self.last_ticket,
            life: time.life.number(),
            tick: time.tick.0,
            envelope: envelope.into_bytes(),
        });
        Handover::Out
    }
}

const fn timer(contact: ContactId) -> Due {
    Due::Carrier(CarrierId::MESH, contact.0 as u64)
}
