//! `cargo xtask up`: checks the tools, builds the page and the program, then becomes the program.

use crate::page::{Built, Missing};
use crate::run::Logs;
use crate::test::format_time;
use crate::{machine, page};
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Wishes {
    json: bool,
    no_web: bool,
    /// Only remove the demonstration.
    remove: bool,
    /// Arguments for the program.
    passed_on: Vec<String>,
}

/// Starts the demo world. It returns only after an error.
pub fn start_demo(root: &Path, args: &[String]) -> Result<(), String> {
    let wishes = Wishes::parse(args)?;
    let target = machine::target_folder(root);
    let logs = Logs::new(&target)?;
    // Nothing is built to remove what was never made.
    if wishes.remove && wishes.home(root).is_some_and(|home| !home.exists()) {
        println!("there is no demonstration here: nothing to remove");
        return Ok(());
    }
    if !wishes.remove {
        check_tools(&wishes)?;
        build_web(root, &logs, &wishes)?;
    }
    build_program(root, &wishes)?;
    let mut program = Command::new(target.join("release/mezza"));
    program.current_dir(root).arg("up").args((!wishes.remove).then_some("--demo"));
    let failed = program.args(&wishes.passed_on).exec();
    Err(format!("{}: {failed}; run `cargo build --release -p mezza`", target.display()))
}

impl Wishes {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut wishes = Self { json: false, no_web: false, remove: false, passed_on: Vec::new() };
        let mut home = vec!["--home".to_owned(), "./var".to_owned()];
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.split('=').next().unwrap_or_default() {
                "--json" => wishes.json = true,
                "--no-web" => wishes.no_web = true,
                "--remove" => wishes.remove = true,
                "--check" | "--home" | "--listen" | "--port" => {}
                _ => {
                    let known =
                        "--check, --json, --home DIR, --listen ADDRESS:PORT, --no-web, --remove";
                    return Err(format!("up knows no `{arg}`; there are {known}"));
                }
            }
            let mut words = vec![arg.clone()];
            if ["--home", "--listen", "--port"].contains(&arg.as_str()) {
                words.push(rest.next().ok_or(format!("{arg} wants a value after it"))?.clone());
            }
            if arg.starts_with("--home") {
                home = words;
            } else {
                wishes.passed_on.extend(words);
            }
        }
        wishes.passed_on.splice(0..0, home);
        Ok(wishes)
    }

    /// Returns the folder of the demonstration.
    fn home(&self, root: &Path) -> Option<PathBuf> {
        let first = self.passed_on.first()?;
        let folder = first.strip_prefix("--home=").or(self.passed_on.get(1).map(String::as_str))?;
        Some(root.join(folder))
    }

    /// Prints one line for the user, or one event for a program.
    fn print_line(&self, topic: &str, text: &str) {
        if self.json {
            println!("{}", json!({ "event": topic, "text": text }));
        } else {
            println!("{topic:<8} {text}");
        }
    }
}

fn check_tools(wishes: &Wishes) -> Result<(), String> {
    let rustc = machine::rustc_version()
        .map_or("?".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    if !machine::has_cc() {
        return Err("no C compiler; on Debian: apt install gcc".to_owned());
    }
    let node = match machine::node_version() {
        Some((major, minor)) if machine::node_is_supported(major, minor) => {
            format!("node {major} ok")
        }
        Some((major, minor)) => format!("node {major}.{minor} is not supported"),
        None => "node not found".to_owned(),
    };
    let memory = machine::memory_gib().map_or(String::new(), |gib| format!(", {gib} GiB"));
    let cores = machine::count_cores();
    let line = format!("rustc {rustc} ok   cc ok   {node}   {cores} cores{memory}");
    wishes.print_line("doctor", &line);
    Ok(())
}

fn build_web(root: &Path, logs: &Logs, wishes: &Wishes) -> Result<(), String> {
    if wishes.no_web {
        return Ok(());
    }
    let begun = Instant::now();
    match page::build_page(root, logs)? {
        Built::Now => {
            let time = format_time(begun.elapsed());
            wishes.print_line("web", &format!("npm ci, vite build ............... {time}"));
        }
        Built::Before => wishes.print_line("web", "built before from the same sources"),
        Built::Not(Missing { what, step }) => {
            let text = format!("{what}; building without the page ({step}, then run again)");
            wishes.print_line("web", &text);
        }
    }
    Ok(())
}

/// Builds the program. Cargo reports its progress on stderr itself.
fn build_program(root: &Path, wishes: &Wishes) -> Result<(), String> {
    let begun = Instant::now();
    let mut build = machine::cargo_command(root);
    build.args(["build", "--release", "--locked", "-p", "mezza"]);
    let status = build.status().map_err(|e| format!("cargo: {e}; install Rust by rustup"))?;
    if !status.success() {
        return Err(format!("the program did not build ({status}); the compiler's text is above"));
    }
    let time = format_time(begun.elapsed());
    wishes.print_line("program", &format!("cargo build --release -p mezza ... {time}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(line: &str) -> Result<Wishes, String> {
        Wishes::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_passed_on() {
        let plain = wishes("").expect("nothing is fine");
        assert_eq!(plain.passed_on, ["--home", "./var"]);
        let all =
            wishes("--check --json --listen 127.0.0.1:7200 --home x --no-web").expect("all known");
        assert!(all.json && all.no_web);
        let expected =
            ["--home", "x", "--check", "--json", "--listen", "127.0.0.1:7200", "--no-web"];
        assert_eq!(all.passed_on, expected);
        let removal = wishes("--remove").expect("known");
        assert!(removal.remove);
        assert_eq!(removal.passed_on, ["--home", "./var", "--remove"]);
        assert_eq!(wishes("--home=y").expect("known").passed_on, ["--home=y"]);
    }

    #[test]
    fn unknown_and_incomplete_wishes_are_refused() {
        assert!(wishes("--fast").expect_err("unknown").contains("`--fast`"));
        assert!(wishes("--port").expect_err("no value").contains("--port wants a value"));
    }
}
