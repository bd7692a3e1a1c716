//! The clock, the queue of events, crashes and clock jumps.

mod events;

use crate::link::Links;
use crate::{Effect, Host, HostId, LinkModel, SimRng, Time, WorldStep, WriteCache};
use events::Event;
use mezza_core::Timers;
use std::collections::{BTreeMap, BTreeSet};

/// How often a host crashes, and how long it stays down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashRate {
    /// Crashes before an effect, per thousand effects.
    pub permille: u32,
    /// Minimum and maximum time until the host boots again, ms.
    pub down_ms: (u64, u64),
}

/// One seeded world. See the [crate] for an example.
pub struct World<H: Host> {
    seed: u64,
    now: Time,
    dice: SimRng,
    places: Vec<Site<H>>,
    links: Links,
    queue: BTreeMap<(Time, u64), Event<H>>,
    pushed: u64,
    /// Hosts that may have effects to execute, or a new deadline.
    busy: BTreeSet<HostId>,
    /// By host and peer: the number of the event that will notify the host of the broken stream.
    deaf: BTreeMap<(HostId, HostId), u64>,
    /// Wake-up times of the hosts that are up and not busy, by the world's clock.
    deadlines: Timers<HostId>,
    wakes_in_a_row: u32,
}

/// One host, running or down, and its disk.
struct Site<H: Host> {
    host: Option<H>,
    disk: H::Disk,
    /// True if writes wait in the cache until the host does something else.
    caches: bool,
    cache: WriteCache<H::Write>,
    /// The effect to carry out once the writes of the host are synced.
    held: Option<Effect<H>>,
    dice: SimRng,
    /// The host's clock minus the world's, ms.
    skew_ms: i64,
    crashes: CrashRate,
    /// Number of further effects until a planned crash.
    crash_after: Option<u64>,
}

impl<H: Host> World<H> {
    /// The time at which every clock begins: 2027-01-15 08:00 UTC.
    pub const START: Time = Time::from_ms(1_800_000_000_000);

