//! Runs every scenario with a handful of jobs, so that none rots. What it measures is thrown away.

use crate::{
    broker::{Broker, has_nodes},
    measure::Effort,
    scenarios::{Run, SCENARIOS, Scenario},
    table::{Row, as_json, rendered},
};

const FEW: Effort = Effort { rounds: 1, divisor: 1_000, queues: 5 };

fn run_all(run: impl Fn(&Scenario) -> Option<anyhow::Result<Vec<Row>>>) -> Vec<Row> {
    let mut rows = Vec::new();
    for scenario in &SCENARIOS {
        if let Some(measured) = run(scenario) {
            let name = scenario.known.name;
            let measured = measured.unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert!(!measured.is_empty(), "{name} measures nothing");
            rows.extend(measured);
        }
    }
    rows
}

/// Every row has a number of each round for each side, and can be shown.
fn check(rows: &[Row]) {
    for row in rows {
        for values in
            [Some(&row.queuey), row.beside.as_ref().map(|beside| &beside.values)].into_iter().flatten()
        {
            assert_eq!(values.len(), FEW.rounds, "{row:?}");
            assert!(values.iter().all(|value| value.is_finite()), "{row:?}");
        }
    }
    assert_eq!(rendered(rows).lines().filter(|line| line.starts_with("| ")).count(), rows.len() + 1);
    assert_eq!(as_json(rows).as_array().map(Vec::len), Some(rows.len()));
}

#[test]
fn every_scenario_in_memory_runs() {
    check(&run_all(|scenario| match scenario.run {
        Run::InMemory(run) => Some(run(FEW)),
        Run::OnABroker(_) => None,
    }));
}

#[test]
fn every_scenario_on_a_broker_runs() {
    let Some(_) = queuey_tests::shared_broker() else { return };
    let broker = Broker::set_up().unwrap();
    check(&run_all(|scenario| match scenario.run {
        // It stops a queue of a node of its own.
        Run::OnABroker(_) if scenario.known.name == "stalled-queue" && !has_nodes() => {
            assert!(std::env::var_os("QUEUEY_NODE_REQUIRED").is_none(), "there are no nodes");
            eprintln!("SKIPPED: stalled-queue: this machine runs no node of its own");
            None
        }
        Run::OnABroker(run) => Some(run(FEW, &broker)),
        Run::InMemory(_) => None,
    }));
}
