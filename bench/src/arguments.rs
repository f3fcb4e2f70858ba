//! What the command line asks for.

/// The words that `--help` prints, before the list of scenarios.
pub(crate) const USAGE: &str = "\
Measures queuey beside what it is built on, interleaved in one run, and prints one table of ratios.

usage: queuey-bench [SCENARIO…] [--all] [--rounds N] [--quick] [--json FILE]

  SCENARIO      by name, or the beginning of several names up to a dash (sweep); without one, all that are not long
  --all         the long ones too
  --rounds N    how many rounds are counted, 5 by default; one more before them warms up
  --quick       a twentieth of the jobs: to see that it runs, not how fast
  --json FILE   every round, for programs
  --list        the names of the scenarios
  --help        this

The broker is that of AMQP_URL; without it, a private node that ends with the run.
";

/// A scenario as the command line knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// Takes minutes, and runs only when asked for.
    pub(crate) long: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    List,
    Run(Arguments),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Arguments {
    /// In the order in which they are known, each once.
    pub(crate) scenarios: Vec<&'static str>,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) json: Option<String>,
}

/// Reads the arguments.
///
/// # Errors
///
/// What is wrong with them, for the one who wrote them.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>, known: &[Known]) -> Result<Command, String> {
    let mut parsed = Arguments { scenarios: Vec::new(), rounds: 5, quick: false, json: None };
    let (mut asked, mut all) = (Vec::new(), false);
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--list" => return Ok(Command::List),
            "--all" => all = true,
            "--quick" => parsed.quick = true,
            "--rounds" => {
                let rounds = rest.next().and_then(|rounds| rounds.parse().ok());
                parsed.rounds =
                    rounds.filter(|rounds| *rounds > 0).ok_or("--rounds takes a number above zero")?;
            }
            "--json" => parsed.json = Some(rest.next().ok_or("--json takes a file")?),
            flag if flag.starts_with('-') => return Err(format!("unknown option `{flag}`: see --help")),
            name => asked.extend(named(name, known)?),
        }
    }
    let wanted = |one: &&Known| match asked.is_empty() {
        true => all || !one.long,
        false => all || asked.contains(&one.name),
    };
    parsed.scenarios = known.iter().filter(wanted).map(|one| one.name).collect();
    Ok(Command::Run(parsed))
}

/// The scenario of this name, or else all whose names begin with it and a dash.
fn named(name: &str, known: &[Known]) -> Result<Vec<&'static str>, String> {
    let begins = |one: &&Known| {
        one.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let found: Vec<_> = match known.iter().find(|one| one.name == name) {
        Some(exact) => vec![exact.name],
        None => known.iter().filter(begins).map(|one| one.name).collect(),
    };
    if found.is_empty() {
        let names: Vec<_> = known.iter().map(|one| one.name).collect();
        return Err(format!("unknown scenario `{name}`: there are {}", names.join(", ")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known; 4] = [
        Known { name: "enqueue-1", long: false },
        Known { name: "enqueue-64", long: false },
        Known { name: "memory", long: false },
        Known { name: "memory-endurance", long: true },
    ];

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned), &KNOWN)
    }

    fn scenarios(line: &str) -> Vec<&'static str> {
        let Ok(Command::Run(arguments)) = parsed(line) else { panic!("{line}") };
        arguments.scenarios
    }

    #[test]
    fn scenarios_are_picked_by_name_or_by_the_beginning_of_names() {
        for (line, expected) in [
            ("", &["enqueue-1", "enqueue-64", "memory"][..]),
            ("--all", &["enqueue-1", "enqueue-64", "memory", "memory-endurance"]),
            ("enqueue", &["enqueue-1", "enqueue-64"]),
            ("memory", &["memory"]),
            ("memory-endurance enqueue-1 enqueue-1", &["enqueue-1", "memory-endurance"]),
        ] {
            assert_eq!(scenarios(line), expected, "{line}");
        }
    }

    #[test]
    fn options_are_read_wherever_they_stand() {
        let expected = Arguments {
            scenarios: vec!["memory"],
            rounds: 7,
            quick: true,
            json: Some("out.json".to_owned()),
        };
        assert_eq!(parsed("--rounds 7 memory --quick --json out.json"), Ok(Command::Run(expected)));
        assert_eq!(parsed("memory --help"), Ok(Command::Help));
        assert_eq!(parsed("--list"), Ok(Command::List));
    }

    #[test]
    fn mistakes_are_told() {
        for (line, expected) in [
            ("--rounds", "--rounds takes a number above zero"),
            ("--rounds 0", "--rounds takes a number above zero"),
            ("--rounds few", "--rounds takes a number above zero"),
            ("--json", "--json takes a file"),
            ("--fast", "unknown option `--fast`: see --help"),
            ("enq", "unknown scenario `enq`: there are enqueue-1, enqueue-64, memory, memory-endurance"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }
}
