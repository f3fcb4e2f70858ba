//! What was measured, as one table of ratios.

use std::fmt;

use serde_json::{Value, json};

use crate::statistics::{median, range, ratios, spread};

/// One line of the table: a number per round of queuey, and of what it is compared with.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) unit: Unit,
    pub(crate) queuey: Vec<f64>,
    pub(crate) beside: Option<Beside>,
    pub(crate) bars: Vec<Bar>,
}

/// What queuey is compared with, measured in the same rounds.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    pub(crate) what: &'static str,
    pub(crate) values: Vec<f64>,
    /// Below that it is too weak to compare with.
    pub(crate) floor: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    JobsPerSecond,
    Microseconds,
    Milliseconds,
    Mebibytes,
    /// What something is in terms of what it was.
    Times,
    /// Growth per tenfold, in percent.
    PercentPerTenfold,
}

/// What a row is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    pub(crate) fn new(scenario: impl Into<String>, unit: Unit, queuey: Vec<f64>) -> Self {
        Row { scenario: scenario.into(), unit, queuey, beside: None, bars: Vec::new() }
    }

    pub(crate) fn beside(mut self, what: &'static str, values: Vec<f64>) -> Self {
        self.beside = Some(Beside { what, values, floor: None });
        self
    }

    /// Sets below what the other side is too weak to compare with, on a quiet machine of two cores.
    pub(crate) fn floor(mut self, floor: f64) -> Self {
        self.beside = self.beside.map(|beside| Beside { floor: Some(floor), ..beside });
        self
    }

    pub(crate) fn bar(mut self, bar: Bar) -> Self {
        self.bars.push(bar);
        self
    }

    /// A slope may be zero, so two of them have no ratio.
    fn ratios(&self) -> Option<Vec<f64>> {
        let beside = self.beside.as_ref().filter(|_| self.unit != Unit::PercentPerTenfold)?;
        Some(ratios(&self.queuey, &beside.values))
    }

    fn meets(&self, bar: Bar) -> bool {
        let (value, ratio) = (median(&self.queuey), median(&self.ratios().unwrap_or_default()));
        match bar {
            Bar::RatioAtLeast(least) => ratio >= least,
            Bar::RatioAtMost(most) => ratio <= most,
            Bar::AtLeast(least) => value >= least,
            Bar::AtMost(most) => value <= most,
        }
    }

    /// Why this row says less than it seems to.
    fn doubt(&self) -> Option<String> {
        let beside = self.beside.as_ref()?;
        let (floor, value) = (beside.floor?, median(&beside.values));
        (value < floor).then(|| {
            format!(
                "{}: {} made {} {}, less than the {} of a quiet machine with two cores: too weak to compare with",
                self.scenario,
                beside.what,
                grouped(value),
                self.unit,
                grouped(floor)
            )
        })
    }
}

/// The table as Markdown, and after it the doubts there are about its rows.
pub(crate) fn rendered(rows: &[Row]) -> String {
    let mut lines = vec![
        "| scenario | ratio (range) | bar | queuey (spread) | beside | it makes (spread) |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(rows.iter().map(line));
    let doubts: Vec<_> = rows.iter().filter_map(Row::doubt).collect();
    if !doubts.is_empty() {
        lines.push(String::new());
        lines.extend(doubts.into_iter().map(|doubt| format!("WARNING: {doubt}")));
    }
    lines.join("\n") + "\n"
}

/// All rows with all rounds, for programs.
pub(crate) fn as_json(rows: &[Row]) -> Value {
    let side =
        |values: &[f64]| json!({ "rounds": values, "median": median(values), "spread": spread(values) });
    let rows = rows.iter().map(|row| {
        json!({
            "scenario": row.scenario,
            "unit": row.unit.to_string(),
            "ratio": row.ratios().map(|ratios| side(&ratios)),
            "bars": row.bars.iter().map(|bar| json!({
                "bar": bar.shown(row.unit), "met": row.meets(*bar),
            })).collect::<Vec<_>>(),
            "queuey": side(&row.queuey),
            "beside": row.beside.as_ref().map(|beside| {
                let mut side = side(&beside.values);
                side["what"] = json!(beside.what);
                side
            }),
            "doubt": row.doubt(),
        })
    });
    Value::Array(rows.collect())
}

/// A row as a line of the table.
pub(crate) fn line(row: &Row) -> String {
    let number = |values: &[f64]| match row.unit {
        // A slope is about zero, and so its spread is no share of it.
        Unit::PercentPerTenfold => {
            let (lowest, highest) = range(values);
            format!("{:+.1} {} ({lowest:+.1} to {highest:+.1})", median(values), row.unit)
        }
        unit => format!("{} {unit} ({:.0} %)", grouped(median(values)), spread(values) * 100.0),
    };
    let ratio = row.ratios().map_or_else(String::new, |ratios| {
        let (lowest, highest) = range(&ratios);
        format!("**{:.2}** ({lowest:.2} to {highest:.2})", median(&ratios))
    });
    let bars = row.bars.iter().map(|bar| {
        let met = if row.meets(*bar) { "met" } else { "missed" };
        format!("{} {met}", bar.shown(row.unit))
    });
    let bars = bars.collect::<Vec<_>>().join(", ");
    let (what, beside) =
        row.beside.as_ref().map_or(("", String::new()), |beside| (beside.what, number(&beside.values)));
    format!("| {} | {ratio} | {bars} | {} | {what} | {beside} |", row.scenario, number(&row.queuey))
}

impl Bar {
    fn shown(self, unit: Unit) -> String {
        match self {
            Bar::RatioAtLeast(least) => format!("≥ {least:.2}"),
            Bar::RatioAtMost(most) => format!("≤ {most:.2}"),
            Bar::AtLeast(least) => format!("≥ {} {unit}", grouped(least)),
            Bar::AtMost(most) => format!("≤ {} {unit}", grouped(most)),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::JobsPerSecond => "jobs/s",
            Unit::Microseconds => "µs",
            Unit::Milliseconds => "ms",
            Unit::Mebibytes => "MiB",
            Unit::Times => "×",
            Unit::PercentPerTenfold => "% per tenfold",
        })
    }
}

