#!/usr/bin/env bash
# Every test there is that needs no special tool: units, integration, examples, documentation (in which stands what must
# not compile), the same optimised, and the models of the lock-free kernels. A few minutes.
source "$(dirname "$0")/lib.sh"

# Nothing here takes a tenth of this; a test that does hangs.
limit=240

step tests guard "$limit" cargo test --workspace --no-fail-fast

# Optimised: the compiler may then keep the address of a thread-local across a call, and inlining changes what a switch of
# stacks has to save. No documentation tests: their library is the same.
step tests-release guard "$limit" cargo test --release -p proto-arch -p proto-core -p proto-lang-mutex -p proto-lang-tasks -p proto-runtime \
    --lib --tests --no-fail-fast

# Virtual processors that move after they have started; and that the compiler keeps no address of a thread-local across a move.
step migrate guard "$limit" cargo test --release -p proto-core --features migrate --test migrate
step thread-locals timeout --kill-after=10 600 ci/thread_locals.sh "$ci_target/asm"

# All interleavings of the kernels with up to two preemptions; ci/deep.sh goes further. In a folder of its own: another
# RUSTFLAGS would throw away what the steps above have built.
step models env RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 \
    timeout --kill-after=10 600 cargo test --release -p proto-core --lib --target-dir "$ci_target/loom"

summary
