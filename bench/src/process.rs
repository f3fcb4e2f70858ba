//! What this process takes from the machine, as Linux counts it: the client's share alone, for the broker is another process.

use std::{fs, time::Duration};

/// What a tick of `/proc/self/stat` lasts: a hundredth of a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The time that all threads of this process have spent on a core, ended ones included. `None` where that can't be told.
pub(crate) fn cpu_time() -> Option<Duration> {
    ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| TICK * ticks)
}

/// The memory of this process that is in RAM, in MiB. `None` where that can't be told.
pub(crate) fn resident_mebibytes() -> Option<f64> {
    resident_kibibytes(&fs::read_to_string("/proc/self/status").ok()?).map(|kibibytes| kibibytes / 1024.0)
}

/// User and system time, the fields 14 and 15. The second field is the program's name in parentheses, which may hold anything.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u32>().ok();
    Some(field()? + field()?)
}

fn resident_kibibytes(status: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_summed_whatever_the_name_of_the_program() {
        let stat = "7 (a) b ) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 1 2 20 0 3 0 100 1000 200";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn resident_memory_is_found_among_the_rest() {
        assert_eq!(
            resident_kibibytes("VmPeak:\t 900 kB\nVmRSS:\t  2048 kB\nRssAnon:\t 1 kB\n"),
            Some(2048.0)
        );
        assert_eq!(resident_kibibytes("VmPeak:\t 900 kB\n"), None);
    }
}
