//! The whole state of a pairing, for tests.

use mezza_core::{Machine, Snapshot, Writer};

use super::{Pairing, Step};
use crate::suite::LinkSuite;

impl<S: LinkSuite> Snapshot for Step<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        match self {
            Self::Listening => w.u8(0),
            Self::Asking(ephemeral) => w.u8(1).bytes(ephemeral.scalar().expose()),
            Self::Settling { ephemeral, m2 } => {
                w.u8(2).bytes(ephemeral.scalar().expose()).bytes(m2.as_bytes())
            }
            Self::Choosing(frame) => w.u8(3).bytes(frame),
            Self::Answering(ephemeral) => w.u8(4).bytes(ephemeral.scalar().expose()),
            Self::Comparing { state, early } => {
                early.snapshot_into(w.u8(5).bytes(state.expose()));
                w
            }
            Self::Exchanging(peer) => w.u8(6).bytes(&peer.snapshot()),
            Self::Over(peer) => {
                w.u8(7);
                if let Some(peer) = peer {
                    w.bytes(&peer.snapshot());
                }
                w
            }
        };
    }
}

impl<S: LinkSuite> Snapshot for Pairing<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        let Self { settings, store_key, role, step, session_id, coins, first, second, .. } = self;
        let Self { asks, asks_left, peer, looked, wall_ms, timers, outputs, .. } = self;
        settings.name.snapshot_into(w);
        store_key.snapshot_into(w);
        role.snapshot_into(w);
        step.snapshot_into(w);
        w.bytes(session_id).bytes(coins);
        first.snapshot_into(w);
        second.snapshot_into(w);
        asks.snapshot_into(w);
        asks_left.snapshot_into(w);
        peer.snapshot_into(w);
        looked.snapshot_into(w);
        wall_ms.snapshot_into(w);
        timers.next().snapshot_into(w);
        outputs.len().snapshot_into(w);
    }
}
