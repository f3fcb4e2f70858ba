//! What was measured, as one table of ratios.

use serde::Serialize;

/// One line of the table: jobs per second of queuey and of what it is compared with, a number per round.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) queuey: Vec<f64>,
    pub(crate) compared_with: &'static str,
    pub(crate) other: Vec<f64>,
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn median(values: &[f64]) -> f64 {
    sorted(values).get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// From the lowest to the highest value, as a share of the median.
fn spread(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match (sorted.first(), sorted.last()) {
        (Some(lowest), Some(highest)) => (highest - lowest) / median(values),
        _ => f64::NAN,
    }
}

pub(crate) fn print(rows: &[Row]) {
    println!("| scenario | ratio | queuey, jobs/s (spread) | compared with | its jobs/s (spread) |");
    println!("|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {:.2} | {:.0} ({:.0} %) | {} | {:.0} ({:.0} %) |",
            row.scenario,
            median(&row.queuey) / median(&row.other),
            median(&row.queuey),
            spread(&row.queuey) * 100.0,
            row.compared_with,
            median(&row.other),
            spread(&row.other) * 100.0,
        );
    }
}

pub(crate) fn write_json(rows: &[Row], file: &str) -> std::io::Result<()> {
    std::fs::write(file, serde_json::to_vec_pretty(rows)?)
}
