//! `cargo xtask dist`: the Debian package, the bill of materials, the container image of the servers,
//! and the checksums of all three.
//!
//! Two builds of one commit give the same bytes: every time is that of the commit, names are sorted, and
//! paths of this machine are replaced in the program.

mod check;
mod deb;
mod image;
mod sbom;

use crate::run::{Logs, first_line};
use crate::{machine, page};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use check::check_package;

/// The triple of the static program in the container image.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The begin of the reason for a skip of the Debian root, which needs a mirror of Debian.
pub const OUTSIDE: &str = "package in Debian: ";

/// The inputs of all files of a release.
pub struct DistPlan<'a> {
    /// The repository.
    pub root: &'a Path,
    /// The program for the package.
    pub binary: PathBuf,
    /// The folder for the results.
    pub out: PathBuf,
    /// The compression of the package: `xz`, or `none` where it is only checked.
    pub compression: &'static str,
    /// Version of the program.
    pub version: String,
    /// Address of the repository: that of `Cargo.toml`, which no other file repeats.
    pub repository: String,
    /// Time of the commit, seconds since 1970.
    pub epoch_s: u64,
}

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct DistWishes {
    binary: Option<PathBuf>,
    out: Option<PathBuf>,
    /// The program whose package is only checked.
    check: Option<PathBuf>,
}

/// Makes all files of a release.
///
/// # Errors
/// The part that failed, with the next step.
pub fn make_dist(root: &Path, args: &[String]) -> Result<(), String> {
    let wishes = DistWishes::parse(args)?;
    let target = machine::target_folder(root);
    if let Some(binary) = wishes.check {
        let mut log = Logs::new(&target)?.open("package")?;
        for reason in check_package(root, &binary, &target.join("package-check"), &mut log)? {
            println!("SKIPPED  {reason}");
        }
        println!("OK       the log is {}", Logs::new(&target)?.path("package").display());
        return Ok(());
    }
    let binary = match wishes.binary {
        Some(binary) => binary,
        None => build_release(root, &target)?,
    };
    let out = wishes.out.unwrap_or_else(|| target.join("dist"));
    let plan = DistPlan::new(root, binary, out, "xz")?;
    let made = make_files(&plan)?;
    for file in &made {
        println!("made     {}", file.display());
    }
    match static_program(root, &target)? {
        Ok(program) => println!("made     {}", image::make_image(&plan, &program)?.display()),
        Err(reason) => println!("SKIPPED  {reason}"),
    }
    write_checksums(&plan.out)
}

/// Makes the package and the bill of materials.
fn make_files(plan: &DistPlan) -> Result<Vec<PathBuf>, String> {
    fs::create_dir_all(&plan.out).map_err(|e| format!("{}: {e}", plan.out.display()))?;
    let bill = plan.out.join("mezza.cdx.json");
    fs::write(&bill, sbom::make_bill(plan)?).map_err(|e| format!("{}: {e}", bill.display()))?;
    Ok(vec![deb::make_package(plan)?, bill])
}

impl DistWishes {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut wishes = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let value =
                rest.next().map(PathBuf::from).ok_or(format!("{arg} wants a value after it"));
            match arg.as_str() {
                "--binary" => wishes.binary = Some(value?),
                "--out" => wishes.out = Some(value?),
                "--check" => wishes.check = Some(value?),
                _ => {
                    return Err(format!(
                        "dist knows no `{arg}`; there are --binary FILE, --out DIR, --check FILE"
                    ));
                }
            }
        }
        Ok(wishes)
    }
}

impl<'a> DistPlan<'a> {
    /// Makes a plan with version and time of the present commit.
    ///
    /// # Errors
    /// If neither git nor `SOURCE_DATE_EPOCH` gives a time.
    pub fn new(
        root: &'a Path,
        binary: PathBuf,
        out: PathBuf,
        compression: &'static str,
    ) -> Result<Self, String> {
        let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|e| e.to_string())?;
        let manifest: toml::Table = manifest.parse().map_err(|e| format!("Cargo.toml: {e}"))?;
        let word = |key: &str| {
            let text = manifest["workspace"]["package"][key].as_str().map(str::to_owned);
            text.ok_or_else(|| format!("Cargo.toml has no {key} of the workspace"))
        };
        let out = std::path::absolute(out).map_err(|e| e.to_string())?;
        Ok(Self {
            root,
            binary,
            out,
            compression,
            version: word("version")?,
            repository: word("repository")?,
            epoch_s: find_epoch(root)?,
        })
    }

    /// Formats the time of the commit as RFC 3339.
    fn format_epoch(&self) -> Result<String, String> {
        let at = format!("@{}", self.epoch_s);
        first_line(Command::new("date").args(["-u", "-d", &at, "+%FT%TZ"]))
            .ok_or_else(|| "no `date`".into())
    }
}