    /// Makes an empty world; links are [`LinkModel::datagram`] unless set otherwise.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Self::START,
            dice: SimRng::new(seed, 0),
            places: Vec::new(),
            links: Links::new(LinkModel::datagram()),
            queue: BTreeMap::new(),
            pushed: 0,
            busy: BTreeSet::new(),
            deaf: BTreeMap::new(),
            deadlines: Timers::default(),
            wakes_in_a_row: 0,
        }
    }

    /// Adds a host with this disk and boots it at once.
    pub fn add_host(&mut self, disk: H::Disk) -> HostId {
        let place = HostId(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let mut dice = SimRng::new(self.seed, u64::from(place.0) + 1);
        let host = Some(H::boot(&disk, self.now, dice.rng()));
        let site = Site {
            host,
            disk,
            caches: false,
            cache: WriteCache::default(),
            held: None,
            dice,
            skew_ms: 0,
            crashes: CrashRate::default(),
            crash_after: None,
        };
        self.places.push(site);
        self.busy.insert(place);
        place
    }

    /// Returns all hosts, in order.
    pub fn places(&self) -> impl Iterator<Item = HostId> + use<H> {
        (0..self.places.len() as u32).map(HostId)
    }

    /// Returns the seed of this world.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the world's time; hosts see it through their own clocks.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time by the clock of `place`.
    pub fn now_at(&self, place: HostId) -> Time {
        self.site(place).local_time(self.now)
    }

    /// Returns the test's own generator, for schedules drawn from the same seed.
    pub fn dice(&mut self) -> &mut SimRng {
        &mut self.dice
    }

    /// Returns the host at `place`; `None` while it is down.
    pub fn host(&self, place: HostId) -> Option<&H> {
        self.site(place).host.as_ref()
    }

    /// Returns the host at `place` for changes from outside; the next steps execute its effects.
    pub fn host_mut(&mut self, place: HostId) -> Option<&mut H> {
        self.busy.insert(place);
        self.site_mut(place).host.as_mut()
    }

    /// Returns the disk of `place`.
    pub fn disk(&self, place: HostId) -> &H::Disk {
        &self.site(place).disk
    }

    /// Returns the disk of `place` for changes: a rollback, a theft, a repair. The running host
    /// does not notice.
    pub fn disk_mut(&mut self, place: HostId) -> &mut H::Disk {
        &mut self.site_mut(place).disk
    }

    /// Sets the link of both directions between two hosts.
    pub fn set_link(&mut self, a: HostId, b: HostId, link: LinkModel) {
        self.links.set_link(a, b, link);
        self.links.set_link(b, a, link);
    }

    /// Sets the link of one direction. Streams need the same kind of link in both directions.
    pub fn link_one_way(&mut self, from: HostId, to: HostId, link: LinkModel) {
        self.links.set_link(from, to, link);
    }

    /// Cuts the link between two hosts; streams break at once, datagrams are lost.
    pub fn cut_link(&mut self, a: HostId, b: HostId) {
        self.links.cut_link(a, b);
        if self.links.break_stream(a, b) {
            self.tell_lost(a, b);
            self.tell_lost(b, a);
        }
    }

    /// Restores the link between two hosts.
    pub fn heal_link(&mut self, a: HostId, b: HostId) {
        self.links.heal_link(a, b);
    }

    /// Makes a partition: cuts every link between `group` and the rest.
    pub fn partition(&mut self, group: &[HostId]) {
        let rest = self.places().filter(|place| !group.contains(place)).collect::<Vec<_>>();
        for &inside in group {
            for &outside in &rest {
                self.cut_link(inside, outside);
            }
        }
    }

    /// Gives the disk of `place` a cache: writes are synced together, before the host does
    /// something else or waits, as a driver does. A crash in between is a loss of power, which
    /// undoes all unsynced writes but the first few.
    pub fn cache_writes(&mut self, place: HostId) {
        self.site_mut(place).caches = true;
    }

    /// Lets `place` crash at random from now on.
    pub fn set_crash_rate(&mut self, place: HostId, crashes: CrashRate) {
        self.site_mut(place).crashes = crashes;
    }

    /// Lets `place` crash once, after `effects` more effects were executed.
    pub fn crash_after(&mut self, place: HostId, effects: u64) {
        self.site_mut(place).crash_after = Some(effects);
    }

    /// Crashes `place` now; it boots again after `down_ms`.
    pub fn crash_host(&mut self, place: HostId, down_ms: u64) {
        let site = self.site_mut(place);
        if site.host.take().is_none() {
            return;
        }
        site.held = None;
        if !site.cache.is_empty() {
            let reached = site.cache.lose_power(&mut site.dice);
            reached.for_each(|write| H::apply_write(&mut site.disk, write));
        }
        self.wait_for_deadline(place);
        self.deaf.retain(|&(at, _), _| at != place);
        for peer in self.links.stream_peers(place) {
            self.links.break_stream(place, peer);
            self.tell_lost(peer, place);
        }
        self.push_event(self.now.plus_ms(down_ms), Event::Boot(place));
    }

    /// Moves the clock of `place` by `ms`, forwards or backwards.
    pub fn shift_clock(&mut self, place: HostId, ms: i64) {
        let site = self.site_mut(place);
        site.skew_ms = site.skew_ms.saturating_add(ms);
        self.busy.insert(place);
    }

    /// Gives `order` to `place` in `delay_ms`.
    pub fn schedule_order(&mut self, place: HostId, delay_ms: u64, order: H::Order) {
        self.push_event(self.now.plus_ms(delay_ms), Event::Order(place, order));
    }

    /// Ends all faults: links behave, none is cut, no host crashes, clocks are right. Hosts that
    /// are down boot at their planned time. All promises must now come true.
    pub fn stop_faults(&mut self) {
        self.links.stop_faults();
        for site in &mut self.places {
            (site.crashes, site.crash_after, site.skew_ms) = (CrashRate::default(), None, 0);
        }
        self.busy.extend(self.places());
    }

    /// Steps for `ms` of world time, showing each step to `judge`.
    pub fn run_for(&mut self, ms: u64, mut judge: impl FnMut(&Self, &WorldStep<H::News>)) {
        let end = self.now.plus_ms(ms);
        while let Some(step) = self.step_until(end) {
            judge(self, &step);
        }
    }

    #[expect(clippy::expect_used, reason = "a place of another world is a bug of the test")]
    fn site(&self, place: HostId) -> &Site<H> {
        self.places.get(place.0 as usize).expect("a place of this world")
    }

    #[expect(clippy::expect_used, reason = "a place of another world is a bug of the test")]
    fn site_mut(&mut self, place: HostId) -> &mut Site<H> {
        self.places.get_mut(place.0 as usize).expect("a place of this world")
    }
}

impl<H: Host> Site<H> {
    /// Returns the time that the clock of the site shows when the world's shows `now`.
    fn local_time(&self, now: Time) -> Time {
        Time::from_ms(now.as_ms().saturating_add_signed(self.skew_ms))
    }

    /// Returns the time at which the host must wake, by the world's clock.
    fn deadline(&self) -> Option<Time> {
        let own = self.host.as_ref()?.deadline()?;
        Some(Time::from_ms(own.as_ms().saturating_add_signed(self.skew_ms.saturating_neg())))
    }
}
