//! A line of text made and written inside a signal handler: a fixed buffer and one system call.

use std::fmt;

/// Room for a line; what does not fit is cut.
const CAPACITY: usize = 1024;

/// A line that is put together without allocation, and written to standard error in one piece.
///
/// # Examples
///
/// ```
/// use proto_arch::overflow::ReportLine;
/// use std::fmt::Write as _;
///
/// let mut line = ReportLine::new();
/// let _ = write!(line, "{} of {}", 3, 4);
/// assert_eq!(line.as_bytes(), b"3 of 4");
/// ```
pub struct ReportLine {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl ReportLine {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; CAPACITY], len: 0 }
    }

    /// What is in it so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Writes it, and an end of line, to standard error. Async-signal-safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_arch::overflow::ReportLine;
    /// use std::fmt::Write as _;
    ///
    /// /// For a signal handler.
    /// fn tell(signal: i32) {
    ///     let mut line = ReportLine::new();
    ///     let _ = write!(line, "signal {signal}");
    ///     line.emit();
    /// }
    /// tell(10);
    /// ```
    pub fn emit(&mut self) {
        let end = self.len.min(CAPACITY - 1);
        self.bytes[end] = b'\n';
        let mut rest = &self.bytes[..=end];
        while !rest.is_empty() {
            // SAFETY: the bytes are initialised and outlive the call.
            let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                // Nobody can be told that nobody can be told.
                _ => return,
            }
        }
    }
}

impl Default for ReportLine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Write for ReportLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = CAPACITY - self.len;
        let taken = text.len().min(room);
        // `get`, not an index: a handler must not panic.
        let (Some(to), Some(from)) = (self.bytes.get_mut(self.len..self.len + taken), text.as_bytes().get(..taken))
        else {
            return Err(fmt::Error);
        };
        to.copy_from_slice(from);
        self.len += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Debug for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReportLine").field(&String::from_utf8_lossy(self.as_bytes())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn what_does_not_fit_is_cut() {
        let mut line = ReportLine::new();
        assert!(line.write_str(&"x".repeat(CAPACITY - 1)).is_ok());
        assert!(line.write_str("yz").is_err());
        assert!(line.write_str("z").is_err());
        assert_eq!(line.as_bytes().len(), CAPACITY);
        assert_eq!(line.as_bytes()[CAPACITY - 2..], *b"xy");
    }
}
