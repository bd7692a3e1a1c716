//! Peers: programs that measure their own operations. They are this program, and those behind
//! `lab/peers/*.sh`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use mezza::testing::api::{Exit, Fault};

use crate::place;
use crate::profile::Profile;

/// Time limit for one response.
const PATIENCE: Duration = Duration::from_secs(600);
/// The exit code of a script whose peer is absent.
const ABSENT: i32 = 69;

/// A running peer.
pub struct PeerProcess {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// The cost of an operation, in ns of thread CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpCost {
    /// The minimum of 25 batches.
    pub min: f64,
    /// The median of 25 batches.
    pub median: f64,
}

/// The costs of the first calls in a fresh process, in ns of thread CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cold {
    /// The first call.
    pub first: f64,
    /// The mean of the first ten calls, as in the paper.
    pub ten: f64,
    /// The mean of the second to the tenth.
    pub rest: f64,
}

impl PeerProcess {
    /// Starts a peer.
    ///
    /// # Errors
    /// If the program does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (sender, answers) = channel();
        let output = BufReader::new(child.stdout.take().context("no output")?);
        std::thread::spawn(move || {
            // The thread ends with the peer's output, or when the peer is dropped.
            let _ = output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
        });
        let input = child.stdin.take();
        Ok(Self { child, input, answers })
    }

    /// Starts this program as a peer.
    ///
    /// # Errors
    /// If the program does not start.
    pub fn start_ours() -> Result<Self> {
        Self::start(&mut own_command()?)
    }

    /// Starts this program as a peer with `mask` as the CPU flags of aws-lc. An empty mask would
    /// switch all instructions off.
    ///
    /// # Errors
    /// If the program does not start.
    pub fn with_cpu_mask(mask: &str) -> Result<Self> {
        Self::start(own_command()?.env("OPENSSL_ia32cap", mask))
    }

    /// Measures minimum and median of the cost of a call.
    ///
    /// # Errors
    /// If the peer does not respond with numbers.
    pub fn measure_cost(&mut self, op: &str, size: usize, calls: usize) -> Result<OpCost> {
        let [min, median] = self.ask_numbers(&format!("rate {op} {size} {calls}"))?;
        Ok(OpCost { min, median })
    }

    /// Measures the first ten calls of the process, which must not have received another request.
    ///
    /// # Errors
    /// If the peer does not respond with numbers.
    pub fn measure_cold(&mut self, op: &str, size: usize) -> Result<Cold> {
        let [first, ten, rest] = self.ask_numbers(&format!("cold {op} {size}"))?;
        Ok(Cold { first, ten, rest })
    }

    fn ask_numbers<const N: usize>(&mut self, line: &str) -> Result<[f64; N]> {
        let answer = self.exchange_line(line)?.map_err(|said| anyhow!("`{line}`: {said}"))?;
        let words = answer.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>();
        let numbers = words.ok().and_then(|words| <[f64; N]>::try_from(words).ok());
        numbers.with_context(|| format!("`{line}` gave `{answer}`"))
    }

    /// Sends a line. Returns the text after `ok`, or the reason after `err`.
    ///
    /// # Errors
    /// A peer that has ended, is silent, or responds otherwise.
    pub fn exchange_line(&mut self, line: &str) -> Result<Result<String, String>> {
        let input = self.input.as_mut().context("the peer has ended")?;
        writeln!(input, "{line}").and_then(|()| input.flush()).context("the peer has ended")?;
        let answer = self.answers.recv_timeout(PATIENCE).context("the peer does not answer")?;
        match answer.split_once(' ').unwrap_or((&answer, "")) {
            ("ok", rest) => Ok(Ok(rest.to_owned())),
            ("err", reason) => Ok(Err(reason.to_owned())),
            _ => bail!("`{line}` gave `{answer}`"),
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own_command() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("peer").env_remove("OPENSSL_ia32cap");
    Ok(command)
}

/// A peer behind a script of `lab/peers`, or the reason of its absence with the next step.
pub type Found = Result<PeerProcess, String>;

/// Looks for the peer `name` and starts it with `args`.
///
/// # Errors
/// If neither the current folder nor this program is inside the repository.
pub fn find_peer(name: &str, args: &[&str]) -> Result<Found> {
    let output = script_command(name, "version")?.stderr(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.lines().next().unwrap_or_default();
    if output.status.code() == Some(ABSENT) {
        return Ok(Err(said.trim_start_matches("SKIPPED ").to_owned()));
    }
    if !output.status.success() {
        return Ok(Err(format!("`lab/peers/{name}.sh version` failed; fetch the peer again")));
    }
    Ok(PeerProcess::start(script_command(name, "run")?.args(args))
        .map_err(|e| format!("{name}: {e}; fetch it")))
}

/// Works as [`find_peer`], but a smoke run starts no virtual machine.
///
/// # Errors
/// If neither the current folder nor this program is inside the repository.
pub fn find_for(profile: Profile, name: &str) -> Result<Found> {
    if profile == Profile::Smoke && ["java", "jvm"].contains(&name) {
        return Ok(Err(format!("{name}: too slow for a smoke run; use `--profile quick`")));
    }
    find_peer(name, &[])
}

/// Fetches a peer from its registry. Only `--fetch` calls this.
///
/// # Errors
/// If the script fails.
pub fn fetch_peer(name: &str) -> Result<()> {
    let status = script_command(name, "fetch")?.status()?;
    if status.success() {
        return Ok(());
    }
    let text = format!("lab/peers/{name}.sh fetch failed");
    Err(Fault::new(Exit::Unreachable, text, "run it again with a network").into())
}

fn script_command(name: &str, action: &str) -> Result<Command> {
    let missing = || {
        let next = "start the lab inside the repository";
        Fault::new(Exit::NotFound, "the peers are not here", next)
    };
    let root = place::find_repository().ok_or_else(missing)?;
    let mut command = Command::new(root.join("lab/peers").join(format!("{name}.sh")));
    command.arg(action).env("MEZZA_PEERS", place::target_folder().join("peers"));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(script: &str) -> PeerProcess {
        PeerProcess::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn answers_are_numbers_or_errors() {
        let mut peer = says("while read line; do echo ok 12.5 13; done");
        assert_eq!(peer.measure_cost("x", 1, 1).unwrap(), OpCost { min: 12.5, median: 13.0 });
        assert!(peer.measure_cold("x", 1).unwrap_err().to_string().contains("gave `12.5 13`"));
    }

    #[test]
    fn garbage_errors_and_an_end_are_told() {
        for (script, part) in [
            ("read line; echo err no such thing", ": no such thing"),
            ("read line; echo garbage", "garbage"),
            ("read line; echo ok x y", "x y"),
            ("exit 3", "peer"),
        ] {
            let error = format!("{:#}", says(script).measure_cost("x", 1, 1).unwrap_err());
            assert!(error.contains(part), "{script}: {error}");
        }
    }

    #[test]
    fn an_absent_peer_says_what_would_help() {
        assert!(find_peer("nobody", &[]).is_err());
    }
}