/// Returns `SOURCE_DATE_EPOCH`, or the time of the newest commit, seconds since 1970.
fn find_epoch(root: &Path) -> Result<u64, String> {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit =
        || first_line(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]));
    let text = set.or_else(of_commit).ok_or("no git here; set SOURCE_DATE_EPOCH")?;
    text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is no number: {text}"))
}

/// Builds the program with its page. Paths of this machine do not get into it.
fn build_release(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let logs = Logs::new(target)?;
    if let page::Built::Not(missing) = page::build_page(root, &logs)? {
        return Err(format!("a release has the page: {missing}"));
    }
    let folder = target.join("dist-build");
    run_build(&mut reproducible_cargo(root, &folder))?;
    Ok(folder.join("release/mezza"))
}

/// Returns the command that builds the program in a folder of its own.
fn reproducible_cargo(root: &Path, folder: &Path) -> Command {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let home = home.unwrap_or_default();
    let pairs = [(root, "/mezzavoce"), (folder, "/build"), (&home, "/cargo")];
    let remap = |option: &str| {
        pairs.map(|(from, to)| format!("{option}={}={to}", from.display())).join(" ")
    };
    let mut cargo = machine::cargo_command(root);
    cargo.args(["build", "--release", "--locked", "-p", "mezza", "--target-dir"]).arg(folder);
    cargo.env("RUSTFLAGS", remap("--remap-path-prefix"));
    cargo.env("CFLAGS", remap("-ffile-prefix-map"));
    cargo
}

fn run_build(cargo: &mut Command) -> Result<(), String> {
    let status = cargo.status().map_err(|e| format!("cargo: {e}; install Rust by rustup"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the program did not build ({status}); the compiler's text is above"))
}

/// Builds the static program of the image. The inner error is the reason why it cannot be built here.
fn static_program(root: &Path, target: &Path) -> Result<Result<PathBuf, String>, String> {
    let sysroot =
        first_line(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    if !Path::new(&sysroot).join("lib/rustlib").join(STATIC_TARGET).join("lib").is_dir() {
        let text = format!(
            "image: no standard library for {STATIC_TARGET}; rustup target add {STATIC_TARGET}"
        );
        return Ok(Err(text));
    }
    if crate::run::find_program(&["musl-gcc"]).is_none() {
        return Ok(Err("image: no C compiler for musl; apt install musl-tools".to_owned()));
    }
    let folder = target.join("dist-build");
    let mut cargo = reproducible_cargo(root, &folder);
    cargo.args(["--target", STATIC_TARGET]).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    run_build(&mut cargo)?;
    Ok(Ok(folder.join(STATIC_TARGET).join("release/mezza")))
}

/// Writes `SHA256SUMS` over all files of a folder.
fn write_checksums(folder: &Path) -> Result<(), String> {
    let names = list_files(folder)?.into_iter().filter(|name| name != "SHA256SUMS");
    let output = Command::new("sha256sum").current_dir(folder).args(names).output();
    let output = output.map_err(|e| format!("sha256sum: {e}; apt install coreutils"))?;
    fs::write(folder.join("SHA256SUMS"), output.stdout).map_err(|e| e.to_string())?;
    println!("made     {}", folder.join("SHA256SUMS").display());
    Ok(())
}

/// Returns the names of the files in a folder, sorted.
fn list_files(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let files = entries.flatten().filter(|entry| entry.path().is_file());
    let mut names: Vec<_> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Runs a program that has to succeed. Returns its output.
fn run_tool(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}; install it"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_values() {
        let words = |line: &str| {
            DistWishes::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let all = words("--binary a --out b --check c").expect("all are known");
        let [binary, out, check] = ["a", "b", "c"].map(|file| Some(file.into()));
        assert_eq!(all, DistWishes { binary, out, check });
        assert!(words("--out").expect_err("no value").contains("--out wants a value"));
        assert!(words("--fast 1").expect_err("unknown").contains("`--fast`"));
    }
}
