//! crossbeam-channel on OS threads: `bounded(1)`, which spins before it parks.

/// A channel with room for one value.
pub(crate) fn channel() -> (impl Fn(u64) + Send + 'static, impl Fn() -> u64 + Send + 'static) {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    (
        // The last value of a ring finds nobody, which is no mistake.
        move |value| {
            let _ = sender.send(value);
        },
        move || receiver.recv().expect("the sender outlives the last round"),
    )
}
