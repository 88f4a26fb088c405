//! The figures, with their spread and their targets: one table for people, one JSON file for programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::{Serialize, Serializer};

use super::machine::Machine;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

/// One thing that was measured, once or several times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// What was measured.
    what: String,
    unit: &'static str,
    /// At least one value, smallest first.
    values: Vec<f64>,
    target: Option<Target>,
    /// What Azure Service Operator was measured at, on another day and in another run.
    aso: Option<&'static str>,
}

impl Figure {
    /// A figure of these measurements.
    pub(super) fn new(what: impl Into<String>, unit: &'static str, values: impl Into<Vec<f64>>) -> Self {
        let mut values = values.into();
        values.sort_by(f64::total_cmp);
        Self { what: what.into(), unit, values, target: None, aso: None }
    }

    /// It should be this or less.
    pub(super) fn at_most(self, most: f64) -> Self {
        Self { target: Some(Target::AtMost(most)), ..self }
    }

    /// It should be this or more.
    pub(super) fn at_least(self, least: f64) -> Self {
        Self { target: Some(Target::AtLeast(least)), ..self }
    }

    /// What Azure Service Operator was measured at.
    pub(super) fn aso(self, aso: &'static str) -> Self {
        Self { aso: Some(aso), ..self }
    }

    fn minimum(&self) -> f64 {
        self.values.first().copied().unwrap_or(f64::NAN)
    }

    fn maximum(&self) -> f64 {
        self.values.last().copied().unwrap_or(f64::NAN)
    }

    fn median(&self) -> f64 {
        let count = self.values.len();
        let at = |index: usize| self.values.get(index).copied().unwrap_or(f64::NAN);
        if count % 2 == 1 { at(count / 2) } else { f64::midpoint(at((count / 2).wrapping_sub(1)), at(count / 2)) }
    }

    /// The median against the target, in words.
    fn verdict(&self) -> String {
        let median = self.median();
        let (met, by) = match self.target {
            None => return String::new(),
            Some(Target::AtMost(most)) => (median <= most, median / most),
            Some(Target::AtLeast(least)) => (median >= least, median / least),
        };
        if met { format!("met ({by:.2} of it)") } else { format!("missed ({by:.2} of it)") }
    }

    fn row(&self) -> [String; 7] {
        let spread = if self.values.len() > 1 {
            format!("{} … {}", number(self.minimum()), number(self.maximum()))
        } else {
            String::new()
        };
        let target = match self.target {
            None => String::new(),
            Some(Target::AtMost(most)) => format!("≤ {}", number(most)),
            Some(Target::AtLeast(least)) => format!("≥ {}", number(least)),
        };
        [
            self.what.clone(),
            number(self.median()),
            self.unit.to_owned(),
            spread,
            target,
            self.verdict(),
            self.aso.unwrap_or_default().to_owned(),
        ]
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct View<'a> {
            what: &'a str,
            unit: &'a str,
            min: f64,
            median: f64,
            max: f64,
            values: &'a [f64],
            target: Option<Target>,
            aso: Option<&'a str>,
        }
        let view = View {
            what: &self.what,
            unit: self.unit,
            min: self.minimum(),
            median: self.median(),
            max: self.maximum(),
            values: &self.values,
            target: self.target,
            aso: self.aso,
        };
        view.serialize(serializer)
    }
}

/// All figures of one run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    short: bool,
    figures: Vec<Figure>,
}

impl Report {
    /// An empty one for this machine.
    pub(super) fn new(machine: Machine, short: bool) -> Self {
        Self { machine, short, figures: Vec::new() }
    }

    /// Adds figures.
    pub(super) fn extend(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.figures.extend(figures);
    }

    /// The table, in Markdown.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header(["what", "median", "unit", "min … max", "target", "result", "ASO"]);
        for figure in &self.figures {
            table.add_row(figure.row());
        }
        format!("{}\n\n{table}", self.machine)
    }

    /// Writes it as JSON, under the commit's name; returns where.
    pub(super) fn write(&self, directory: &Path) -> Result<PathBuf> {
        let form = if self.short { "short-" } else { "" };
        let path = directory.join(format!("{form}{}.json", self.machine.commit()));
        let text = serde_json::to_string_pretty(self).context("failed to write the figures as JSON")?;
        fs::create_dir_all(directory).with_context(|| format!("failed to make {}", directory.display()))?;
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
        Ok(path)
    }
}

/// Three digits that count, and no more.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_held_against_the_target() {
        let figure = |values: &[f64]| Figure::new("CPU", "ms", values).at_most(3.0);
        assert_eq!(figure(&[9.0, 1.0, 2.0]).verdict(), "met (0.67 of it)");
        assert_eq!(figure(&[1.0, 6.0]).verdict(), "missed (1.17 of it)");
        assert_eq!(Figure::new("calls", "", [4.0]).at_least(2.0).verdict(), "met (2.00 of it)");
        assert_eq!(Figure::new("calls", "", [4.0]).verdict(), "");
    }

    #[test]
    fn a_single_value_has_no_spread() {
        assert_eq!(Figure::new("a", "s", [0.5]).row()[3], "");
        assert_eq!(Figure::new("a", "s", [123.4, 0.5]).row()[3], "0.50 … 123");
    }
}
