//! Reads the output of a test program line by line. The output of failed tests is stored and
//! printed at the end of a run. The command-line transcripts print their differences themselves,
//! and libtest does not capture them.

/// Lines stored of one failed test: its message comes first, then a backtrace.
const LINES_OF_A_TEST: usize = 25;
/// Lines stored in all.
const LINES: usize = 400;

/// Reads the lines in order.
#[derive(Default)]
pub struct TestOutput {
    part: Part,
    /// True while the lines are the differences of a transcript.
    differs: bool,
    of_this_test: usize,
    failures: Vec<String>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The part of the output with the names and verdicts of tests, and the messages of cargo.
    #[default]
    Tests,
    /// The part after the line `successes:`.
    Successes,
    /// The part after the line `failures:`.
    Failures,
}

impl TestOutput {
    /// Reads the next line.
    pub fn read_line(&mut self, line: &str) {
        self.part = match line {
            "successes:" => Part::Successes,
            "failures:" => Part::Failures,
            line if line.starts_with("test result: ") => Part::Tests,
            _ => self.part,
        };
        // `Testing FILE:1 ... failed 1s`, then the expected and the actual output.
        let transcript = line.starts_with("Testing ");
        if transcript || line.starts_with("test ") || self.part != Part::Tests {
            self.differs = transcript && line.contains(" ... failed");
        }
        // Errors of the compiler, and of cargo about a killed test program.
        let fatal = line.starts_with("error");
        if self.part == Part::Failures || self.differs || fatal {
            self.keep_line(line);
        }
    }

    /// Returns the output of the failed tests and the errors, shortened.
    pub fn failures(self) -> Vec<String> {
        self.failures
    }

    fn keep_line(&mut self, line: &str) {
        self.of_this_test += 1;
        let begins = ["---- ", "Testing ", "error"].iter().any(|start| line.starts_with(start));
        if begins || line == "failures:" {
            self.of_this_test = 0;
        }
        let blank = line.is_empty() || line == "failures:";
        if !blank && self.of_this_test < LINES_OF_A_TEST && self.failures.len() < LINES {
            self.failures.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_kept_and_the_output_of_successes_is_not() {
        let log = "\
running 2 tests
test good ... ok
test bad ... FAILED

successes:

---- good stdout ----
thread 'good' panicked on purpose

successes:
    good

failures:

---- bad stdout ----
assertion failed

failures:
    bad

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
     Running tests/it.rs
error: 1 target failed:
    `-p x --lib`";
        let mut output = TestOutput::default();
        log.lines().for_each(|line| output.read_line(line));
        let kept =
            ["---- bad stdout ----", "assertion failed", "    bad", "error: 1 target failed:"];
        assert_eq!(output.failures(), kept);
    }

    #[test]
    fn the_differences_of_a_transcript_are_kept() {
        let log = "\
Testing tests/cli/good.trycmd:3 ... ok 1s
Testing tests/cli/bad.trycmd:7 ... failed 1s
Expected success, was 2
---- expected: stdout
++++ actual:   stdout
   1      - skipped 0
        1 + skipped 1
Testing tests/cli/good.trycmd:9 ... ok 1s
Hint: something
test cli_3 ... FAILED
test other ... ok
1 failed, 2 passed";
        let mut output = TestOutput::default();
        log.lines().for_each(|line| output.read_line(line));
        let kept = output.failures();
        assert_eq!(
            kept.first().map(String::as_str),
            Some("Testing tests/cli/bad.trycmd:7 ... failed 1s")
        );
        assert_eq!(kept.last().map(String::as_str), Some("        1 + skipped 1"));
        assert_eq!(kept.len(), 6);
    }

    #[test]
    fn a_long_trace_is_shortened_and_the_next_test_is_not() {
        let mut output = TestOutput::default();
        let trace = (0..1_000).map(|n| format!("   {n}: called"));
        let lines = ["failures:".to_owned(), "---- a stdout ----".to_owned()];
        let next = ["---- b stdout ----".to_owned(), "why".to_owned()];
        for line in lines.into_iter().chain(trace).chain(next) {
            output.read_line(&line);
        }
        let kept = output.failures();
        assert_eq!(kept.len(), LINES_OF_A_TEST + 2);
        assert_eq!(kept.last().map(String::as_str), Some("why"));
    }
}
