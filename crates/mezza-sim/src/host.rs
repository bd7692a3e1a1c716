//! The interface to a test: it supplies a [`Host`] and sees each [`WorldStep`].

use core::fmt;
use mezza_core::{CryptoRng, Time};

/// The number of a host in its world: 0, 1, 2, ... in the order of [`World::add_host`](crate::World::add_host).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A machine and its disk.
///
/// The world calls one of `order`, `deliver`, `lost`, `stored` or `wake`, and then
/// [`next_effect`](Host::next_effect) until that returns `None`; each effect is executed before the
/// next one is requested. `now` is the host's own clock, which a test may set wrong; `rng` is the
/// host's own seeded source. Worlds with different parties (a device, a server) use an enum for
/// `Self`, `Disk`, `Write`, `Packet` and so on.
pub trait Host: Sized {
    /// The state that survives a crash.
    type Disk;
    /// One atomic change of the disk.
    type Write;
    /// The packets of links. A link may repeat one.
    type Packet: Clone;
    /// A request by the user of this host.
    type Order;
    /// An event of the host for the judge of the test.
    type News;

    /// Starts from the disk: empty at the first start, later with all writes before the crash.
    fn boot(disk: &Self::Disk, now: Time, rng: &mut dyn CryptoRng) -> Self;

    /// Handles a request by the user of this host.
    fn apply_order(&mut self, order: Self::Order, now: Time, rng: &mut dyn CryptoRng);

    /// Handles a packet.
    fn deliver_packet(
        &mut self,
        from: HostId,
        packet: Self::Packet,
        now: Time,
        rng: &mut dyn CryptoRng,
    );

    /// Handles the loss of the stream to `peer`: the peer crashed or hung up, the link was cut, or
    /// there was no response. Packets under way in either direction are lost; the next send opens a
    /// new stream. Datagram links never report this.
    fn stream_lost(&mut self, peer: HostId, now: Time, rng: &mut dyn CryptoRng) {
        let _ = (peer, now, rng);
    }

    /// Reports that the oldest pending [`Effect::Write`] is on the disk.
    fn write_durable(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let _ = (now, rng);
    }

    /// Handles the deadline.
    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng);

    /// Returns the time of the next [`wake`](Host::wake), by the host's own clock.
    fn deadline(&self) -> Option<Time>;

    /// Returns the next effect in order, or `None`.
    fn next_effect(&mut self) -> Option<Effect<Self>>;

    /// Carries out one change of the disk.
    fn apply_write(disk: &mut Self::Disk, write: Self::Write);
}

/// An effect that a host requests. A crash drops every effect that was not executed yet.
pub enum Effect<H: Host> {
    /// Change the disk; durable once executed, or with a cache before the next effect of another
    /// kind.
    Write(H::Write),
    /// Put a packet on the link to `to`.
    Send {
        /// The receiver.
        to: HostId,
        /// The packet to deliver.
        packet: H::Packet,
    },
    /// Break the stream to this peer; [`Host::stream_lost`] notifies the peer, but not this host.
    HangUp(HostId),
    /// Show an event to the judge.
    Tell(H::News),
}

/// The newest step; the judge can inspect the whole world between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldStep<N> {
    /// An order reached its host.
    Ordered(HostId),
    /// An order found its host down and was dropped.
    CommandDropped(HostId),
    /// A packet reached its host.
    Delivered {
        /// The sender.
        from: HostId,
        /// The receiver.
        to: HostId,
    },
    /// A packet found no receiver: host down, link cut or stream broken meanwhile.
    PacketLost {
        /// The sender.
        from: HostId,
        /// The intended receiver.
        to: HostId,
    },
    /// A host was notified that its stream to `peer` broke.
    Lost {
        /// The notified host.
        at: HostId,
        /// The other end.
        peer: HostId,
    },
    /// A deadline came.
    Woke(HostId),
    /// A host started from its disk.
    Booted(HostId),
    /// A host crashed; its pending effects are lost.
    Crashed(HostId),
    /// A write waits in the cache of its disk ([`World::cache_writes`](crate::World::cache_writes)).
    Cached(HostId),
    /// A write became durable.
    Stored(HostId),
    /// A packet was put on a link (which may lose it).
    Sent {
        /// The sender.
        from: HostId,
        /// The receiver.
        to: HostId,
    },
    /// A host broke the stream to a peer.
    HungUp {
        /// The host that broke it.
        at: HostId,
        /// The other end.
        peer: HostId,
    },
    /// A host showed an event.
    Told {
        /// The host that showed it.
        at: HostId,
        /// The event shown.
        news: N,
    },
}
