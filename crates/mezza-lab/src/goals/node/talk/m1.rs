//! The rows of M1: the time of notes compared with the disk and the empty path of the same run.

use crate::clock::{median, quantile, sort_samples};
use crate::goals::node::disk::Syncs;
use crate::limit::Limit;
use crate::row::Row;

/// M1: median and 99th percentile, compared with f, the time of one fdatasync after the same pause,
/// and with the empty path, which is also shown.
pub const M1: [Limit; 3] = [
    Limit::at_most_of_the_run("M1", "send -> delivered, p50 <= 2f + empty path + 1 ms", "ms"),
    Limit::at_most_of_the_run("M1", "send -> delivered, p99 <= 4f + 10 ms", "ms"),
    Limit::none("M1", "the same path with nothing in it, p50", "ms"),
];

/// Milliseconds of each note, and of the empty path and sync after each note.
#[derive(Default)]
pub(super) struct Times {
    pub(super) notes: Vec<f64>,
    pub(super) bare: Vec<f64>,
    pub(super) syncs: Vec<f64>,
}

/// Makes the rows of median and 99th percentile, with the disk's time and the empty path of the
/// same run.
pub(super) fn make_rows(times: Times, syncs: Syncs) -> Vec<Row> {
    let [notes, bare] = [times.notes, times.bare].map(sort_samples);
    let [f, growing, steady] =
        [times.syncs, syncs.growing, syncs.steady].map(|samples| median(&samples));
    let path = quantile(&bare, 0.5);
    let unit = format!(
        "f = {f:.2} ms, the median of fdatasync after 4 KiB, one after each note, so after the same \
         rest; one right behind the other {steady:.2}, into a growing file {growing:.2}; the empty \
         path {path:.2} ms"
    );
    let included = "from POST to the event on the WebSocket: HTTP, both ratchets, TLS, the commits \
                    of writer, relay and reader, the receipt back";
    let empty = format!(
        "p99 {:.2} ms; eight handovers and two commits in a row between threads of one process, with \
         nothing to compute: one after each note, so after the same rest",
        quantile(&bare, 0.99)
    );
    let [middle, tail, beside] = M1;
    vec![
        middle.row_at(quantile(&notes, 0.5), 2.0 * f + path + 1.0).with_detail(unit),
        tail.row_at(quantile(&notes, 0.99), 4.0 * f + 10.0).with_detail(included),
        beside.make_row(path).with_detail(empty),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Verdict;

    fn verdicts(notes: &[f64]) -> Vec<Verdict> {
        let syncs = Syncs { growing: vec![1.0], steady: vec![1.0] };
        let times = Times { notes: notes.to_vec(), bare: vec![3.0], syncs: vec![4.0] };
        make_rows(times, syncs)[..2].iter().map(Row::verdict).collect()
    }

    #[test]
    fn median_and_tail_fail_alone() {
        use Verdict::{FallsShort, Holds};
        // f = 4 ms and an empty path of 3 ms: 12 ms and 26 ms.
        assert_eq!(verdicts(&[12.0; 10]), [Holds, Holds]);
        assert_eq!(verdicts(&[12.1; 10]), [FallsShort, Holds]);
        assert_eq!(verdicts(&[8.0, 8.0, 8.0, 26.5]), [Holds, FallsShort]);
    }
}
