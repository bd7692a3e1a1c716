//! A seeded world for machines: one virtual clock, hosts with disks, faulty links.
//!
//! The world knows no protocol. A test defines a [`Host`]: a machine together with its disk. The
//! world feeds it packets, orders and the time, executes its [`Effect`]s one by one, and may let it
//! crash between any two of them; the next [`Host::boot`] finds only the writes made until then.
//! One seed decides everything, so a failed run can be repeated: [`for_each_seed`] prints the seed,
//! `MEZZA_SEED=n` replays it.
//!
//! ```
//! use mezza_sim::{CryptoRng, Effect, Host, LinkModel, HostId, WorldStep, Time, World};
//!
//! /// Throws each ball back until it has been caught three times.
//! struct Player { throw: Option<(HostId, u8)> }
//!
//! impl Host for Player {
//!     type Disk = ();
//!     type Write = ();
//!     type Packet = u8;
//!     type Order = HostId;
//!     type News = ();
//!     fn boot(_: &(), _: Time, _: &mut dyn CryptoRng) -> Self { Self { throw: None } }
//!     fn apply_order(&mut self, to: HostId, _: Time, _: &mut dyn CryptoRng) { self.throw = Some((to, 1)); }
//!     fn deliver_packet(&mut self, from: HostId, caught: u8, _: Time, _: &mut dyn CryptoRng) {
//!         self.throw = (caught < 3).then_some((from, caught + 1));
//!     }
//!     fn wake(&mut self, _: Time, _: &mut dyn CryptoRng) {}
//!     fn deadline(&self) -> Option<Time> { None }
//!     fn next_effect(&mut self) -> Option<Effect<Self>> {
//!         self.throw.take().map(|(to, packet)| Effect::Send { to, packet })
//!     }
//!     fn apply_write(_: &mut (), _: ()) {}
//! }
//!
//! let mut world = World::<Player>::new(7);
//! let (alice, bob) = (world.add_host(()), world.add_host(()));
//! world.set_link(alice, bob, LinkModel::datagram());
//! world.schedule_order(alice, 0, bob);
//! let mut caught = 0;
//! world.run_for(1_000, |_, step| caught += u32::from(matches!(step, WorldStep::Delivered { .. })));
//! assert_eq!(caught, 3);
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`host`] | [`Host`], [`Effect`], [`HostId`], [`WorldStep`]: the parts supplied by a test, and
//! the steps shown to it |
//! | [`link`] | [`LinkModel`]: delay, loss, repeats, order; datagrams and streams |
//! | [`world`] | [`World`]: the clock, the queue of events, crashes, clock jumps |
//! | [`operations`] | [`Operations`]: operations encoded as bytes, for fuzzers and property tests |
//! | [`refusal`] | [`handle_checked`]: a refused input changes nothing |
//! | [`cache`] | [`WriteCache`]: writes that are not synced, and a loss of power |
//! | [`dice`] | [`SimRng`]: seeded random numbers for tests |
//! | [`seeds`] | [`for_each_seed`]: many seeds, and the replay of one |
//! | [`crowd`] | [`Crowd`](crowd::Crowd): thousands of devices with radios, by events of microseconds |
//! | [`timing`] | [`timing::welch_t`]: test if time depends on a secret |

pub mod cache;
pub mod crowd;
pub mod dice;
pub mod host;
pub mod link;
pub mod operations;
pub mod refusal;
pub mod seeds;
pub mod timing;
pub mod world;

pub use cache::WriteCache;
pub use dice::SimRng;
pub use host::{Effect, Host, HostId, WorldStep};
pub use link::LinkModel;
pub use mezza_core::{CryptoRng, Time};
pub use operations::Operations;
pub use refusal::handle_checked;
pub use seeds::for_each_seed;
pub use world::{CrashRate, World};
