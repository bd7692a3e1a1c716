//! Bit columns over all slots, for every engine that uses the table.

use alloc::vec::Vec;

use crate::set::WORDS_MAX;

/// Eight bit columns of one word of 64 slots: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

/// The index of an engine in a table.
pub type Seat = u32;

/// Bit columns. Columns that are used together are adjacent: the first eight columns of a word in
/// one line, those of the first eight neighbours in the next one. Then the columns of the next
/// engine for the same word follow, because a crowd works mostly on its newest cells.
#[derive(Clone, Debug)]
pub struct Rows {
    words: usize,
    /// Number of engines that have room.
    seats: usize,
    /// Number of engines with a seat.
    taken: usize,
    /// Number of lines of each word and engine: one, and one for every eight neighbours.
    stride: usize,
    lines: Vec<Line>,
    /// Number of rarely used columns.
    cold_stride: usize,
    cold: Vec<u64>,
}

impl Rows {
    pub(crate) fn new(words: usize, cold_columns: usize) -> Self {
        // The table has a fixed largest size (MESH-40).
        debug_assert!(words <= WORDS_MAX);
        let lines = Vec::new();
        let cold = Vec::new();
        Self { words, seats: 0, taken: 0, stride: 2, lines, cold_stride: cold_columns, cold }
    }

    /// Adds one more engine. Returns its seat.
    pub(crate) fn add_seat(&mut self) -> Seat {
        if self.taken == self.seats {
            // The number of engines doubles, so the columns are copied a logarithmic number of
            // times.
            self.reshape((2 * self.seats).max(1), self.stride);
        }
        self.taken += 1;
        self.taken as Seat - 1
    }

    /// Makes room for this number of engines.
    pub(crate) fn reserve(&mut self, seats: usize) {
        if seats > self.seats {
            self.reshape(seats, self.stride);
        }
    }

    /// Makes room for eight more neighbours of each engine.
    pub(crate) fn widen(&mut self) {
        self.reshape(self.seats, self.stride + 1);
    }

    fn reshape(&mut self, seats: usize, stride: usize) {
        let mut lines = alloc::vec![Line::default(); self.words * seats * stride];
        let mut cold = alloc::vec![0; self.words * seats * self.cold_stride];
        for word in 0..self.words {
            for seat in 0..self.taken {
                let from = word * self.seats + seat;
                let to = word * seats + seat;
                let old = &self.lines[from * self.stride..(from + 1) * self.stride];
                lines[to * stride..to * stride + self.stride].copy_from_slice(old);
                let old = &self.cold[from * self.cold_stride..(from + 1) * self.cold_stride];
                cold[to * self.cold_stride..(to + 1) * self.cold_stride].copy_from_slice(old);
            }
        }
        (self.lines, self.cold, self.seats, self.stride) = (lines, cold, seats, stride);
    }

    #[inline]
    fn line_index(&self, seat: Seat, word: u32) -> usize {
        // The slice access below checks the bounds, so this index may wrap.
        (word as usize)
            .wrapping_mul(self.seats)
            .wrapping_add(seat as usize)
            .wrapping_mul(self.stride)
    }

