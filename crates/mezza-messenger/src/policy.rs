//! The policy of a conversation: an ordered list of carriers, a lowest level, a fallback.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use crate::io::CarrierId;

/// The use of further carriers in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fallback {
    /// Only the first carrier of the list is used (MSG-21).
    None = 0,
    /// The first carrier of the list that fits and is up is used.
    Listed = 1,
}

snapshot!(enum Fallback [None, Listed]);

/// The timers that the user may set, in seconds: 30 s, 5 min, 1 h, 8 h, a day, a week, four weeks.
/// Each end of a timer needs a key in the vault, so the choice is small (MSG-52).
pub const TIMERS_S: [u32; 7] = [30, 300, 3_600, 28_800, 86_400, 604_800, 2_419_200];

/// Rounds a timer down to a value of [`TIMERS_S`], so that no note stays longer than its writer
/// wants. A timer below 30 s is returned unchanged.
pub fn timer_step(timer_s: u32) -> u32 {
    TIMERS_S.into_iter().rev().find(|step| *step <= timer_s).unwrap_or(timer_s)
}

/// Returns true if the user may set this timer: 0, or a value of [`TIMERS_S`].
pub fn is_timer_step(timer_s: u32) -> bool {
    timer_s == 0 || TIMERS_S.contains(&timer_s)
}

/// Position of the life in the flags of the stored form, in bits.
const LIFE_AT: u8 = 2;

/// How long the devices around carry a note of ours, and the reader keeps the keys for it. A longer
/// life reaches readers who are farther away in time, and gives more to a thief of the reader's
/// device (HIBE-88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoteLife {
    /// Up to a minute.
    Minute = 1,
    /// Half an hour to an hour.
    HalfHour = 2,
    /// Half a day to a day.
    HalfDay = 3,
}

snapshot!(enum NoteLife [Minute, HalfHour, HalfDay]);

impl NoteLife {
    /// Returns the choice of a number in stored forms; 0 stands for none.
    ///
    /// # Errors
    /// A number above 3.
    pub fn decode_choice(number: u8) -> Result<Option<Self>, DecodeError> {
        match number {
            0 => Ok(None),
            1 => Ok(Some(Self::Minute)),
            2 => Ok(Some(Self::HalfHour)),
            3 => Ok(Some(Self::HalfDay)),
            _ => Err(DecodeError::Value),
        }
    }

    /// Returns the number of a choice in stored forms, 0 to 3.
    pub const fn encode_choice(life: Option<Self>) -> u8 {
        match life {
            None => 0,
            Some(life) => life as u8,
        }
    }
}

/// The policy of one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The carriers, best first: 1 to 4, none twice.
    pub carriers: Vec<CarrierId>,
    /// The lowest level at which a note may leave, 1 to 4.
    pub level_min: u8,
    /// The use of further carriers in the list.
    pub fallback: Fallback,
    /// Seconds until a note disappears: a value of [`TIMERS_S`], or less than 30 if the contact set
    /// it; 0 means never.
    pub timer_s: u32,
    /// True if `delivered` receipts are sent.
    pub delivered: bool,
    /// True if `read` receipts are sent.
    pub read: bool,
    /// The life of notes that name none themselves. `None`: the one that the node is set to.
    pub life: Option<NoteLife>,
}

snapshot!(struct Policy { carriers, level_min, fallback, timer_s, delivered, read, life });

impl Default for Policy {
    fn default() -> Self {
        Self {
            carriers: [CarrierId::RELAY].into(),
            level_min: 1,
            fallback: Fallback::None,
            timer_s: 0,
            delivered: true,
            read: false,
            life: None,
        }
    }
}

impl Policy {
    /// Returns true if list, level and timer are in their ranges.
    pub fn is_sound(&self) -> bool {
        let list = &self.carriers;
        // A carrier that is listed twice would be tried twice.
        let twice = list.iter().enumerate().any(|(i, c)| list[..i].contains(c));
        let timer = timer_step(self.timer_s) == self.timer_s;
        !list.is_empty() && !twice && (1..=4).contains(&self.level_min) && timer
    }

