//! The number of tests: the sum of the last lines that `cargo test` prints for each binary.

use std::fmt;
use std::time::Duration;

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Count {
    /// Adds up every `test result:` line of a log.
    pub fn of_log(log: &str) -> Self {
        let mut count = Self::default();
        for line in log.lines().filter(|line| line.starts_with("test result: ")) {
            count.passed += number_before(line, " passed");
            count.failed += number_before(line, " failed");
            count.ignored += number_before(line, " ignored");
        }
        count
    }

    /// Formats one line of the usual form for all binaries together.
    pub fn result_line(self, ok: bool, time: Duration) -> String {
        let word = if ok { "ok" } else { "FAILED" };
        let seconds = time.as_secs_f64();
        format!(
            "test result: {word}. {self}; 0 measured; 0 filtered out; finished in {seconds:.2}s"
        )
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed; {} failed; {} ignored", self.passed, self.failed, self.ignored)
    }
}

/// Returns the number directly before `word`.
fn number_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_cargo_prints() {
        let log = "\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
noise: test result: ok. 9 passed
test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1s";
        let count = Count::of_log(log);
        assert_eq!(count, Count { passed: 43, failed: 2, ignored: 1 });
        let line = "test result: FAILED. 43 passed; 2 failed; 1 ignored; 0 measured; \
                    0 filtered out; finished in 2.50s";
        assert_eq!(count.result_line(false, Duration::from_millis(2_500)), line);
    }
}