    /// Returns the bytes of all columns.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.cold)
    }

    /// Returns the words of a column.
    pub(crate) fn words(&self) -> u32 {
        self.words as u32
    }

    /// Returns the number of neighbours that have a column.
    pub(crate) fn neighbours(&self) -> usize {
        8 * (self.stride - 1)
    }

    /// Returns the first eight columns of a word.
    #[inline]
    pub(crate) fn hot(&self, seat: Seat, word: u32) -> &[u64; 8] {
        &self.lines[self.line_index(seat, word)].0
    }

    /// Returns the first eight columns of a word for changes.
    #[inline]
    pub(crate) fn hot_mut(&mut self, seat: Seat, word: u32) -> &mut [u64; 8] {
        let at = self.line_index(seat, word);
        &mut self.lines[at].0
    }

    /// Returns the first eight columns of a word, and the column of a neighbour, for changes.
    #[inline]
    pub(crate) fn hot_with_neighbour(
        &mut self,
        seat: Seat,
        word: u32,
        neighbour: u16,
    ) -> (&mut [u64; 8], &mut u64) {
        let at = self.line_index(seat, word);
        let (first, rest) = self.lines[at..at + self.stride].split_at_mut(1);
        (&mut first[0].0, &mut rest[usize::from(neighbour) / 8].0[usize::from(neighbour) % 8])
    }

    /// Returns the bits of a word whose cells this neighbour has.
    #[inline]
    pub(crate) fn neighbour_bits(&self, seat: Seat, word: u32, neighbour: u16) -> u64 {
        let line = self.line_index(seat, word) + 1 + usize::from(neighbour) / 8;
        self.lines[line].0[usize::from(neighbour) % 8]
    }

    /// Returns the bits of a word whose cells some neighbour has.
    pub(crate) fn announced_bits(&self, seat: Seat, word: u32) -> u64 {
        let at = self.line_index(seat, word);
        let lines = self.lines[at + 1..at + self.stride].iter();
        lines.flat_map(|line| line.0).fold(0, |all, has| all | has)
    }

    /// Returns the rarely used columns of a word.
    pub(crate) fn cold(&self, seat: Seat, word: u32) -> &[u64] {
        let at = (word as usize * self.seats + seat as usize) * self.cold_stride;
        &self.cold[at..at + self.cold_stride]
    }

    /// Returns the rarely used columns of a word for changes.
    pub(crate) fn cold_mut(&mut self, seat: Seat, word: u32) -> &mut [u64] {
        let at = (word as usize * self.seats + seat as usize) * self.cold_stride;
        &mut self.cold[at..at + self.cold_stride]
    }

    /// Empties all columns of one word.
    pub(crate) fn clear_word(&mut self, seat: Seat, word: u32) {
        let at = self.line_index(seat, word);
        self.lines[at..at + self.stride].fill(Line::default());
        self.cold_mut(seat, word).fill(0);
    }

    /// Empties one slot in all columns.
    pub(crate) fn clear_slot(&mut self, seat: Seat, slot: u32) {
        let word = slot / 64;
        let keep = !(1 << (slot % 64));
        let at = self.line_index(seat, word);
        for line in &mut self.lines[at..at + self.stride] {
            line.0.iter_mut().for_each(|bits| *bits &= keep);
        }
        self.cold_mut(seat, word).iter_mut().for_each(|bits| *bits &= keep);
    }

    /// Empties the column of a neighbour.
    pub(crate) fn clear_neighbour(&mut self, seat: Seat, neighbour: u16) {
        for word in 0..self.words() {
            *self.hot_with_neighbour(seat, word, neighbour).1 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_bits_when_more_are_added() {
        let mut rows = Rows::new(3, 2);
        let seat = rows.add_seat();
        (
            *rows.hot_with_neighbour(seat, 2, 1).1,
            rows.hot_mut(seat, 2)[3],
            rows.cold_mut(seat, 1)[1],
        ) = (5, 6, 7);
        rows.widen();
        let other = rows.add_seat();
        let seen = (rows.neighbour_bits(seat, 2, 1), rows.hot(seat, 2)[3], rows.cold(seat, 1)[1]);
        assert_eq!((seen, rows.neighbours(), rows.announced_bits(other, 2)), ((5, 6, 7), 16, 0));
        *rows.hot_with_neighbour(seat, 2, 15).1 = 8;
        assert_eq!(rows.announced_bits(seat, 2), 13);
        rows.clear_neighbour(seat, 1);
        assert_eq!(rows.announced_bits(seat, 2), 8);
        rows.clear_word(seat, 2);
        assert_eq!((rows.announced_bits(seat, 2), rows.hot(seat, 2)[3]), (0, 0));
    }
}
