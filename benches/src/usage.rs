//! What a process has used: processor time to the nanosecond, and memory.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The processor time of a process at one moment.
pub(crate) struct Processor {
    /// Nanoseconds of each thread that is there.
    threads: BTreeMap<u32, u64>,
    /// The same for the whole process, in hundredths of a second, dead threads included.
    ticks: u64,
}

/// The memory of a process at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

const TICK: Duration = Duration::from_millis(10);

impl Processor {
    pub(crate) fn of(process: u32) -> Result<Self> {
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let entry = entry?;
            // A thread may end between being listed and being read.
            if let (Some(thread), Ok(text)) = (
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse().ok()),
                fs::read_to_string(entry.path().join("schedstat")),
            ) {
                threads.insert(thread, run_time(&text)?);
            }
        }
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        Ok(Self {
            threads,
            ticks: ticks(&stat)?,
        })
    }

    /// What was used since an earlier moment. A thread that has ended in between took its own
    /// account with it; then the coarser one of the whole process counts.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        if earlier
            .threads
            .keys()
            .any(|thread| !self.threads.contains_key(thread))
        {
            let ticks = self.ticks.saturating_sub(earlier.ticks);
            return TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
        }
        let used = self.threads.iter().map(|(thread, now)| {
            let before = earlier.threads.get(thread).copied().unwrap_or(0);
            now.saturating_sub(before)
        });
        Duration::from_nanos(used.sum())
    }
}

impl Memory {
    pub(crate) fn of(process: u32) -> Result<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/status"))?)
    }

    fn parse(status: &str) -> Result<Self> {
        let kilobytes = |key: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
            let number = number.and_then(|number| number.trim().parse::<u64>().ok());
            Ok(number.with_context(|| format!("no {key} in the status of a process"))? * 1024)
        };
        Ok(Self {
            resident: kilobytes("VmRSS:")?,
            peak: kilobytes("VmHWM:")?,
        })
    }
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn run_time(schedstat: &str) -> Result<u64> {
    let first = schedstat.split_ascii_whitespace().next();
    first
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("`{schedstat}` is no schedstat"))
}

/// User and system time of `stat`, whose second field may hold anything between parentheses.
fn ticks(stat: &str) -> Result<u64> {
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    let field =
        |at: usize| -> Option<u64> { after_name?.split_ascii_whitespace().nth(at)?.parse().ok() };
    let both = field(11).zip(field(12)).map(|(user, system)| user + system);
    both.with_context(|| format!("`{stat}` is no stat"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(threads: &[(u32, u64)], ticks: u64) -> Processor {
        Processor {
            threads: threads.iter().copied().collect(),
            ticks,
        }
    }

    #[test]
    fn threads_are_added_up_and_new_ones_count_whole() {
        let used = at(&[(1, 150), (2, 30)], 9).since(&at(&[(1, 100)], 7));
        assert_eq!(used, Duration::from_nanos(80));
    }

    #[test]
    fn a_thread_that_ended_is_counted_in_ticks() {
        let used = at(&[(1, 150)], 9).since(&at(&[(1, 100), (2, 5)], 7));
        assert_eq!(used, Duration::from_millis(20));
    }

    #[test]
    fn the_files_of_the_kernel_are_read() {
        assert_eq!(run_time("43926160 128766182 119\n").unwrap(), 43_926_160);
        assert!(run_time("").is_err());
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 1 2 3 4 250 50 0 0 20 0 3 0 1 2";
        assert_eq!(ticks(stat).unwrap(), 300);
        assert!(ticks("7 (a) S").is_err());
        let memory = Memory::parse("Name:\ta\nVmHWM:\t    20 kB\nVmRSS:\t    12 kB\n").unwrap();
        assert_eq!(
            memory,
            Memory {
                resident: 12 * 1024,
                peak: 20 * 1024
            }
        );
        assert!(Memory::parse("VmRSS: 1 kB\n").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_something() {
        let process = std::process::id();
        let before = Processor::of(process).unwrap();
        let memory = Memory::of(process).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        assert!(Processor::of(process).unwrap().ticks >= before.ticks);
    }
}
