#!/usr/bin/env bash
# The slow tools, each on what it can see: sanitizers, Miri, models at a higher bound, valgrind, odd machines, old compilers.
# About an hour on two cores; every step is by itself, and the end lists them all.
#
#     ci/deep.sh                  everything
#     ci/deep.sh asan miri-core   only these
#     MIRI_SEEDS=64 LOOM_BOUND=5 ci/deep.sh miri-core loom
#     MIRI_TESTS='latent lifecycle' ci/deep.sh miri-runtime
#
# Each step builds in a folder of its own below target/deep, because each has its own flags.
source "$(dirname "$0")/lib.sh"

seeds="${MIRI_SEEDS:-8}"
bound="${LOOM_BOUND:-4}"
rounds="${STRESS_ROUNDS:-10}"
deep="$ci_target/deep"
ours=(-p proto-arch -p proto-core -p proto-lang-mutex -p proto-lang-tasks)
# Sanitizers are given to the program only, not to build scripts: cargo makes that difference when a target is named.
triple="$ci_host"

only=("$@")
wanted() {
    [ ${#only[@]} -eq 0 ] && return 0
    local name
    for name in "${only[@]}"; do [ "$name" = "$1" ] && return 0; done
    return 1
}

# What is missing is installed where that is allowed.
if command -v rustup >/dev/null; then
    rustup toolchain list | grep -q '^nightly' ||
        rustup toolchain install nightly --profile minimal || echo "no nightly toolchain could be installed"
    for component in miri rust-src; do
        rustup component list --toolchain nightly --installed 2>/dev/null | grep -q "^$component" ||
            rustup component add --toolchain nightly "$component" || echo "nightly's $component could not be installed"
    done
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v valgrind >/dev/null; then
    { apt-get update && apt-get install -y --no-install-recommends valgrind; } >/dev/null 2>&1 || true
fi
nightly() { cargo +nightly --version >/dev/null 2>&1; }

# ---- AddressSanitizer: use after free, stack and heap overruns, on the real switches of stacks.
#
# - corosensei/sanitizer: it tells ASan where each stack begins and ends; without it every unwinding is a false report.
# - detect_stack_use_after_return=0: ASan's fake stacks of fibers that have ended are never freed (measured: 2 GB after
#   136 000 fibers).
# - handle_segv, handle_sigbus, handle_abort=0: the tests of our overflow report look at how a process dies; ASan's own handlers
#   would come first.
# - detect_leaks=0: the leak checker takes OS threads' stacks as roots, not those of fibers, so everything that only a suspended VP
#   holds would be reported. Leaks are Miri's to find (below).
# - skipped, an_overflow_names_the_owner_and_the_remedy: its frame of 300 KB is written by ASan's red zones before the compiler's probes
#   touch the guard, so the program dies of another address than without ASan.
# - skipped, without_memory_for_stacks_: they limit the address space of a child, and ASan's shadow does not fit in.
# - skipped, recursion_deeper_than_a_stack_goes_on_on_the_next: it has stacks of 32 KiB, too few for what ASan makes of one level of its calls.
if wanted asan; then
    if nightly; then
        step asan env CI_TRIPLE="$triple" RUSTFLAGS="-Zsanitizer=address" \
            ASAN_OPTIONS="detect_stack_use_after_return=0:handle_segv=0:handle_sigbus=0:handle_abort=0:detect_leaks=0" \
            timeout --kill-after=10 1200 cargo +nightly test "${ours[@]}" --lib --tests --no-fail-fast \
            --features corosensei/sanitizer --target "$triple" --target-dir "$deep/asan" \
            -- --skip an_overflow_names_the_owner_and_the_remedy \
            --skip without_memory_for_stacks_ --skip recursion_deeper_than_a_stack_goes_on_on_the_next
    else
        skip asan "needs a nightly toolchain"
    fi
fi

# ---- ThreadSanitizer: data races of the lock-free kernels and of user data behind them, on real threads.
#
# - -Zbuild-std: std has to be built with it too (needs rust-src).
# - only the kernels, `Guarded` and the parts of proto-arch without fibers: TSan has to be told of every switch of stacks, else it dies of
#   its own shadow stack in most runs.
# - fences and `membarrier` are unknown to TSan. The kernels that use them publish by release stores as well, so nothing is suppressed;
#   a report in `latent` or `sleep` has to be compared with what loom says of it.
if wanted tsan; then
    if nightly && rustup component list --toolchain nightly --installed 2>/dev/null | grep -q '^rust-src'; then
        step tsan env RUSTFLAGS="-Zsanitizer=thread" timeout --kill-after=10 900 \
            cargo +nightly test -Zbuild-std -p proto-core --lib --target "$triple" --target-dir "$deep/tsan" \
            -- kernel:: guarded::
        step tsan-arch env RUSTFLAGS="-Zsanitizer=thread" timeout --kill-after=10 900 \
            cargo +nightly test -Zbuild-std -p proto-arch --lib --target "$triple" --target-dir "$deep/tsan" \
            -- park:: clock:: topology:: pin::
    else
        skip tsan "needs a nightly toolchain with rust-src"
    fi
fi

# ---- Miri: undefined behaviour by the letter, weak memory, leaks; each test under many schedules.
#
# - The build uses the thread-backed fibers by itself: Miri knows no assembly.
# - many-seeds: another schedule, and other addresses and stale loads, for each.
# - strict-provenance: pointers are made from pointers only.
# - disable-isolation: clocks and environment variables are the host's.
# - ignore-leaks (runtime tests only): controllers' blocks live in type-stable memory that is never given back, and a stack that was not
#   unwound to its base is kept on purpose. Tests count drops themselves.
miri="-Zmiri-strict-provenance -Zmiri-disable-isolation"
if nightly && cargo +nightly miri --version >/dev/null 2>&1; then
    wanted miri-arch && step miri-arch env MIRIFLAGS="-Zmiri-many-seeds=0..$seeds $miri" timeout --kill-after=10 1800 \
        cargo +nightly miri test -p proto-arch --lib --target-dir "$deep/miri"
    wanted miri-core && step miri-core env MIRIFLAGS="-Zmiri-many-seeds=0..$seeds $miri" timeout --kill-after=10 3600 \
        cargo +nightly miri test -p proto-core --lib --target-dir "$deep/miri"
    # Whole runtimes, each VP on a thread of its own: the tests in which memory changes hands most. All of them take half a day:
    # MIRI_TESTS='*' ci/deep.sh miri-runtime
    runtime_tests=()
    set -f # the star is cargo's
    for name in ${MIRI_TESTS:-environments tokens forwarding user_values select locals os_threads external task_scope task_scope_ends task_series}; do
        runtime_tests+=(--test "$name")
    done
    set +f
    wanted miri-runtime && step miri-runtime env MIRIFLAGS="$miri -Zmiri-ignore-leaks" timeout --kill-after=10 3600 \
        cargo +nightly miri test -p proto-core "${runtime_tests[@]}" --no-fail-fast --target-dir "$deep/miri"
    # The other rules of aliasing that are under discussion.
    wanted miri-tree && step miri-tree env MIRIFLAGS="-Zmiri-tree-borrows $miri" timeout --kill-after=10 1800 \
        cargo +nightly miri test -p proto-core --lib --target-dir "$deep/miri"
else
    wanted miri-core && skip miri "needs a nightly toolchain with miri"
fi

# ---- loom: interleavings of the kernels, with more preemptions than the daily run has.
#
# - LOOM_TURNS=0: without the accesses that make loom look at every order (crates/proto-core/src/sync/model.rs); with them so many
#   preemptions take days. The daily run has them.
# - skipped, without_: the twins that must fail, which the daily run has; some do so only with those accesses.
wanted loom && step loom env RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS="$bound" LOOM_TURNS=0 timeout --kill-after=10 1800 \
    cargo test --release -p proto-core --lib --target-dir "$ci_target/loom" -- --skip without_

# ---- valgrind: reads of memory that was never written, on release binaries; our arena tells it of every stack.
#
# - skipped, stack::tests: without guard markers, which valgrind does not know, each stack is a mapping, and it ends at its limit
#   of segments.
# - one test at a time: valgrind runs one thread at a time anyway, and its report then names the test.
if wanted valgrind; then
    if command -v valgrind >/dev/null; then
        runner="CARGO_TARGET_$(printf '%s' "$triple" | tr 'a-z-' 'A-Z_')_RUNNER"
        step valgrind env "$runner=valgrind -q --error-exitcode=9" timeout --kill-after=10 1800 \
            cargo test --release -p proto-arch -p proto-core --lib --target-dir "$deep/valgrind" \
            -- --test-threads=1 --skip stack::tests
    else
        skip valgrind "valgrind is not installed"
    fi
fi

# ---- One processor: whoever spins for somebody who cannot run is found here, by the watchdog.
if wanted one-processor; then
    if command -v taskset >/dev/null; then
        first="$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)"
        step one-processor guard 480 taskset -c "$first" \
            cargo test --release "${ours[@]}" --lib --tests --no-fail-fast --target-dir "$deep/release"
    else
        skip one-processor "taskset is not installed"
    fi
fi

# ---- Again and again: a race that happens once in some runs.
if wanted stress; then
    for ((round = 1; round <= rounds; round++)); do
        step "stress-$round" guard 240 cargo test -q --release "${ours[@]}" --lib --tests --target-dir "$deep/release"
    done
fi

# ---- Tasks in numbers: random graphs and random trees against what they give in turn, and one producer of ten million tasks.
if wanted tasks; then
    step tasks-random env PROTO_GRAPHS=100000 PROTO_TREES=20000 timeout --kill-after=10 3000 \
        cargo test --release -p proto-lang-tasks --test dataflow_random --test forkjoin_random --target-dir "$deep/release"
    step tasks-memory env PROTO_TASKS=10000000 timeout --kill-after=10 900 \
        cargo test --release -p proto-lang-tasks --test memory --target-dir "$deep/release"
fi

# ---- panic=abort: nothing unwinds, cancels are refused, and everything else works.
if wanted abort; then
    for one in "-p proto-core --example cancel" "--example new_language"; do
        # shellcheck disable=SC2086
        step "abort-${one##* }" env CARGO_PROFILE_RELEASE_PANIC=abort timeout --kill-after=10 600 \
            cargo run --release $one --target-dir "$deep/abort"
    done
    # The same program where cancels are carried out.
    step cancel timeout --kill-after=10 600 cargo run --release -p proto-core --example cancel --target-dir "$deep/release"
fi

# ---- The oldest compiler that Cargo.toml promises.
if wanted msrv; then
    oldest="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"
    if rustup toolchain list 2>/dev/null | grep -q "^$oldest" ||
        rustup toolchain install "$oldest" --profile minimal >/dev/null 2>&1; then
        step msrv cargo "+$oldest" check "${ours[@]}" -p proto-runtime --lib --target-dir "$deep/msrv"
    else
        skip msrv "Rust $oldest is not installed and could not be"
    fi
fi

summary
