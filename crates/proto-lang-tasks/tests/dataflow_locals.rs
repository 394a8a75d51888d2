//! Each task is one of its own, wherever it runs.

use std::cell::Cell;

use proto_core::{Runtime, vp_local};
use proto_lang_tasks::{Data, dataflow};

vp_local! {
    static SEEN: Cell<u32> = Cell::new(0);
}

#[test]
fn a_task_does_not_see_the_vp_locals_of_the_one_before_it() {
    let chain = Data::new(0);
    Runtime::builder()
        .controllers(1)
        .build()
        .expect("a runtime")
        .run(|| {
            dataflow(|df| {
                for _ in 0..10 {
                    df.task().inout(&chain).run(|chain| {
                        let before = SEEN.with(|seen| seen.replace(1));
                        *chain += before;
                    });
                }
            });
        })
        .expect("the process ends well");
    assert_eq!(chain.into_inner(), 0);
}
