//! Measures queuey beside what it is built on, interleaved in one run, as ratios.
//!
//! `cargo run --release -p queuey-bench`; the README beside this crate says how to read what it prints.

mod arguments;
mod statistics;
mod table;
mod process;
mod measure;
mod work;
mod message;
mod bare;
mod ours;
mod broker;
mod enqueue;
mod consume;
mod round_trip;
mod retry;
mod stalled;
mod sweeps;
mod start_up;
mod memory;
mod scenarios;
#[cfg(test)]
mod smoke;

use std::process::ExitCode;

use anyhow::{Context, Result};

use arguments::{Arguments, Command, Known, USAGE};
use broker::Broker;
use measure::Effort;
use scenarios::{Run, SCENARIOS};
use table::{Row, as_json, line, rendered};

fn main() -> ExitCode {
    let known: Vec<Known> = SCENARIOS.iter().map(|scenario| scenario.known).collect();
    match arguments::parse(std::env::args().skip(1), &known) {
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
        Ok(Command::Help) => {
            println!("{USAGE}");
            list();
            ExitCode::SUCCESS
        }
        Ok(Command::List) => {
            list();
            ExitCode::SUCCESS
        }
        Ok(Command::Run(arguments)) => measure(&arguments),
    }
}

fn list() {
    for scenario in &SCENARIOS {
        let long = if scenario.known.long { " (long)" } else { "" };
        println!("  {:20} {}{long}", scenario.known.name, scenario.about);
    }
}

fn measure(arguments: &Arguments) -> ExitCode {
    end_on_a_signal();
    let effort =
        Effort { rounds: arguments.rounds, divisor: if arguments.quick { 20 } else { 1 }, queues: u64::MAX };
    // Set up when a scenario needs it, and ended before the table is printed.
    let (mut broker, mut on) = (None, None);
    let (mut rows, mut failed) = (Vec::new(), false);
    for scenario in SCENARIOS.iter().filter(|one| arguments.scenarios.contains(&one.known.name)) {
        eprintln!("{}…", scenario.known.name);
        let measured = match scenario.run {
            Run::InMemory(run) => run(effort),
            Run::OnABroker(run) => with_broker(&mut broker).and_then(|broker| {
                on.get_or_insert_with(|| broker.described());
                run(effort, broker).or_else(|error| broker.clear().and(Err(error)))
            }),
        };
        match measured {
            Ok(measured) => {
                // So that a run that is cut short has not been for nothing.
                measured.iter().for_each(|row| eprintln!("{}", line(row)));
                rows.extend(measured);
            }
            Err(error) => {
                eprintln!("{} failed: {error:#}", scenario.known.name);
                failed = true;
            }
        }
    }
    drop(broker);
    println!("{}", conditions(effort, on.as_deref()));
    print!("{}", rendered(&rows));
    if let Some(file) = &arguments.json
        && let Err(error) = write_json(&rows, file)
    {
        eprintln!("{error:#}");
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn with_broker(broker: &mut Option<Broker>) -> Result<&Broker> {
    match broker {
        Some(broker) => Ok(broker),
        none => Ok(none.insert(
            Broker::set_up().context("no broker: set AMQP_URL, or install rabbitmq-server or docker")?,
        )),
    }
}

/// What the numbers hold for.
fn conditions(effort: Effort, broker: Option<&str>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let broker = broker.map_or(String::new(), |broker| format!("{broker}; "));
    let Effort { rounds, divisor, .. } = effort;
    let quick = if divisor > 1 { ", with few jobs: no figures to quote" } else { "" };
    let built = if cfg!(debug_assertions) { ", NOT optimized: build with --release" } else { "" };
    format!("{broker}{cores} cores; medians of {rounds} rounds, interleaved{quick}{built}\n")
}

fn write_json(rows: &[Row], file: &str) -> Result<()> {
    let json = serde_json::to_vec_pretty(&as_json(rows))?;
    std::fs::write(file, json).with_context(|| format!("`{file}` can't be written"))
}

/// On Ctrl-C and SIGTERM the broker ends, and then the process.
fn end_on_a_signal() {
    std::thread::spawn(|| {
        if let Err(error) = signalled() {
            eprintln!("signals can't be listened to: {error:#}");
            return;
        }
        broker::end_all();
        std::process::exit(130);
    });
}

fn signalled() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminated.recv() => {}
        }
        Ok(())
    })
}
