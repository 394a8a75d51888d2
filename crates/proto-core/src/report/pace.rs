//! How often the runtime speaks on standard error by itself.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

/// Lets one message a second pass.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace(Mutex::new(None))
    }

    /// Whether to say something now. `true` at most once a second.
    #[must_use]
    pub(crate) fn once_in_a_while(&self) -> bool {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{PAUSE, Pace};

    #[test]
    fn one_message_a_second_passes() {
        let pace = Pace::new();
        let start = Instant::now();
        assert!(pace.at(start), "the first");
        assert!(!pace.at(start));
        assert!(!pace.at(start + PAUSE - Duration::from_millis(1)));
        assert!(pace.at(start + PAUSE));
        assert!(!pace.at(start + PAUSE + Duration::from_millis(999)), "counted from the last that passed");
    }
}
