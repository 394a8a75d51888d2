//! A deadlock that goes through two languages is found, and told with the names of both. Alone in its program: it is certain only while nobody
//! outside could help.

#![cfg(feature = "mutex")]

mod common;

use common::Mailbox;
use proto_runtime::core::{Finding, ProcessError, Runtime};
use proto_runtime::mutex::sync::Mutex;
use proto_runtime::mutex::thread;

#[test]
fn it_ends_the_process_with_a_report_of_both() {
    for controllers in [1, 2] {
        let runtime = Runtime::builder().controllers(controllers).pin(false).build().unwrap();
        let outcome = runtime.run(|| {
            let (mailbox, lock, held) = (Mailbox::<u32>::new(), Mutex::new(()), Mailbox::new());
            thread::scope(|s| {
                let holder = thread::Builder::new().name("holder".into());
                holder
                    .spawn_scoped(s, || {
                        let _guard = lock.lock().unwrap();
                        held.send(());
                        mailbox.receive()
                    })
                    .unwrap();
                let sender = thread::Builder::new().name("sender".into());
                sender
                    .spawn_scoped(s, || {
                        held.receive();
                        // Who would receive holds it.
                        let _guard = lock.lock().unwrap();
                        mailbox.send(7);
                    })
                    .unwrap();
            });
        });
        let report = match outcome {
            Err(ProcessError::Deadlock(report)) => report,
            other => panic!("a deadlock, not {other:?}"),
        };
        assert!(report.certain, "{report}");
        assert_eq!(report.finding, Finding::AllWait, "{report}");
        let wait_of = |name: &str| {
            let found = report.waits.iter().find(|wait| wait.vp.to_string().contains(name));
            found.unwrap_or_else(|| panic!("{name} is missing: {report}"))
        };
        let (holder, sender) = (wait_of("holder"), wait_of("sender"));
        assert!(holder.request.contains("Receive") && holder.environment.contains("Meeting"), "{report}");
        assert!(!sender.environment.contains("Meeting"), "{report}");
        let of_lock = sender.holder.as_ref().unwrap_or_else(|| panic!("the lock has a holder: {report}"));
        assert!(of_lock.vp.to_string().contains("holder"), "{report}");
        for wait in [holder, sender] {
            assert!(
                wait.sent_from.file().ends_with("deadlock_of_two_languages.rs"),
                "the user's line is told: {report}"
            );
        }
    }
}
