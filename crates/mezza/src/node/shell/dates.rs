//! The date that an open vault uses, and how it follows the clock (MSG-103, MSG-104).
//!
//! ```text
//! the vault's date --boot time--> goes on
//!                  --the clock says another one, and is believed--> what was stamped moves, one commit
//! ```

use mezza_core::{Machine as _, Time};
use mezza_messenger::{Command, DateStep, WriteBatch};

use super::{NodeShell, UnlockedVault, plan};
use mezza_host::api::Refused;
use mezza_host::clock::{Clock, Moment, Today, WrittenDate};
use mezza_host::process::rng::OsRng;
use mezza_host::store::put_date;

/// A smaller step of the clock is ignored until it has grown, ms.
const STEP_MS: u64 = Time::SECOND_MS;
/// Earlier than every stored time.
const FIRST: Time = Time::from_ms(1);

/// The date that an open vault uses.
pub(super) struct VaultDate {
    /// The dates to store now: the moment from which the date advances with boot time, and the
    /// start of what a correction moves.
    now: WrittenDate,
    /// The dates in the vault, if known.
    stored: Option<WrittenDate>,
    /// A corrected date, until the commit that moves all dependent times.
    next: Option<WrittenDate>,
}

impl VaultDate {
    /// Makes the date of a new vault.
    pub(super) fn new(clock: &Clock) -> Self {
        let Today { date, boot, confirmed, .. } = clock.today();
        let at = Moment { wall: date, boot };
        let now = WrittenDate { at, start: clock.start(), since: None, confirmed };
        Self { now, stored: None, next: None }
    }

    /// Returns the date.
    pub(super) fn current_date(&self, boot: Time) -> Time {
        self.now.at.wall.plus_ms(boot.since_ms(self.now.at.boot))
    }

    /// Forgets the stored dates after a failed commit.
    pub(super) fn forget_stored(&mut self) {
        (self.stored, self.next) = (None, None);
    }

    /// Adopts a corrected date after its commit has succeeded.
    pub(super) fn adopt_next(&mut self) {
        if let Some(next) = self.next.take() {
            (self.now, self.stored) = (next, Some(next));
        }
    }

    /// Returns the dates to store.
    pub(super) fn dates_to_store(&self) -> WrittenDate {
        self.now
    }

    /// Returns the batch that stores the date if the stored one is old, or if `always`.
    fn date_batch(&self, boot: Time, always: bool) -> Option<(WriteBatch, WrittenDate)> {
        let at = Moment { wall: self.current_date(boot), boot };
        let now = WrittenDate { at, ..self.now };
        let is_old = self.stored.is_none_or(|stored| stored.is_old(&now));
        (always || is_old).then(|| (put_date(&now), now))
    }
}

impl NodeShell {
    /// Computes the date of an opened vault from its stored date and newest day. In a demonstration
    /// a clock is never doubted.
    pub(super) fn compare_date(&self, written: Option<WrittenDate>, day: Option<u32>) -> VaultDate {
        let clock = &self.options.clock;
        match (written, day) {
            _ if self.options.demo => {}
            (Some(written), _) => clock.compare_written(&written),
            (None, Some(day)) => clock.meet_day(day),
            (None, None) => {}
        }
        let Today { date, boot, doubted, .. } = clock.today();
        let mut own = VaultDate::new(clock);
        own.stored = written;
        own.now.at = match written {
            // The same system start: boot time gives the exact time that has passed.
            Some(written) if written.start == clock.start() && written.at.boot <= boot => {
                written.at
            }
            // Time cannot go backwards: the clock was set back, or was ahead before.
            Some(written) if !doubted && !self.options.demo => {
                Moment { wall: written.at.wall.max(date), boot }
            }
            _ => Moment { wall: date, boot },
        };
        let since = written.and_then(|written| written.since);
        own.now.since = match written {
            // A step since then affects every time.
            Some(written) if doubted && own.now.at == written.at => since.or(Some(FIRST)),
            // Unmeasured time may have passed before this start; the date was right until then.
            Some(written) if doubted && written.confirmed => since.or(Some(own.current_date(boot))),
            _ if doubted => since.or(Some(FIRST)),
            _ => since,
        };
        own
    }

    /// Makes vault and device follow the date of the clock. One commit moves all times that depend
    /// on the old date; then the new date holds. Without that commit the date advances with boot
    /// time.
    pub(super) fn follow_clock(&mut self) -> Result<(), Refused> {
        let today = self.options.clock.today();
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let expected = open.date.current_date(today.boot);
        open.date.now.confirmed = today.confirmed;
        let by_ms = today.date.as_ms().cast_signed().saturating_sub(expected.as_ms().cast_signed());
        if by_ms.unsigned_abs() < STEP_MS {
            // A step of the wall clock that is accepted later moves all stored times, even if the
            // system was restarted meanwhile.
            let since = today.doubted.then(|| open.date.now.since.unwrap_or(FIRST));
            let is_news = std::mem::replace(&mut open.date.now.since, since) != since;
            return if is_news { self.write_date() } else { Ok(()) };
        }
        // Times must not age by a clock without confirmation from outside.
        let since = open.date.now.since.map(|since| if today.confirmed { since } else { FIRST });
        let date = DateStep { by_ms, since };
        open.device.handle(Command::CorrectDate(date).into(), today.date, &mut OsRng)?;
        let mut turn = plan::drain_device(&mut open.device);
        let at = Moment { wall: today.date, boot: today.boot };
        let next = WrittenDate { at, since: None, ..open.date.now };
        open.date.next = Some(next);
        turn.batches.push(put_date(&next));
        self.finish_plan(turn)
    }

    /// Stores the date.
    pub(super) fn write_date(&mut self) -> Result<(), Refused> {
        let boot = self.options.clock.boot();
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let Some((batch, now)) = open.date.date_batch(boot, true) else { return Ok(()) };
        open.vault.commit(&[batch])?;
        open.date.stored = Some(now);
        Ok(())
    }
}

impl UnlockedVault {
    /// Returns the batch with the date if the stored one is old, so that no time stamp is much
    /// later than the stored date.
    pub(super) fn due_date_batch(&mut self, boot: Time) -> Option<WriteBatch> {
        if self.date.next.is_some() {
            // The batches already contain the corrected date.
            return None;
        }
        let (batch, now) = self.date.date_batch(boot, false)?;
        // If the commit fails, the vault is loaded again and its date is stored with the next
        // commit.
        self.date.stored = Some(now);
        Some(batch)
    }
}
