//! What a job costs when there is more of something: hold queues, handlers, queues, jobs that wait.

use crate::{
    measure::{AtEach, Measured, each},
    statistics::slope_per_tenfold,
    table::{Bar, Row, Unit},
};

pub(crate) mod backlog;
pub(crate) mod flow;
pub(crate) mod handlers;
pub(crate) mod holds;
pub(crate) mod queues;

/// What was measured at each point.
pub(crate) struct Sweep<'a> {
    /// What is swept over, in the plural.
    pub(crate) over: &'static str,
    /// Ascending.
    pub(crate) points: &'a [u64],
    /// By how much a job may cost more at the last point than at the first.
    pub(crate) most: f64,
    /// A row for every point, for each point a cost per round.
    pub(crate) queuey: Vec<Vec<f64>>,
    /// The same of bare lapin, where that is measured: it shows what the broker itself takes.
    pub(crate) lapin: Option<Vec<Vec<f64>>>,
}

impl<'a> Sweep<'a> {
    /// A sweep beside bare lapin.
    pub(crate) fn beside_lapin(
        over: &'static str,
        points: &'a [u64],
        most: f64,
        measured: &AtEach<Measured>,
    ) -> Self {
        let costs =
            |side: &[Vec<Measured>]| side.iter().map(|rounds| each(rounds, |round| round.micros())).collect();
        Sweep { over, points, most, queuey: costs(&measured.queuey), lapin: Some(costs(&measured.other)) }
    }

    /// A row for each point, the growth from the first to the last, and the slope.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Sweep { over, points, .. } = self;
        let mut rows: Vec<_> = points.iter().enumerate().map(|(at, point)| self.at(at, *point)).collect();
        let (first, last) = (points.first().unwrap_or(&1), points.last().unwrap_or(&1));
        let range = format!("over {over}, {first} to {last}");
        rows.push(self.row(format!("growth {range}"), Unit::Times, &growths).bar(Bar::AtMost(self.most)));
        rows.push(
            self.row(format!("slope {range}"), Unit::PercentPerTenfold, &|costs| slopes(points, costs)),
        );
        rows
    }

    fn at(&self, at: usize, point: u64) -> Row {
        self.row(format!("cost per job, {}: {point}", self.over), Unit::Microseconds, &|costs| {
            costs.get(at).cloned().unwrap_or_default()
        })
    }

    fn row(&self, what: String, unit: Unit, of: &dyn Fn(&[Vec<f64>]) -> Vec<f64>) -> Row {
        let row = Row::new(what, unit, of(&self.queuey));
        match &self.lapin {
            Some(lapin) => row.beside("lapin", of(lapin)),
            None => row,
        }
    }
}

/// Of each round, what the last point costs in terms of the first.
fn growths(costs: &[Vec<f64>]) -> Vec<f64> {
    match (costs.first(), costs.last()) {
        (Some(first), Some(last)) => first.iter().zip(last).map(|(first, last)| last / first).collect(),
        _ => Vec::new(),
    }
}

/// Of each round, the growth per tenfold, in percent.
fn slopes(points: &[u64], costs: &[Vec<f64>]) -> Vec<f64> {
    let rounds = costs.first().map_or(0, Vec::len);
    let slope = |round: usize| {
        let costs: Vec<_> = points.iter().zip(costs).map(|(point, costs)| (*point, costs[round])).collect();
        slope_per_tenfold(&costs) * 100.0
    };
    (0..rounds).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_slope_are_those_of_each_round() {
        let sweep = Sweep {
            over: "queues",
            points: &[1, 10, 100],
            most: 1.1,
            // The machine is half as fast in the second round.
            queuey: vec![vec![10.0, 20.0], vec![11.0, 22.0], vec![12.0, 24.0]],
            lapin: None,
        };
        let rows = sweep.rows();
        let scenarios: Vec<_> = rows.iter().map(|row| row.scenario.as_str()).collect();
        assert_eq!(
            scenarios,
            [
                "cost per job, queues: 1",
                "cost per job, queues: 10",
                "cost per job, queues: 100",
                "growth over queues, 1 to 100",
                "slope over queues, 1 to 100",
            ]
        );
        assert_eq!(rows[1].queuey, [11.0, 22.0]);
        assert_eq!((&rows[3].queuey[..], &rows[3].bars[..]), (&[1.2, 1.2][..], &[Bar::AtMost(1.1)][..]));
        assert!(rows[4].queuey.iter().all(|slope| (slope - 10.0).abs() < 1e-9));
    }
}
