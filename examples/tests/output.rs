//! Every example runs to its end and says what its comments promise. On the memory backend, for the output is exact.

use std::{path::PathBuf, process::Command};

/// Runs an example and gives the lines of its standard output.
fn run(example: &str) -> Vec<String> {
    let mut path: PathBuf = std::env::current_exe().expect("a test has a path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(example);
    let output = Command::new(&path)
        .env_remove("AMQP_URL")
        .output()
        .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("examples print text").lines().map(str::to_owned).collect()
}

/// Checks the lines without their order, which is not the example's to promise.
fn assert_lines(mut found: Vec<String>, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn position(lines: &[String], line: &str) -> usize {
    lines.iter().position(|found| found == line).unwrap_or_else(|| panic!("no line {line:?} in {lines:#?}"))
}

#[test]
fn quickstart_adds_up() {
    let lines = run("quickstart");
    assert_eq!(lines.last().unwrap(), "done: enqueued=7 succeeded=5 retried=2 deferred=1 discarded=1 dead=1");
}

#[test]
fn delayed_runs_in_the_order_of_the_delays() {
    let lines: Vec<String> =
        run("delayed").iter().map(|line| line.replace(" (due 1 s ago)", " (due 0 s ago)")).collect();
    assert_eq!(
        lines,
        [
            "refused: delay of 30d is longer than a hold queue can wait (24d 20h 31m); it was refused rather than released early",
            "first: now (due 0 s ago)",
            "second: at a time (due 0 s ago)",
            "third: in two seconds (due 0 s ago)",
        ]
    );
}

#[test]
fn retries_runs_each_job_as_often_as_its_policy_says() {
    assert_lines(
        run("retries"),
        &[
            "charge order 1: attempt 1 of 3",
            "charge order 1: attempt 2 of 3",
            "charge order 1: attempt 3 of 3",
            "ship order 2: attempt 1 of 2",
            "ship order 2: attempt 2 of 2",
            "given up: max attempts (2) exhausted after attempt 2: carrier is closed",
            "retried 3 times",
        ],
    );
}

#[test]
fn deferral_comes_back_ahead_of_the_backlog() {
    let lines = run("deferral");
    let second_run = position(&lines, "/busy: attempt 1, deferred 1 times");
    assert!(second_run < position(&lines, "/6: attempt 1, deferred 0 times"), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("/closed: attempt 1")).count(), 4);
    position(&lines, "given up: max deferrals (3) exhausted: 429 too many requests");
    assert_eq!(lines.last().unwrap(), "deferred 4 times");
}

#[test]
fn dead_letters_are_told_with_cause_and_reason() {
    assert_lines(
        run("dead_letters"),
        &[
            "fatal: card was stolen",
            "exhausted: max attempts (1) exhausted after attempt 1: panicked: order 2 is corrupt",
            "no-handler: no handler for job `orders.refund` in this worker",
            r#"succeeded: 1, dead: {"exhausted": 1, "fatal": 1, "no-handler": 1}"#,
        ],
    );
}

#[test]
fn shutdown_finishes_returns_and_aborts() {
    let lines = run("shutdown");
    assert_eq!(lines.last().unwrap(), "finished: 2, returned: 1, aborted: 1");
    assert!(!lines.contains(&"waiting begins".to_owned()) && !lines.contains(&"endless ends".to_owned()));
}

#[test]
fn handlers_register_themselves_and_share_state() {
    assert_eq!(
        run("handlers"),
        [
            "charge 20, attempt 1 of 2",
            "charge 22, attempt 1 of 2",
            "charge a lot, attempt 1 of 2",
            "given up: reading the amount: invalid digit found in string",
            "ship order 1",
            "in the till: 42",
        ]
    );
}

#[test]
fn middleware_counts_every_result() {
    assert_eq!(run("middleware"), ["task ok: 2", "task panic: 2", "task timeout: 2"]);
}
