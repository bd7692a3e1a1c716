//! Sets of slots, 64 to a word.

use alloc::vec::Vec;

/// The number of a cell in a table.
pub type Slot = u32;

/// Number of words that a set stores inline.
const NEAR: usize = 2;
/// Maximum number of words of a column: 131,072 slots.
pub(crate) const WORDS_MAX: usize = 2_048;

/// One word of a set: a mask of 64 consecutive slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordMask {
    /// The slots `64 * word` to `64 * word + 63`.
    pub word: u32,
    /// Bit i stands for slot `64 * word + i`.
    pub mask: u64,
}

/// A set of a few slots, by words. Up to two words are stored inline, without an allocation.
#[derive(Clone, Debug, Default)]
pub struct Set {
    len: u32,
    near: [WordMask; NEAR],
    far: Vec<WordMask>,
}

impl Set {
    /// Makes the set of one slot.
    pub fn from_slot(slot: Slot) -> Self {
        let mut set = Self::default();
        set.insert(slot);
        set
    }

    /// Adds the slots whose bits are set in one 64-bit word of the bitmap. If the last part of the
    /// set holds the same word, the bits are merged into it.
    #[inline]
    pub fn push_word(&mut self, word: u32, mask: u64) {
        if mask == 0 {
            return;
        }
        // Loops push ascending words, so comparing with the last one is enough.
        match self.last_mut() {
            Some(last) if last.word == word => last.mask |= mask,
            _ => self.append_part(WordMask { word, mask }),
        }
    }

    /// Adds one slot.
    pub fn insert(&mut self, slot: Slot) {
        self.push_word(slot / 64, 1 << (slot % 64));
    }

    /// Returns the words of the set.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = WordMask> + '_ {
        self.near[..(self.len as usize).min(NEAR)].iter().chain(&self.far).copied()
    }

    /// Returns the slots of the set.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.parts().flat_map(|part| iter_bits(part.mask).map(move |bit| 64 * part.word + bit))
    }

    /// Returns the number of slots.
    pub fn count(&self) -> u32 {
        self.parts().map(|part| part.mask.count_ones()).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if `slot` is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.parts().any(|part| part.word == slot / 64 && part.mask >> (slot % 64) & 1 == 1)
    }

    fn last_mut(&mut self) -> Option<&mut WordMask> {
        let at = self.len.checked_sub(1)? as usize;
        if at < NEAR { self.near.get_mut(at) } else { self.far.last_mut() }
    }

    fn append_part(&mut self, part: WordMask) {
        match self.near.get_mut(self.len as usize) {
            Some(place) => *place = part,
            None => self.far.push(part),
        }
        self.len += 1;
    }
}

impl FromIterator<Slot> for Set {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut slots: Vec<Slot> = slots.into_iter().collect();
        slots.sort_unstable();
        let mut set = Self::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

/// Returns the numbers of the set bits of `mask`, lowest first.
pub(crate) fn iter_bits(mut mask: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Returns the highest `count` set bits of `mask`.
pub(crate) fn highest_bits(mask: u64, count: u32) -> u64 {
    if count >= 64 {
        return mask;
    }
    let mut low = mask;
    for _ in 0..count {
        if low == 0 {
            // Fewer set bits than requested: return all.
            return mask;
        }
        low &= !(1 << (low.ilog2()));
    }
    mask & !low
}

/// One bit for each slot of a table. An engine keeps the sets that only it reads in its own
/// columns: they are compact, so that a search reads eight words per cache line.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    words: Vec<u64>,
}

impl Column {
    /// Makes an empty column for a table of `words` words.
    pub fn new(words: u32) -> Self {
        Self { words: alloc::vec![0; words as usize] }
    }

    /// Returns the slots of one word.
    #[inline]
    pub fn word(&self, word: u32) -> u64 {
        self.words[word as usize]
    }

    /// Returns true if the slot is in the column.
    pub fn contains(&self, slot: Slot) -> bool {
        self.word(slot / 64) >> (slot % 64) & 1 == 1
    }

    /// Adds slots of one word.
    #[inline]
    pub fn insert(&mut self, word: u32, mask: u64) {
        self.words[word as usize] |= mask;
    }

    /// Removes slots of one word.
    #[inline]
    pub fn remove(&mut self, word: u32, mask: u64) {
        self.words[word as usize] &= !mask;
    }

    /// Removes all slots.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns true if the column holds no slot.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the number of slots.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the words in which a bit is set, lowest first.
    pub fn parts(&self) -> impl Iterator<Item = WordMask> + '_ {
        let parts = (0..).zip(&self.words).map(|(word, mask)| WordMask { word, mask: *mask });
        parts.filter(|part| part.mask != 0)
    }

    /// Returns the first word from `from` on in which a bit is set. For loops that change the
    /// column.
    pub fn next_part(&self, from: u32) -> Option<WordMask> {
        let rest = self.words.get(from as usize..)?;
        let step = rest.iter().position(|mask| *mask != 0)?;
        let word = from + step as u32;
        Some(WordMask { word, mask: self.word(word) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_its_slots_in_place_and_beyond() {
        let slots: Vec<Slot> = (0..20).map(|n| n * 37).collect();
        let mut set = Set::default();
        for slot in &slots {
            set.insert(*slot);
        }
        assert_eq!(set.slots().collect::<Vec<_>>(), slots);
        assert_eq!(set.count(), 20);
        assert!(set.contains(37) && !set.contains(38));
        assert!(Set::default().is_empty() && Set::from_slot(7).contains(7));
    }

    #[test]
    fn the_highest_bits() {
        assert_eq!(highest_bits(0b1011_0100, 2), 0b1010_0000);
        assert_eq!(highest_bits(0b11, 5), 0b11);
        assert_eq!(highest_bits(u64::MAX, 64), u64::MAX);
    }

    #[test]
    fn a_column_gives_its_words_in_order() {
        let mut column = Column::new(80);
        column.insert(70, 0b110);
        column.insert(3, 1);
        let words = |column: &Column| column.parts().map(|part| part.word).collect::<Vec<_>>();
        assert_eq!((words(&column), column.count()), (alloc::vec![3, 70], 3));
        assert_eq!(column.next_part(4), Some(WordMask { word: 70, mask: 0b110 }));
        assert!(column.contains(64 * 70 + 2) && !column.contains(64 * 70));
        column.remove(3, 1);
        column.remove(70, 0b111);
        assert!(column.is_empty() && column.next_part(0).is_none());
        assert_eq!(column.next_part(80), None);
    }
}
