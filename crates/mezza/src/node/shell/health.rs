//! How healthy the node is, line by line.

use super::NodeShell;
use crate::api::json::{HealthLine, NodeStateJson};
use crate::api::words;

/// A commit that takes longer is worth a word, in milliseconds.
const COMMIT_SLOW_MS: u64 = 250;

impl NodeShell {
    /// One line per check.
    pub fn health(&self) -> Vec<HealthLine> {
        let mut lines = vec![self.vault_line()];
        if self.state() == NodeStateJson::Open {
            lines.push(self.relay_line());
            lines.extend(self.mailbox_line());
            lines.push(self.disk_line());
            lines.extend(self.mixnet_line());
            lines.extend(self.aside_lines());
            lines.extend(self.stock_line());
            lines.push(self.lock_line());
        }
        lines
    }

    fn vault_line(&self) -> HealthLine {
        match self.state() {
            NodeStateJson::Open => HealthLine::good("vault", "unlocked"),
            NodeStateJson::Locked => {
                HealthLine::bad("vault", "locked", "unlock it with `mezza unlock`")
            }
            NodeStateJson::Empty => {
                HealthLine::bad("vault", "none yet", "make one with `mezza init`")
            }
        }
    }

    fn relay_line(&self) -> HealthLine {
        let carriers = self.carriers().unwrap_or_default();
        let up = carriers.iter().filter(|c| c.up).count();
        if let Some(trouble) = self.adapters.troubles().next() {
            // The text of the connection ends with the next step already.
            let (text, next) = trouble.rsplit_once("; ").unwrap_or((trouble, "try again later"));
            return HealthLine::bad("relay", text, next);
        }
        match (up, carriers.len()) {
            (_, 0) => HealthLine::bad(
                "relay",
                "your card names none",
                "`mezza relay uri` at a relay prints its address",
            ),
            (0, _) => HealthLine::bad(
                "relay",
                "not reachable",
                "check the network; notes wait until then",
            ),
            (up, all) => HealthLine::good("relay", &format!("{up} of {all} up")),
        }
    }

    fn mailbox_line(&self) -> Option<HealthLine> {
        if !self.is_up(mezza_messenger::CarrierId::RELAY) || self.me().ok()?.relays.is_empty() {
            return None;
        }
        Some(if self.is_reachable() {
            HealthLine::good("mailbox", "open at the relay, with keys for strangers")
        } else {
            HealthLine::bad("mailbox", "not confirmed by the relay yet", "look again in a moment")
        })
    }

    fn mixnet_line(&self) -> Option<HealthLine> {
        let doubted = self.open.as_ref().is_some_and(super::UnlockedVault::is_doubted);
        (doubted && self.mixnet().is_ok()).then(|| {
            HealthLine::bad(
                "mixnet",
                "this vault is older than what this machine remembers, or came from another one: \
                 its budget lacks the rounds since",
                "put a newer copy back, or go on with `mezza mixnet resume --after-restore`",
            )
        })
    }

    fn disk_line(&self) -> HealthLine {
        let text = format!("last commit took {} ms", self.commit_ms);
        if self.commit_ms > COMMIT_SLOW_MS {
            return HealthLine::bad("disk", &text, "something else keeps the disk busy");
        }
        HealthLine::good("disk", &text)
    }

    /// The stored parts that did not load, a line for each.
    fn aside_lines(&self) -> Vec<HealthLine> {
        let aside = self.open.iter().flat_map(|open| open.device.set_aside());
        aside.map(|aside| words::aside_line(&aside)).collect()
    }

    fn stock_line(&self) -> Option<HealthLine> {
        let stock = self.me().ok()?.one_time_stock?;
        let text = match stock {
            0 => "no one-time keys at the relay yet; first notes to you go without one".into(),
            n => format!("{n} one-time keys left at the relay"),
        };
        Some(HealthLine::good("keys", &text))
    }

    fn lock_line(&self) -> HealthLine {
        match self.options.idle_lock_s {
            0 => HealthLine::good("idle lock", "never locks itself"),
            s => HealthLine::good("idle lock", &format!("after {} min", s.div_ceil(60))),
        }
    }
}
