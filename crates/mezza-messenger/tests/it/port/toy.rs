//! A carrier that gives each parcel to the test: it stands where the link will, and has a row for each
//! contact, a part of the card, a timer, a reason not to be up, and something that it wants durable.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use mezza_core::{DecodeError, Reader, Time, Wiping, snapshot};
use mezza_messenger::carriers::{Bundles, Carrier, Exchange, Invitations, Routing, Storage};
use mezza_messenger::evidence::WaitReason;
use mezza_messenger::io::{
    CarrierCaps, CarrierHides, CarrierState, ContactFacts, Ctx, Due, Effects, Forget, Handover,
    Leaving, Missing, News, ParcelId, PersonRows, Route, RouteTerms, StoredRows, key32,
    loads_again,
};
use mezza_messenger::{CarrierId, ContactId, RecordKind};

pub const TOY: CarrierId = CarrierId::LINK;
/// The outer binding of its messages.
pub const OUTER: &[u8] = b"the medium of a toy";
/// How long its medium keeps a parcel.
pub const KEEPS_MS: u64 = Time::HOUR_MS;
pub const CAPS: CarrierCaps = CarrierCaps {
    piece_bytes: 1_000,
    pieces_max: 9,
    around_bytes: 0,
    parcel_bytes_max: 9_000,
    level: 2,
    delay_ms: 1,
    delay_p99_ms: 1,
    receipts: true,
    store_h: 0,
    needs_internet: false,
    demo: true,
    hides: CarrierHides::NOTHING,
    noise: None,
};

/// How a toy is now, as the test wants it.
#[derive(Default)]
pub struct Knobs {
    /// Why it takes nothing.
    pub waits: Cell<Option<WaitReason>>,
    /// It keeps what it takes, and says later that nobody carries it any more.
    pub keeps: Cell<bool>,
    /// It is on the card.
    pub on_card: Cell<bool>,
    /// The highest number that is durable, as it was told.
    pub durable: Cell<u64>,
}

pub struct Toy {
    pub handed: VecDeque<Vec<u8>>,
    pub news: VecDeque<News>,
    /// The number of parcels that it took for each contact.
    pub taken: BTreeMap<ContactId, u32>,
    /// Parcels that it keeps.
    pub kept: Vec<ParcelId>,
    /// How many rows it wrote, and whether the last of them is told to be durable.
    written: u64,
    asks: bool,
    knobs: Rc<Knobs>,
}

snapshot!(struct Toy {
    handed, news, taken, kept, written, asks,
    knobs => (knobs.waits.get(), knobs.keeps.get(), knobs.on_card.get()),
});

impl Toy {
    pub fn new(knobs: &Rc<Knobs>) -> Self {
        let handed = VecDeque::new();
        let news = VecDeque::new();
        let taken = BTreeMap::new();
        let knobs = Rc::clone(knobs);
        Self { handed, news, taken, kept: Vec::new(), written: 0, asks: false, knobs }
    }

    fn store(&self, contact: ContactId, effects: &mut Effects) {
        let value = Wiping::new(self.taken[&contact].to_be_bytes().to_vec());
        effects.put(RecordKind::LinkPeer, key32(contact.0), value);
    }
}

fn read(row: &[u8]) -> Result<u32, DecodeError> {
    Reader::decode_exact(row, Reader::read_u32)
}

impl Carrier for Toy {
    fn id(&self) -> CarrierId {
        TOY
    }

    fn handle_timer(&mut self, number: u64, _: &dyn Fn(ContactId) -> bool, _: &mut Ctx<'_>) {
        self.kept.retain(|id| id.0 != number);
        self.news.push_back(News::Expired(ParcelId(number)));
    }

    fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

impl Routing for Toy {
    fn state(&self, _: Option<&ContactFacts<'_>>, _: Time) -> Option<CarrierState> {
        Some(CarrierState {
            reached: true,
            up: self.knobs.waits.get().map_or(Ok(()), Err),
            caps: CAPS,
        })
    }

    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        _: RouteTerms,
        _: Time,
    ) -> Result<Route, Missing> {
        assert_ne!(to.own.ik(), to.card.ik(), "both cards are known");
        match self.knobs.waits.get() {
            Some(why) => Err(Missing::Wait(why)),
            None => Ok(Route { carrier: TOY, until: None, invitation: false, address: vec![7] }),
        }
    }

    fn outer_binding(&self, _: &ContactFacts<'_>) -> Vec<u8> {
        OUTER.into()
    }

    fn waits_for_place(&self) -> bool {
        false
    }

    fn hand_over(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        assert_eq!(parcel.route.address, [7], "a route is its carrier's");
        *self.taken.entry(parcel.to.id).or_default() += 1;
        self.store(parcel.to.id, ctx.effects);
        (self.written, self.asks) = (self.written + 1, true);
        if self.knobs.keeps.get() {
            self.kept.push(parcel.id);
            ctx.effects.set_timer(Due::Carrier(TOY, parcel.id.0), Some(ctx.now.plus_ms(KEEPS_MS)));
        } else {
            self.handed.push_back(parcel.bytes.to_vec());
            self.news.push_back(News::Handed { parcel: parcel.id, again: None });
        }
        Handover::Out
    }
}

impl Exchange for Toy {
    fn forget_contact(&mut self, contact: ContactId, what: Forget, ctx: &mut Ctx<'_>) {
        if what == Forget::All && self.taken.remove(&contact).is_some() {
            ctx.effects.drop_row(RecordKind::LinkPeer, key32(contact.0));
        }
    }
}

impl Bundles for Toy {
    fn card_part(&self, _: Time) -> Option<(u8, Vec<u8>)> {
        self.knobs.on_card.get().then(|| (4, b"where the toy is".to_vec()))
    }
}

impl Invitations for Toy {}

impl Storage for Toy {
    fn take_durable_number(&mut self) -> Option<u64> {
        std::mem::take(&mut self.asks).then_some(self.written)
    }

    fn on_durable(&mut self, number: u64, _: &mut Ctx<'_>) {
        self.knobs.durable.set(number);
    }

    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        person.read_optional(RecordKind::LinkPeer, read).map(drop)
    }

    fn load_person(&mut self, person: &PersonRows, _: &StoredRows<'_>, _: &mut Ctx<'_>) -> bool {
        let row = person.single_row(RecordKind::LinkPeer).and_then(|row| read(row).ok());
        self.taken.extend(row.map(|taken| (person.id, taken)));
        false
    }

    fn loads_again(&self, _: RecordKind, _: &[u8], value: &[u8]) -> bool {
        loads_again(value, read(value).map(|n| Some(Wiping::new(n.to_be_bytes().to_vec()))))
    }

    fn put_records(&self, effects: &mut Effects) {
        self.taken.keys().for_each(|contact| self.store(*contact, effects));
    }
}
