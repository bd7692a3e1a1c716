//! The programs: children of this process, one line there and one line back.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::device::{Device, Message};
use mezza_testing::{hex, unhex};

/// A program that stands for an implementation.
pub struct Program {
    pub name: &'static str,
    /// File in `tests/peers`.
    pub source: &'static str,
    /// The tool that runs it.
    pub runs: Runs,
}

/// The tool that runs a program.
pub enum Runs {
    /// Java, with these archives.
    Java(&'static [&'static str]),
    /// The environment of `cargo xtask interop`.
    Python,
}

/// A running program.
pub struct Peer {
    child: Child,
    /// `None`: it was told that this is the end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it; `None`, with the reason on the terminal, where it cannot run.
    pub fn start(&self) -> Option<Peer> {
        let Some(folder) = std::env::var_os("MEZZA_TEST_PEERS").map(PathBuf::from) else {
            return self.skipped("MEZZA_TEST_PEERS is not set");
        };
        if let Some(file) = self.needs(&folder).into_iter().find(|file| !file.exists()) {
            return self.skipped(&format!("no {}", file.display()));
        }
        let mut command = self.command(&folder);
        // Old generated code in axolotl wants the slow decoder.
        command.env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Peer { child, input, output })
    }

    #[expect(clippy::print_stdout, reason = "`cargo xtask test` counts these lines")]
    fn skipped(&self, reason: &str) -> Option<Peer> {
        println!("SKIPPED {}: {reason}; cargo xtask interop", self.name);
        None
    }

    fn needs(&self, folder: &Path) -> Vec<PathBuf> {
        match self.runs {
            Runs::Java(jars) => jars.iter().map(|jar| folder.join(jar)).collect(),
            Runs::Python => vec![folder.join("py/bin/python")],
        }
    }

    fn command(&self, folder: &Path) -> Command {
        let needs = self.needs(folder);
        let mut command = match self.runs {
            Runs::Python => Command::new(&needs[0]),
            Runs::Java(_) => {
                let mut java = Command::new("java");
                let path = std::env::join_paths(&needs).expect("no colon in a name");
                // The quick compiler: these processes live for seconds.
                java.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(path);
                java
            }
        };
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(self.source));
        command
    }
}

impl Peer {
    /// Says a line and returns the fields of the answer, or what stands behind `err`.
    pub fn ask(&mut self, words: &[&str]) -> Result<Vec<String>, String> {
        let input = self.input.as_mut().expect("a pipe");
        input.write_all(format!("{}\n", words.join(" ")).as_bytes()).expect("it listens");
        input.flush().expect("it listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let line = line.trim_end_matches('\n');
        match line.split_once(' ').unwrap_or((line, "")) {
            ("ok", "") if line == "ok" => Ok(Vec::new()),
            ("ok", fields) => Ok(fields.split(' ').map(str::to_owned).collect()),
            ("err", text) => Err(text.to_owned()),
            _ => panic!("`{}` was answered by `{line}`", words[0]),
        }
    }

    /// The one field of an answer that is `ok`.
    pub fn one(&mut self, words: &[&str]) -> String {
        let mut fields = self.ask(words).expect("ok");
        assert_eq!(fields.len(), 1);
        fields.remove(0)
    }
}

impl Device for Peer {
    fn bundle(&mut self) -> Vec<String> {
        self.ask(&["bundle"]).expect("a bundle")
    }

    fn process(&mut self, bundle: &[String]) -> Result<(), String> {
        let words = std::iter::once("process").chain(bundle.iter().map(String::as_str));
        self.ask(&words.collect::<Vec<_>>()).map(|fields| assert!(fields.is_empty()))
    }

    fn enc(&mut self, body: &[u8]) -> Result<Message, String> {
        let fields = self.ask(&["enc", &hex(body)])?;
        Ok(Message { kind: fields[0].parse().expect("2 or 3"), bytes: unhex(&fields[1]) })
    }

    fn dec(&mut self, message: &Message) -> Result<Vec<u8>, String> {
        let fields = self.ask(&["dec", &message.kind.to_string(), &hex(&message.bytes)])?;
        Ok(unhex(&fields[0]))
    }
}

impl Drop for Peer {
    #[expect(clippy::disallowed_methods, reason = "it waits for another process")]
    fn drop(&mut self) {
        // The end of its input ends it. Killed, a library in Java would leave 136 MB of unpacked
        // code behind.
        self.input = None;
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
