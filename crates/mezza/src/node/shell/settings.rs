//! Settings that the user may change while the node runs.

use super::NodeShell;
use mezza_host::api::{Exit, Fault, Refused};
use mezza_host::process::rng::OsRng;

/// The shortest idle time of the lock, in seconds: a shorter one would lock a user out.
const IDLE_LOCK_S_MIN: u64 = 60;
/// The longest idle time: a week.
const IDLE_LOCK_S_MAX: u64 = 7 * 86_400;

impl NodeShell {
    /// Seals the vault under another passphrase.
    ///
    /// # Errors
    /// A locked vault, a wrong old passphrase (word `passphrase`), or a disk that refuses.
    pub fn change_passphrase(&mut self, old: &[u8], new: &[u8]) -> Result<(), Refused> {
        self.unlocked_device()?;
        let open = self.open.as_ref().ok_or_else(Refused::locked)?;
        let changed = open.vault.change_passphrase(&self.options.vault, old, new, &mut OsRng);
        changed.map_err(|fault| {
            let denied = fault.code == Exit::Denied;
            if denied { Refused::new("passphrase", old_is_wrong()) } else { fault.into() }
        })
    }

    /// Checks if these settings are valid. Changes nothing.
    ///
    /// # Errors
    /// A locked vault, or an idle time out of range.
    pub fn may_set(&self, idle_lock_s: Option<u64>) -> Result<(), Refused> {
        self.unlocked_device()?;
        let range = IDLE_LOCK_S_MIN..=IDLE_LOCK_S_MAX;
        match idle_lock_s {
            Some(s) if s != 0 && !range.contains(&s) => Err(Fault::new(
                Exit::Usage,
                format!("the vault cannot lock itself after {s} s"),
                "take 60 s to 7 days, or 0 for never",
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Adopts settings that [`NodeShell::may_set`] has accepted.
    pub fn adopt_settings(&mut self, idle_lock_s: Option<u64>, observe: Option<bool>) {
        self.options.idle_lock_s = idle_lock_s.unwrap_or(self.options.idle_lock_s);
        if let (Some(observer), Some(on)) = (&self.options.observer, observe) {
            observer.set_on(on);
        }
    }
}

fn old_is_wrong() -> Fault {
    Fault::new(Exit::Denied, "the passphrase of today is wrong", "type it once more")
}
