//! Receive counters that both sides of a session exchange, so that each side knows the share of its
//! frames that arrived: the text of a DATA frame with flag C, `10 | opened u32 | next u32 | forged
//! u32`.

/// Flag C: the text is a report and not a frame.
pub const REPORT: u8 = 0x10;
/// Bytes of the text of a report.
pub const REPORT_BYTES: usize = 13;

/// Receive counters of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Frames that opened.
    pub opened: u32,
    /// One more than the highest packet number that opened.
    pub next: u32,
    /// Frames that did not open.
    pub forged: u32,
}

impl DeliveryReport {
    /// Encodes the text of the report's frame, 13 bytes.
    pub fn encode(&self) -> [u8; REPORT_BYTES] {
        let mut text = [0; REPORT_BYTES];
        text[0] = REPORT;
        let numbers = [self.opened, self.next, self.forged];
        for (number, place) in numbers.iter().zip(text[1..].chunks_exact_mut(4)) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        text
    }

    /// Decodes the text of an opened frame. Returns `None` if the text is no report.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let text: &[u8; REPORT_BYTES] = text.try_into().ok()?;
        let number =
            |at: usize| u32::from_be_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
        (text[0] == REPORT).then(|| Self { opened: number(1), next: number(5), forged: number(9) })
    }

    /// Returns the counters since an earlier report of the same session.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            opened: self.opened.saturating_sub(earlier.opened),
            next: self.next.saturating_sub(earlier.next),
            forged: self.forged.saturating_sub(earlier.forged),
        }
    }

    /// Returns the percentage of frames up to the highest number that arrived, or `None` without
    /// frames.
    pub fn arrived_percent(&self) -> Option<u8> {
        // At least 1 avoids a division by zero. The caller gets `None` in that case.
        let share = u64::from(self.opened) * 100 / u64::from(self.next.max(1));
        (self.next > 0).then_some(share.min(100) as u8)
    }
}
