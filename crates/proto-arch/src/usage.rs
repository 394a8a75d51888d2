//! How long an OS thread has really run, as seen from another.
//!
//! Time by the wall says little about a thread on a machine that is shared: one that has not moved for ten milliseconds
//! may have computed, or the system may have given its processor to somebody else.

use std::time::Duration;

/// The processor time of one OS thread; any thread may read it.
///
/// # Examples
///
/// One thread reads how much another has computed:
///
/// ```
/// use proto_arch::usage::ThreadTime;
/// use std::sync::mpsc;
///
/// let (sender, receiver) = mpsc::channel();
/// let (stop, stopped) = mpsc::channel::<()>();
/// let worker = std::thread::spawn(move || {
///     sender.send(ThreadTime::of_this_thread()).expect("it is received");
///     let _ = stopped.recv();
/// });
/// let time = receiver.recv()?;
/// assert_eq!(time.as_ref().and_then(ThreadTime::read).is_some(), time.is_some());
/// drop(stop);
/// worker.join().expect("it only waits");
/// # Ok::<(), mpsc::RecvError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadTime {
    #[cfg(not(miri))]
    clock: libc::clockid_t,
}

#[cfg(not(miri))]
impl ThreadTime {
    /// That of the calling thread. `None` where the system cannot tell.
    ///
    /// ```
    /// # if cfg!(not(miri)) {
    /// let time = proto_arch::usage::ThreadTime::of_this_thread().unwrap();
    /// let before = time.read().unwrap();
    /// while time.read() == Some(before) {}
    /// # }
    /// ```
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        let mut clock = 0;
        // SAFETY: takes no argument, and always succeeds.
        let this = unsafe { libc::pthread_self() };
        // SAFETY: `this` is a thread that lives, and `clock` takes a clock's number.
        let error = unsafe { libc::pthread_getcpuclockid(this, &raw mut clock) };
        (error == 0).then_some(ThreadTime { clock })
    }

    /// How long the thread has run. `None` once it has ended; but the system may give its number to a later thread of the program, whose time
    /// this is then.
    #[must_use]
    pub fn read(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` takes a time; a clock that is not there is an error.
        let error = unsafe { libc::clock_gettime(self.clock, &raw mut time) };
        if error != 0 {
            return None;
        }
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
}

#[cfg(miri)]
impl ThreadTime {
    /// The interpreter cannot tell.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        None
    }

    /// The interpreter cannot tell.
    #[must_use]
    pub fn read(&self) -> Option<Duration> {
        None
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;

    use super::ThreadTime;

    #[test]
    fn it_stands_still_while_the_thread_does_and_is_gone_with_it() {
        let (send, receive) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let time = ThreadTime::of_this_thread().expect("Linux tells");
            let first = time.read().expect("this thread lives");
            while time.read() == Some(first) {}
            send.send(time).expect("the test receives");
            let _ = gone.recv();
        });
        let time = receive.recv().expect("the thread sends");
        // On its way to sleep it may still run a little: until two readings agree.
        while time.read().expect("it lives") != {
            std::thread::yield_now();
            time.read().expect("it lives")
        } {}
        drop(go);
        thread.join().expect("it ends well");
        while time.read().is_some() {
            std::thread::yield_now();
        }
    }
}
