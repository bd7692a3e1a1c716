//! One step at a time: an effect of a busy host, else the next event, else the next deadline.

use super::{Site, World};
use crate::{CryptoRng, Effect, Host, HostId, Time, WorldStep};

/// Consecutive wake-ups at one instant after which a host is considered stuck.
const WAKES_IN_A_ROW_MAX: u32 = 10_000;

/// An entry of the queue.
pub(super) enum Event<H: Host> {
    Boot(HostId),
    Order(HostId, H::Order),
    /// `breaks` identifies the stream of the pair; `None`: a datagram.
    Deliver {
        from: HostId,
        to: HostId,
        packet: H::Packet,
        breaks: Option<u64>,
    },
    Lost {
        at: HostId,
        peer: HostId,
        number: u64,
    },
}

impl<H: Host> World<H> {
    /// Runs the next step. Returns `None` if nothing happens up to and including `end`; the clock
    /// is then at `end`.
    pub fn step_until(&mut self, end: Time) -> Option<WorldStep<H::News>> {
        loop {
            if let Some(&place) = self.busy.first() {
                match self.execute_next(place) {
                    Some(step) => return Some(step),
                    None => self.wait_for_deadline(place),
                }
                continue;
            }
            let event = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let wake = self.deadlines.next_deadline();
            let event_first = match (event, wake) {
                (Some(at), Some(wake)) => at <= wake,
                (at, _) => at.is_some(),
            };
            let at = if event_first { event } else { wake };
            let Some(at) = at.filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                return None;
            };
            self.advance_to(at, event_first);
            if !event_first {
                return self.deadlines.take_first(at).map(|place| self.wake_host(place));
            }
            if let Some(step) = self.queue.pop_first().and_then(|(_, event)| self.run_event(event))
            {
                return Some(step);
            }
        }
    }

    pub(super) fn push_event(&mut self, at: Time, event: Event<H>) -> u64 {
        self.pushed += 1;
        self.queue.insert((at, self.pushed), event);
        self.pushed
    }

    /// Schedules the notification of `at` that its stream to `peer` broke, after the delay of the
    /// link.
    pub(super) fn tell_lost(&mut self, at: HostId, peer: HostId) {
        if self.host(at).is_none() || self.deaf.contains_key(&(at, peer)) {
            return;
        }
        let arrival = self.links.in_order(peer, at, self.now, &mut self.dice);
        let number = self.pushed + 1;
        self.push_event(arrival, Event::Lost { at, peer, number });
        self.deaf.insert((at, peer), number);
    }

    fn advance_to(&mut self, at: Time, is_event: bool) {
        let stands = at <= self.now && !is_event;
        self.wakes_in_a_row = if stands { self.wakes_in_a_row + 1 } else { 0 };
        assert!(
            self.wakes_in_a_row <= WAKES_IN_A_ROW_MAX,
            "a host wakes again and again at {:?}; its deadline does not move",
            self.now
        );
        self.now = self.now.max(at);
    }

    /// Makes an idle host wait for its deadline; a past deadline is due now.
    pub(super) fn wait_for_deadline(&mut self, place: HostId) {
        self.busy.remove(&place);
        let due = self.site(place).deadline();
        self.deadlines.set_deadline(place, due.map(|due| due.max(self.now)));
    }

    fn wake_host(&mut self, place: HostId) -> WorldStep<H::News> {
        self.with_host(place, H::wake);
        WorldStep::Woke(place)
    }

    /// Calls the host at `place`, if it is up, with its time and generator.
    fn with_host(
        &mut self,
        place: HostId,
        call: impl FnOnce(&mut H, Time, &mut dyn CryptoRng),
    ) -> bool {
        let now = self.now;
        let site = self.site_mut(place);
        let clock = site.local_time(now);
        let Site { host: Some(host), dice, .. } = site else { return false };
        call(host, clock, dice.rng());
        self.busy.insert(place);
        true
    }

    fn run_event(&mut self, event: Event<H>) -> Option<WorldStep<H::News>> {
        match event {
            Event::Boot(place) => {
                let now = self.now;
                let site = self.site_mut(place);
                site.host = Some(H::boot(&site.disk, site.local_time(now), site.dice.rng()));
                self.busy.insert(place);
                Some(WorldStep::Booted(place))
            }
            Event::Order(place, order) => {
                let heard =
                    self.with_host(place, |host, now, rng| host.apply_order(order, now, rng));
                Some(if heard {
                    WorldStep::Ordered(place)
                } else {
                    WorldStep::CommandDropped(place)
                })
            }
            Event::Deliver { from, to, packet, breaks } => {
                let broken = breaks.is_some_and(|count| count != self.links.break_count(from, to));
                let arrived = !broken
                    && !self.links.is_cut(from, to)
                    && self.with_host(to, |host, now, rng| {
                        host.deliver_packet(from, packet, now, rng);
                    });
                let vanished = WorldStep::PacketLost { from, to };
                Some(if arrived { WorldStep::Delivered { from, to } } else { vanished })
            }
            Event::Lost { at, peer, number } => {
                // The host crashed or hung up meanwhile, so the stream is unknown to it.
                self.deaf.get(&(at, peer)).filter(|&&waiting| waiting == number)?;
                self.deaf.remove(&(at, peer));
                self.with_host(at, |host, now, rng| host.stream_lost(peer, now, rng));
                Some(WorldStep::Lost { at, peer })
            }
        }
    }

    /// Executes the next effect of `place`, or crashes the host instead. Returns `None` if there is
    /// no effect and all writes are synced.
    fn execute_next(&mut self, place: HostId) -> Option<WorldStep<H::News>> {
        let site = self.site_mut(place);
        let next = site.held.take().or_else(|| site.host.as_mut()?.next_effect());
        let syncs = !site.cache.is_empty() && !matches!(next, Some(Effect::Write(_)));
        if !syncs && next.is_none() {
            return None;
        }
        if let Some(down_ms) = site.crash_now() {
            self.crash_host(place, down_ms);
            return Some(WorldStep::Crashed(place));
        }
        if syncs {
            site.held = next;
            let write = site.cache.sync_next()?;
            return Some(self.apply_write(place, write));
        }
        let effect = next?;
        Some(match effect {
            Effect::Write(write) if self.site(place).caches => {
                self.site_mut(place).cache.push_write(write);
                WorldStep::Cached(place)
            }
            Effect::Write(write) => self.apply_write(place, write),
            Effect::Send { to, packet } => {
                self.send_packet(place, to, &packet);
                WorldStep::Sent { from: place, to }
            }
            Effect::HangUp(peer) => {
                self.deaf.remove(&(place, peer));
                if self.links.break_stream(place, peer) {
                    self.tell_lost(peer, place);
                }
                WorldStep::HungUp { at: place, peer }
            }
            Effect::Tell(news) => WorldStep::Told { at: place, news },
        })
    }

    fn apply_write(&mut self, place: HostId, write: H::Write) -> WorldStep<H::News> {
        H::apply_write(&mut self.site_mut(place).disk, write);
        self.with_host(place, H::write_durable);
        WorldStep::Stored(place)
    }

    fn send_packet(&mut self, from: HostId, to: HostId, packet: &H::Packet) {
        let stream = self.links.get(from, to).stream;
        if stream && self.deaf.contains_key(&(from, to)) {
            return;
        }
        let arrivals = self.links.draw_arrivals(from, to, self.now, &mut self.dice);
        if stream && (self.links.is_cut(from, to) || self.host(to).is_none()) {
            self.links.break_stream(from, to);
            return self.tell_lost(from, to);
        }
        let breaks = stream.then(|| self.links.break_count(from, to));
        for at in arrivals {
            self.push_event(at, Event::Deliver { from, to, packet: packet.clone(), breaks });
        }
    }
}

impl<H: Host> Site<H> {
    /// Counts down to a planned crash. Returns how long the site stays down if it crashes before its next
    /// effect, in ms.
    fn crash_now(&mut self) -> Option<u64> {
        let planned = match &mut self.crash_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if planned {
            self.crash_after = None;
        }
        let crash = planned || self.dice.chance(self.crashes.permille);
        crash.then(|| self.dice.between(self.crashes.down_ms.0, self.crashes.down_ms.1))
    }
}
