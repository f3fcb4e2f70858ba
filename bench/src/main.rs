//! Measures queuey beside what it is built on, interleaved in one run, as ratios.
//!
//! `cargo run --release -p queuey-bench -- [SCENARIO…] [--rounds N] [--json FILE]`; without a scenario it runs them all.

mod memory;
mod table;

use std::process::ExitCode;

use table::{Row, print, write_json};

/// Runs a scenario for a number of rounds.
type Run = fn(usize) -> Vec<Row>;

const SCENARIOS: [(&str, Run); 2] =
    [("memory", memory::beside_bare_tokio), ("memory-backlog", memory::over_backlogs)];

struct Arguments {
    scenarios: Vec<String>,
    rounds: usize,
    json: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { scenarios: Vec::new(), rounds: 5, json: None };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--rounds" => {
                let rounds = rest.next().and_then(|rounds| rounds.parse().ok());
                parsed.rounds =
                    rounds.filter(|rounds| *rounds > 0).ok_or("--rounds takes a number above zero")?;
            }
            "--json" => parsed.json = Some(rest.next().ok_or("--json takes a file")?),
            name if SCENARIOS.iter().any(|(scenario, _)| *scenario == name) => {
                parsed.scenarios.push(argument);
            }
            other => {
                let known = SCENARIOS.map(|(name, _)| name).join(", ");
                return Err(format!("unknown argument `{other}`: the scenarios are {known}"));
            }
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let chosen =
        |name: &str| arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|one| one == name);
    let mut rows = Vec::new();
    for (name, run) in SCENARIOS.into_iter().filter(|(name, _)| chosen(name)) {
        eprintln!("{name}…");
        rows.extend(run(arguments.rounds));
    }
    print(&rows);
    match arguments.json.map(|file| write_json(&rows, &file)) {
        Some(Err(error)) => {
            eprintln!("the JSON can't be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
