//! The published values of the papers as data, and contradictions within a paper.

pub mod thesis;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Values of "Signal with Blake2, Chacha20 and Poly1305".
const SIGNAL: &str = include_str!("../papers/signal.toml");

/// Values of "Vuvuzela Reproduction", and of SOSP 2015 as context.
const VUVUZELA: &str = include_str!("../papers/vuvuzela.toml");

/// Values of "FoSAM: Forward Secret Messaging in Ad-Hoc Networks".
const FOSAM: &str = include_str!("../papers/fosam.toml");

/// Values of "SEKA: Secretless Key Exchange and Authentication in `LiFi` Networks".
const SEKA: &str = include_str!("../papers/seka.toml");

/// The largest difference that rounding to a nanosecond explains.
const ROUNDING: f64 = 0.51;

/// A column of a table: ten runs, their printed average, and the value in the text.
#[derive(Clone, Debug, Deserialize)]
pub struct Column {
    /// The experiment that shows the column, for example `signal-t1`.
    pub table: String,
    /// The place of the column in the paper.
    pub place: String,
    /// The kind of input: `key`, `text` or `file`.
    pub input: String,
    /// The operation, by its name in the lab.
    pub op: String,
    /// The ten runs, ns.
    pub tests: [f64; 10],
    /// The average printed below the runs, ns.
    pub average: f64,
    /// The value in the text, ns.
    pub text: Option<f64>,
}

#[derive(Deserialize)]
struct Paper {
    column: Vec<Column>,
}

impl Column {
    /// Returns the mean of the ten runs, ns.
    pub fn mean(&self) -> f64 {
        self.tests.iter().sum::<f64>() / 10.0
    }

    /// Describes each printed value that contradicts the ten runs.
    pub fn list_errors(&self) -> Vec<String> {
        let claims = [("average", Some(self.average)), ("text", self.text)];
        let wrong = |(_, value): &(_, Option<f64>)| {
            value.is_some_and(|value| (value - self.mean()).abs() > ROUNDING)
        };
        let tell = |(what, value): (&str, Option<f64>)| {
            let value = value.unwrap_or(f64::NAN);
            format!(
                "{}, {} {}: the {what} says {value:.0}, its ten runs give {:.0}",
                self.place,
                self.op,
                self.input,
                self.mean()
            )
        };
        claims.into_iter().filter(wrong).map(tell).collect()
    }
}

/// Loads all columns of the paper on Signal.
///
/// # Errors
/// If the file is damaged.
pub fn load_signal() -> Result<Vec<Column>> {
    Ok(toml::from_str::<Paper>(SIGNAL)?.column)
}

/// One row of FoSAM's table 1, in milliseconds.
#[derive(Clone, Debug, Deserialize)]
pub struct MicroRow {
    /// The operation.
    pub name: String,
    /// The laptop's value.
    pub thinkpad: f64,
    /// The telephone's value.
    pub pixel6: f64,
}

#[derive(Deserialize)]
struct MicroTable {
    row: Vec<MicroRow>,
}

/// Loads all rows of FoSAM's table 1.
///
/// # Errors
/// If the file is damaged.
pub fn fosam_microbenchmark() -> Result<Vec<MicroRow>> {
    Ok(toml::from_str::<MicroTable>(FOSAM)?.row)
}

/// A value that the reproduction of Vuvuzela prints.
#[derive(Clone, Debug, Deserialize)]
pub struct Value {
    /// The experiment that shows the value, for example `vuvuzela-breakdown`.
    pub exp: String,
    /// The name of the value.
    pub name: String,
    /// The number.
    #[serde(rename = "value")]
    pub number: f64,
    /// The unit.
    pub unit: String,
    /// `printed`, or `context` for a value of another paper, which is never used in a ratio.
    pub status: String,
    /// The place of the value in the paper.
    pub place: String,
}

/// A noise level of the SOSP paper: mean and scale of the singles.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct NoiseLevel {
    /// The mean of the singles.
    pub mu: u32,
    /// The scale of the Laplace law.
    pub scale: u32,
}

/// The values that a paper prints.
#[derive(Clone, Debug, Deserialize)]
pub struct Printed {
    /// All values, in the order of the file.
    pub value: Vec<Value>,
    /// The sentences on figures of which the paper prints no number.
    #[serde(default)]
    pub statement: Vec<Statement>,
}