/// A number with three significant digits at least, and its thousands apart.
fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() < 100.0 {
        return format!("{value:.*}", if value.abs() < 10.0 { 2 } else { 1 });
    }
    let digits = format!("{:.0}", value.abs());
    let mut shown = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enqueue() -> Row {
        Row::new("enqueue, 64 tasks", Unit::JobsPerSecond, vec![9_000.0, 11_000.0, 10_000.0])
            .beside("lapin", vec![10_000.0, 10_000.0, 12_500.0])
            .floor(9_000.0)
            .bar(Bar::RatioAtLeast(0.9))
    }

    #[test]
    fn a_line_has_the_ratio_first_and_the_numbers_beside() {
        assert_eq!(
            line(&enqueue()),
            "| enqueue, 64 tasks | **0.90** (0.80 to 1.10) | ≥ 0.90 met | 10,000 jobs/s (20 %) | lapin | 10,000 jobs/s (25 %) |"
        );
        let alone = Row::new("start-up", Unit::Milliseconds, vec![41.25]).bar(Bar::AtMost(40.0));
        assert_eq!(line(&alone), "| start-up |  | ≤ 40.0 ms missed | 41.2 ms (0 %) |  |  |");
        let slope = Row::new("slope", Unit::PercentPerTenfold, vec![-1.0, 2.0, 0.5]);
        assert_eq!(line(&slope), "| slope |  |  | +0.5 % per tenfold (-1.0 to +2.0) |  |  |");
    }

    #[test]
    fn a_bar_is_met_or_missed_by_the_median() {
        for (bar, met) in [
            (Bar::RatioAtLeast(0.90), true),
            (Bar::RatioAtLeast(0.91), false),
            (Bar::RatioAtMost(0.90), true),
            (Bar::RatioAtMost(0.89), false),
            (Bar::AtLeast(10_000.0), true),
            (Bar::AtLeast(10_001.0), false),
            (Bar::AtMost(10_000.0), true),
            (Bar::AtMost(9_999.0), false),
        ] {
            assert_eq!(enqueue().meets(bar), met, "{bar:?}");
        }
        // Nothing measured is nothing met.
        assert!(!Row::new("empty", Unit::Milliseconds, Vec::new()).meets(Bar::AtMost(1.0)));
    }

    #[test]
    fn a_weak_other_side_is_doubted_aloud() {
        assert_eq!(enqueue().doubt(), None);
        let weak = enqueue().floor(10_001.0);
        let table = rendered(std::slice::from_ref(&weak));
        let warning = table.lines().last().unwrap();
        assert!(
            warning.starts_with("WARNING: enqueue, 64 tasks: lapin made 10,000 jobs/s, less than the 10,001")
        );
        assert!(as_json(&[weak])[0]["doubt"].is_string());
        assert!(!rendered(&[enqueue()]).contains("WARNING"));
    }

    #[test]
    fn the_json_has_every_round() {
        let json = as_json(&[enqueue()]);
        assert_eq!(json[0]["queuey"]["rounds"], json!([9_000.0, 11_000.0, 10_000.0]));
        assert_eq!(json[0]["ratio"]["rounds"], json!([0.9, 1.1, 0.8]));
        assert_eq!(json[0]["ratio"]["median"], json!(0.9));
        assert_eq!(json[0]["beside"]["what"], json!("lapin"));
        assert_eq!(json[0]["bars"][0], json!({ "bar": "≥ 0.90", "met": true }));
    }

    #[test]
    fn thousands_are_grouped_and_small_numbers_keep_their_digits() {
        for (value, expected) in [
            (1_234_567.4, "1,234,567"),
            (12_345.0, "12,345"),
            (999.6, "1,000"),
            (100.0, "100"),
            (52.34, "52.3"),
            (3.456, "3.46"),
            (0.0, "0.00"),
            (-1_500.0, "-1,500"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(grouped(value), expected, "{value}");
        }
    }
}
