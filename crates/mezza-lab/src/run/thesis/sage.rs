//! Figures of Sage, the language of the thesis, if the user has installed it. It is never fetched
//! (0.6 to 1.1 GB).

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The listings of the thesis in Sage, over group 15 and CURVE25519; the script prints lines `NAME
/// MS`.
const SCRIPT: &str = include_str!("sage.py");

/// The times that Sage measured, or the reason why there are none.
pub struct SageFigures(Result<BTreeMap<String, f64>, String>);

/// Runs the listings in an installed Sage.
pub fn run_sage() -> SageFigures {
    let output =
        Command::new("sage").args(["-python", "-c", SCRIPT]).stderr(Stdio::null()).output();
    let absent = "Sage is not installed here; its column fills where it is (Debian: apt install sagemath, about 1 GB)";
    SageFigures(match output {
        Ok(output) if output.status.success() => {
            Ok(parse_figures(&String::from_utf8_lossy(&output.stdout)))
        }
        Ok(_) => Err("sage does not run the listings; look at `sage -python`".to_owned()),
        Err(_) => Err(absent.to_owned()),
    })
}

fn parse_figures(text: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, ms) = line.split_once(' ')?;
        Some((name.to_owned(), ms.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

impl SageFigures {
    /// Formats the time of a variant in ms, and its overhead over the base.
    pub fn format_column(&self, name: &str, base: &str) -> [String; 2] {
        let Ok(figures) = &self.0 else { return ["not here".into(), String::new()] };
        match (figures.get(name), figures.get(base)) {
            (Some(ms), _) if name == base => [format!("{ms:.1}"), String::new()],
            (Some(ms), Some(of)) => {
                [format!("{ms:.1}"), format!("{:+.0} %", 100.0 * (ms / of - 1.0))]
            }
            _ => ["-".into(), String::new()],
        }
    }

    /// Returns the reason why there are no figures, for the table that lacks them.
    pub fn absent_reason(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sage_are_read_and_its_absence_is_told() {
        let figures = SageFigures(Ok(parse_figures("DH 2.5\nDH_FW 30\nnoise\nEG x\n")));
        assert_eq!(figures.format_column("DH", "DH"), ["2.5", ""]);
        assert_eq!(figures.format_column("DH_FW", "DH"), ["30.0", "+1100 %"]);
        assert_eq!(figures.format_column("EG", "EG"), ["-", ""]);
        let absent = SageFigures(Err("no".into()));
        assert_eq!(
            (absent.format_column("DH", "DH")[0].as_str(), absent.absent_reason()),
            ("not here", Some("no"))
        );
    }
}
