//! Releases the pages of the program that a process no longer uses.
//!
//! A process runs much of its code once, while it starts. The kernel maps each page of the program's file that runs, and 15 pages
//! around it, and keeps them mapped as long as there is free memory. [`ProgramPages::release`] takes them out of the process.
//! The kernel then counts them as free file cache. A page that the process needs again is mapped from this cache.

use std::fs;
use std::io;
use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// The parts of this process's memory that show the program's file and cannot be written.
#[derive(Debug)]
pub struct ProgramPages {
    parts: Vec<Range<usize>>,
}

impl ProgramPages {
    /// Finds the parts in `/proc/self/smaps` (proc_pid_smaps(5)).
    ///
    /// # Errors
    /// /proc is not mounted or not readable.
    pub fn of_this_process() -> io::Result<Self> {
        let program = fs::read_link("/proc/self/exe")?;
        let maps = fs::read_to_string("/proc/self/smaps")?;
        Ok(ProgramPages { parts: parts_of(&maps, &program.to_string_lossy()) })
    }

    /// Takes all pages out of the process's memory. The process continues as before: each page that it uses is mapped again.
    ///
    /// # Errors
    /// The kernel does not release them, for example because the process has locked its memory.
    pub fn release(&self) -> io::Result<()> {
        for part in &self.parts {
            #[allow(unsafe_code, reason = "no safe interface of Linux takes pages out of the own process")]
            // SAFETY: the part is a mapping of the program's file that is not writable and had no private page when it was found, so
            // it has none now. Linux maps the same bytes again when one of its pages is used (madvise(2), MADV_DONTNEED). The
            // file cannot change, because Linux refuses to write to a program that runs.
            unsafe {
                madvise(part.start as *mut _, part.len(), Advice::LinuxDontNeed)?;
            }
        }
        Ok(())
    }
}

/// The pages of files that this process has in memory, bytes: `RssFile` of proc_pid_status(5).
///
/// # Errors
/// /proc is not mounted or not readable.
pub fn resident_file_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kibibytes = kibibytes
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/status has no RssFile"))?;
    Ok(kibibytes << 10)
}

/// The mappings in `smaps` of the file `program` that are not writable and have no page of their own. The one with the relocated
/// addresses of the program has such pages: they are not in the file and must stay.
fn parts_of(smaps: &str, program: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        if let Some((range, permissions, file)) = header(line) {
            candidate = (file == program && !permissions.contains('w')).then_some(range);
        } else if let Some(own) = line.strip_prefix("Anonymous:") {
            parts.extend(candidate.take().filter(|_| own.trim() == "0 kB"));
        }
    }
    parts
}

/// The range, the permissions and the file of a line that starts a mapping: `START-END rwxp OFFSET DEVICE INODE  FILE`.
fn header(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (permissions, rest) = rest.split_once(' ')?;
    let file = rest.splitn(4, ' ').nth(3).unwrap_or_default().trim_start();
    Some((range, permissions, file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SMAPS: &str = "\
1000-3000 r--p 00000000 08:01 7                          /bin/an orlop
Rss:                   8 kB
Anonymous:             0 kB
3000-9000 r-xp 00002000 08:01 7                          /bin/an orlop
Anonymous:             0 kB
9000-a000 r--p 00008000 08:01 7                          /bin/an orlop
Anonymous:             4 kB
a000-b000 rw-p 00009000 08:01 7                          /bin/an orlop
Anonymous:             0 kB
b000-c000 rw-p 00000000 00:00 0
Anonymous:             0 kB
c000-d000 r-xp 00000000 08:01 9                          /lib/libc.so.6
Anonymous:             0 kB
";

    #[test]
    fn only_unchanged_parts_of_the_program_are_found() {
        assert_eq!(parts_of(SMAPS, "/bin/an orlop"), [0x1000..0x3000, 0x3000..0x9000]);
        assert_eq!(parts_of("Anonymous: 0 kB\n", ""), []);
        assert_eq!(parts_of("", "/bin/orlop"), []);
    }

    /// Its address is in the program's file, and so is its text.
    static TEXT: &str = "a text in the program";

    #[test]
    fn released_pages_are_mapped_again_with_the_same_bytes() {
        let pages = ProgramPages::of_this_process().unwrap();
        assert!(pages.parts.len() >= 2, "the program has code and constants: {:?}", pages.parts);
        let code = parts_of as *const () as usize;
        assert!(
            pages.parts.iter().any(|part| part.contains(&code)),
            "the code is in one of {:?}",
            pages.parts
        );
        for _ in 0..3 {
            pages.release().unwrap();
            assert_eq!(TEXT, ["a text", "in the", "program"].join(" "));
            assert_eq!(parts_of(SMAPS, "/lib/libc.so.6"), std::slice::from_ref(&(0xc000..0xd000)));
        }
        // Other tests of this process run meanwhile, and the kernel maps 16 pages for one.
        let whole: usize = pages.parts.iter().map(Range::len).sum();
        assert!(resident_file_bytes().unwrap() > 0);
        assert!(whole > 64 * 1024, "{whole} bytes");
    }
}
