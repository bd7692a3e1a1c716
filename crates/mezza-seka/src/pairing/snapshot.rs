//! The whole state of a pairing, for tests.

use mezza_core::{Machine, Snapshot, Writer};

use super::{Pairing, Step};
use crate::suite::LinkSuite;

impl<S: LinkSuite> Snapshot for Step<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        match self {
            Self::Listening => w.put_u8(0),
            Self::Asking(ephemeral) => w.put_u8(1).put_bytes(ephemeral.scalar().expose()),
            Self::Settling { ephemeral, m2 } => {
                w.put_u8(2).put_bytes(ephemeral.scalar().expose()).put_bytes(m2.as_bytes())
            }
            Self::Choosing(frame) => w.put_u8(3).put_bytes(frame),
            Self::Answering(ephemeral) => w.put_u8(4).put_bytes(ephemeral.scalar().expose()),
            Self::Comparing { state, early } => {
                early.snapshot_into(w.put_u8(5).put_bytes(state.expose()));
                w
            }
            Self::Exchanging(peer) => w.put_u8(6).put_bytes(&peer.snapshot()),
            Self::Over(peer) => {
                w.put_u8(7);
                if let Some(peer) = peer {
                    w.put_bytes(&peer.snapshot());
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
        w.put_bytes(session_id).put_bytes(coins);
        first.snapshot_into(w);
        second.snapshot_into(w);
        asks.snapshot_into(w);
        asks_left.snapshot_into(w);
        peer.snapshot_into(w);
        looked.snapshot_into(w);
        wall_ms.snapshot_into(w);
        timers.next_deadline().snapshot_into(w);
        outputs.len().snapshot_into(w);
    }
}