/// A sentence of a paper on a figure of which it prints no number.
#[derive(Clone, Debug, Deserialize)]
pub struct Statement {
    /// The experiment that shows the figure.
    pub exp: String,
    /// The words of the paper.
    pub words: String,
    /// The place of the words in the paper.
    pub place: String,
}

/// The values of both papers on Vuvuzela.
#[derive(Clone, Debug, Deserialize)]
pub struct Vuvuzela {
    /// All printed values.
    #[serde(flatten)]
    printed: Printed,
    /// The noise levels of the SOSP paper.
    pub level: Vec<NoiseLevel>,
}

impl std::ops::Deref for Vuvuzela {
    type Target = Printed;

    fn deref(&self) -> &Printed {
        &self.printed
    }
}

impl Printed {
    /// Returns the values of this name in an experiment, in order.
    pub fn find_values(&self, exp: &str, name: &str) -> Vec<f64> {
        let these = self.value.iter().filter(|v| v.exp == exp && v.name == name);
        these.map(|value| value.number).collect()
    }

    /// Formats the printed values of an experiment as lines.
    pub fn list_values(&self, exp: &str) -> Vec<String> {
        let line = |value: &Value| {
            let Value { name, number, unit, status, place, .. } = value;
            format!("{status}: {name} {number} {unit} ({place})")
        };
        self.value.iter().filter(|value| value.exp == exp).map(line).collect()
    }

    /// Formats the sentences on an experiment of which the paper prints no number as lines.
    pub fn list_statements(&self, exp: &str) -> Vec<String> {
        let these = self.statement.iter().filter(|statement| statement.exp == exp);
        these.map(|s| format!("printed: no number; \"{}\" ({})", s.words, s.place)).collect()
    }

    /// Returns the first value of this name in an experiment, or NaN.
    pub fn find_first(&self, exp: &str, name: &str) -> f64 {
        self.find_values(exp, name).first().copied().unwrap_or(f64::NAN)
    }
}

/// Loads all values of the reproduction of Vuvuzela.
///
/// # Errors
/// If the file is damaged.
pub fn load_vuvuzela() -> Result<Vuvuzela> {
    Ok(toml::from_str(VUVUZELA)?)
}

/// Loads all values of FoSAM.
///
/// # Errors
/// If the file is damaged.
pub fn load_fosam() -> Result<Printed> {
    Ok(toml::from_str(FOSAM)?)
}

/// A row of SEKA's table 3 or 4, ms.
#[derive(Clone, Debug, Deserialize)]
pub struct Latency {
    /// The number of the table.
    pub table: String,
    /// The scenario.
    pub name: String,
    /// The mean in table 3, the median in table 4.
    pub middle: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Latency {
    /// Returns mean or median, standard deviation, minimum and maximum, ms.
    pub fn values(&self) -> [f64; 4] {
        [self.middle, self.sd, self.min, self.max]
    }
}

/// The values of the paper on SEKA.
#[derive(Clone, Debug, Deserialize)]
pub struct Seka {
    /// All printed values and sentences.
    #[serde(flatten)]
    printed: Printed,
    /// The rows of tables 3 and 4.
    latency: Vec<Latency>,
}

impl std::ops::Deref for Seka {
    type Target = Printed;

    fn deref(&self) -> &Printed {
        &self.printed
    }
}

impl Seka {
    /// Returns the rows of a table, in its order.
    pub fn list_rows(&self, table: &str) -> Vec<&Latency> {
        self.latency.iter().filter(|row| row.table == table).collect()
    }