    /// Returns the carriers that a note may use, best first (MSG-20, MSG-21).
    pub fn candidates(&self) -> &[CarrierId] {
        match self.fallback {
            // Without a fallback only the first carrier may be used (MSG-21).
            Fallback::None => self.carriers.get(..1).unwrap_or_default(),
            Fallback::Listed => &self.carriers,
        }
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.put_u8(self.carriers.len() as u8);
        for carrier in &self.carriers {
            w.put_u8(carrier.number());
        }
        w.put_u8(self.level_min).put_u8(self.fallback as u8).put_u32(self.timer_s);
        // Earlier versions wrote zeros in place of the life.
        let life = NoteLife::encode_choice(self.life) << LIFE_AT;
        w.put_u8(u8::from(self.delivered) | u8::from(self.read) << 1 | life);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut carriers = Vec::new();
        for number in r.read_var8()? {
            carriers.push(CarrierId::from_number(*number).ok_or(DecodeError::Value)?);
        }
        let pin = r.read_u8()?;
        let fallback = match r.read_u8()? {
            0 => Fallback::None,
            1 => Fallback::Listed,
            _ => return Err(DecodeError::Value),
        };
        // Earlier versions accepted any timer, which is rounded down.
        let timer_s = timer_step(r.read_u32()?);
        let flags = r.read_u8()?;
        let policy = Self {
            carriers,
            level_min: pin,
            fallback,
            timer_s,
            delivered: flags & 1 != 0,
            read: flags & 2 != 0,
            life: NoteLife::decode_choice(flags >> LIFE_AT)?,
        };
        if !policy.is_sound() {
            return Err(DecodeError::Value);
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn read(policy: &Policy) -> Result<Policy, DecodeError> {
        let mut w = Writer::new();
        policy.write(&mut w);
        Reader::decode_exact(&w.finish(), Policy::read)
    }

    #[test]
    fn a_policy_is_read_as_it_was_written() {
        for (delivered, read_too) in [(false, false), (true, false), (false, true), (true, true)] {
            let policy = Policy {
                carriers: vec![CarrierId::MIXNET, CarrierId::RELAY],
                level_min: 4,
                fallback: Fallback::Listed,
                timer_s: 30,
                delivered,
                read: read_too,
                life: None,
            };
            assert_eq!(read(&policy), Ok(policy));
        }
    }

    /// A row of a version before the life was chosen for each conversation.
    #[test]
    fn msg_150_a_policy_of_an_earlier_version_chooses_no_life() {
        let older = [1, 1, 1, 0, 0, 0, 0, 0, 1];
        let policy = Reader::decode_exact(&older, Policy::read).unwrap();
        assert_eq!(policy, Policy::default());
        let mut w = Writer::new();
        policy.write(&mut w);
        assert_eq!(w.finish(), older, "and this version writes the same row");
        for life in [NoteLife::Minute, NoteLife::HalfHour, NoteLife::HalfDay] {
            let policy = Policy { life: Some(life), ..Policy::default() };
            assert_eq!(read(&policy), Ok(policy));
        }
    }

    #[test]
    fn each_field_alone_makes_a_policy_unsound() {
        let good = Policy::default();
        let none = Policy { carriers: Vec::new(), ..good.clone() };
        let twice = Policy { carriers: vec![CarrierId::RELAY; 2], ..good.clone() };
        let pins = [0, 5].map(|pin| Policy { level_min: pin, ..good.clone() });
        for wrong in [none, twice].into_iter().chain(pins) {
            assert!(!wrong.is_sound(), "{wrong:?}");
            assert_eq!(read(&wrong), Err(DecodeError::Value));
        }
        // Earlier versions wrote any timer. This version reads the step below it.
        let odd = Policy { timer_s: 31, ..good.clone() };
        assert!(!odd.is_sound() && read(&odd).is_ok_and(|read| read.timer_s == 30));
        let mut w = Writer::new();
        good.write(&mut w);
        let mut bytes = w.finish();
        *bytes.last_mut().unwrap() = 1 << 4;
        assert_eq!(Reader::decode_exact(&bytes, Policy::read), Err(DecodeError::Value));
    }
}
