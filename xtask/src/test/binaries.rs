//! The test programs: cargo builds all of them at once and reports their paths. Running them
//! directly, instead of by `cargo test`, lets programs that wait run in parallel to those that
//! compute.

use super::Context;
use crate::machine;
use crate::run::{Ended, run_lines, run_tests};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One test program.
pub struct TestBinary {
    /// The package, such as `mezza-mesh`.
    pub package: String,
    /// The target inside the package: a library, a program, or `it` for the integration tests.
    pub target: String,
    program: PathBuf,
    /// The package's folder: cargo runs tests there.
    folder: PathBuf,
}

/// Builds every test program of the workspace. Its log is that of the step `build`.
pub fn build_binaries(context: &Context) -> Result<(Ended, Vec<TestBinary>), String> {
    let mut command = machine::cargo_command(context.root);
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut binaries = Vec::new();
    let ended = run_lines(&mut command, &mut context.logs.open("build")?, |line| {
        let binary = parse_message(line);
        let is_message = line.starts_with("{\"reason\"");
        binaries.extend(binary);
        // Cargo's messages are for this program; the compiler's texts are for the user.
        !is_message
    })?;
    // A fixed order, independent of the order of compilation.
    binaries.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok((ended, binaries))
}

/// Parses one of cargo's messages. Returns `None` if it reports no test program.
fn parse_message(line: &str) -> Option<TestBinary> {
    let message = serde_json::from_str::<Value>(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let program = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = message["target"]["name"].as_str()?.to_owned();
    // `path+file:///folder/crates/mezza-mesh#0.1.0`, or `..#name@0.1.0` if the two names differ.
    let id = message["package_id"].as_str()?;
    let end = id.rsplit(['/', '#']).find(|part| !part.starts_with(|c: char| c.is_ascii_digit()))?;
    let package = end.split('@').next()?.to_owned();
    is_test.then_some(TestBinary { package, target, program, folder })
}

impl TestBinary {
    /// Returns the name of the program's log: `test-mezza-mesh-it`.
    pub fn log_name(&self) -> String {
        format!("test-{}-{}", self.package, self.target)
    }

    /// Runs the tests with further arguments of the test harness. The log includes the output of
    /// passed tests, because a skipped test reports itself there.
    pub fn run(&self, context: &Context, args: &[String]) -> Result<Ended, String> {
        self.run_into(context, &self.log_name(), args, |_| ())
    }

    /// Runs the tests as [`Self::run`] does, with another log name and changes to the command.
    pub fn run_into(
        &self,
        context: &Context,
        log: &str,
        args: &[String],
        change: impl FnOnce(&mut Command),
    ) -> Result<Ended, String> {
        let mut command = machine::calling_cargo(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.arg("--show-output").args(args);
        if let Some(python) = &context.tools.python {
            command.env("MEZZA_TEST_PYTHON", python);
        }
        change(&mut command);
        run_tests(&mut command, &mut context.logs.open(log)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///a/crates/mezza-mesh#0.1.0",
            "manifest_path":"/a/crates/mezza-mesh/Cargo.toml","target":{"kind":["test"],"name":"it"},
            "profile":{"test":true},"executable":"/a/target/debug/deps/it-0"}"#;
        let found = parse_message(line).expect("a test program");
        assert_eq!((found.package.as_str(), found.target.as_str()), ("mezza-mesh", "it"));
        assert_eq!(found.folder, Path::new("/a/crates/mezza-mesh"));
        assert_eq!(found.log_name(), "test-mezza-mesh-it");
        let other = line.replace("mezza-mesh#0.1.0", "testing#mezza-mixnet-testing@0.1.0");
        assert_eq!(parse_message(&other).expect("a test program").package, "mezza-mixnet-testing");
        for wrong in [line.replace("\"test\":true", "\"test\":false"), "   Compiling x".to_owned()]
        {
            assert!(parse_message(&wrong).is_none(), "{wrong}");
        }
    }
}