    /// Returns a row of a table.
    ///
    /// # Errors
    /// If the table has no such row.
    pub fn find_row(&self, table: &str, name: &str) -> Result<&Latency> {
        let row = self.latency.iter().find(|row| row.table == table && row.name == name);
        row.with_context(|| format!("papers/seka.toml: no row {name} of table {table}"))
    }
}

/// Loads all values of SEKA.
///
/// # Errors
/// If the file is damaged.
pub fn load_seka() -> Result<Seka> {
    Ok(toml::from_str(SEKA)?)
}

/// Returns in how many of ten pairs the first value is smaller, and the probability of at least so
/// many by chance (one-sided sign test).
pub fn sign_test(first: &[f64; 10], second: &[f64; 10]) -> (u32, f64) {
    let wins = first.iter().zip(second).filter(|(a, b)| a < b).count();
    let mut choose = 1.0;
    let mut below = [0.0; 11];
    for (k, share) in below.iter_mut().enumerate() {
        *share = choose / 1024.0;
        let k = f64::from(u32::try_from(k).unwrap_or(10));
        choose *= (10.0 - k) / (k + 1.0);
    }
    (u32::try_from(wins).unwrap_or(10), below[wins..].iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_5_one_sentence_of_the_paper_does_not_fit_its_table() {
        let columns = load_signal().unwrap();
        assert_eq!(columns.len(), 6 + 4 + 4);
        let errors: Vec<String> = columns.iter().flat_map(Column::list_errors).collect();
        let expected =
            "Table 3, cbc-hmac-seal file: the text says 18651238, its ten runs give 21146063";
        assert_eq!(errors, [expected]);
        // E-G1: the value in the text is the mean of the decryptions.
        let open = columns.iter().find(|c| c.op == "cbc-hmac-open" && c.input == "file").unwrap();
        assert_eq!(open.average.to_bits(), 18_651_238_f64.to_bits());
    }

    #[test]
    fn lab_5_the_shares_of_the_reproduction_add_up() {
        let paper = load_vuvuzela().unwrap();
        let share = |name| paper.find_first("vuvuzela-breakdown", name);
        let sum = share("network") + share("cryptography");
        assert_eq!(sum.to_bits(), share("together").to_bits());
        let levels =
            paper.find_values("vuvuzela-scaling", "mu").into_iter().map(|mu| format!("{mu:.0}"));
        assert_eq!(levels.collect::<Vec<_>>(), ["100", "200", "300"]);
        assert!(share("nothing of that name").is_nan());
        // SOSP 2015 counts messages of users and noise together: 1,000,000 users alone in 37 s make
        // fewer.
        let of = |name| paper.find_first("sosp15-f9", name);
        assert!(of("users") / of("latency") < of("throughput"));
        let is_context = |value: &Value| (value.exp == "sosp15-f9") == (value.status == "context");
        assert!(paper.value.iter().all(is_context), "context and nothing else");
        assert!(paper.value.iter().all(|v| !v.place.is_empty() && !v.unit.is_empty()));
    }

    /// E-S7: the text says 10 to 20 us, the table 6 to 12 one way.
    #[test]
    fn lab_5_the_delay_in_the_text_is_that_of_a_round_trip() {
        let paper = load_seka().unwrap();
        let mean = |name| paper.find_row("3", name).unwrap().middle;
        let added = |name| 1e3 * (mean(name) - mean("Reference"));
        let one_way = [added("Encryption (2)"), added("Encryption (1)")];
        assert_eq!(one_way.map(|us| format!("{us:.0}")), ["6", "12"]);
        let text = paper.value.iter().filter(|v| v.exp == "seka-t3").map(|v| v.number);
        assert_eq!(text.collect::<Vec<_>>(), [10.0, 20.0]);
        assert!(one_way[0] < 10.0 && 2.0 * one_way[0] > 10.0 && 2.0 * one_way[1] > 20.0);
        assert_eq!([paper.list_rows("3").len(), paper.list_rows("4").len()], [7, 3]);
        for row in paper.list_rows("3").into_iter().chain(paper.list_rows("4")) {
            assert!(row.min < row.middle && row.middle < row.max && row.sd > 0.0, "{row:?}");
        }
        assert!(paper.value.iter().all(|v| v.status == "printed" && !v.place.is_empty()));
        assert!(paper.find_row("3", "Authentication").is_err());
    }

    #[test]
    fn the_papers_own_runs_by_the_sign_test() {
        let columns = load_signal().unwrap();
        let find = |op: &str, input: &str| {
            columns.iter().find(|c| c.op == op && c.input == input).unwrap().tests
        };
        let test = |a: &str, b: &str, input: &str| sign_test(&find(a, input), &find(b, input));
        // E-G3: eight of ten are not significant; nine and ten are.
        assert_eq!(test("chacha-seal", "cbc-hmac-seal", "text").0, 8);
        assert!((test("chacha-seal", "cbc-hmac-seal", "text").1 - 0.0547).abs() < 1e-4);
        assert_eq!(test("chacha-open", "cbc-hmac-open", "text").0, 9);
        assert!((test("blake2b", "sha512", "key").1 - 0.0107).abs() < 1e-4);
        assert_eq!(test("blake2b", "sha512", "text"), (10, 1.0 / 1024.0));
        assert_eq!(test("blake2b", "sha512", "file").0, 10);
        assert_eq!(test("chacha-seal", "cbc-hmac-seal", "file").0, 10);
        assert_eq!(test("chacha-open", "cbc-hmac-open", "file").0, 10);
    }
}
